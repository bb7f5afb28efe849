"""`sweep`: a study answered in blocks, each kept as soon as it is finished."""

from __future__ import annotations

import datetime as dt
import json
import re
import time
import tomllib
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from perfatlas.answer import Answer, AnsweredRun, Evidence
from perfatlas.files import content_hash, exists, format_toml, read_toml
from perfatlas.quantities import (
    InvalidSpecError,
    UsageError,
    counted,
    did_you_mean,
    repr_for_error,
)
from perfatlas.studies import (
    RunFolder,
    dask_results,
    local_results,
    put_run,
    runs_folder,
    shipped_studies,
    usable_processors,
)
from perfatlas.verbs.sweep.block import answer_block
from perfatlas.verbs.sweep.names import is_hardware
from perfatlas.verbs.sweep.study import read_study
from perfatlas.verbs.sweep.summary import Tally
from perfatlas.verbs.sweep.versions import data_hashes, file_hashes, versions

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from perfatlas.verbs.sweep.study import Study

    Watch = Callable[[Tally], None]

Executor = Literal["processes", "dask"]
LARGEST_BLOCK: Final = 16_384  # points in memory of one process
MANY_SYSTEMS: Final = 1024  # points of a block whose systems all differ; each is kept
ROW_BLOCK: Final = 64  # points of a verb that answers row by row
FEWEST_BLOCKS: Final = 16  # of a long study, so that processes share it and results come early
SMALL_BLOCK: Final = 256
MOST_POINTS: Final = 100_000_000  # hours of a verb that answers tables, and 10 GB of results
MOST_BLOCKS: Final = 100_000  # each is a file, and its best rows are in memory
_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, kw_only=True)
class Sweep(AnsweredRun):
    """An answered study; `results` has its counts and best rows.

    Args:
        run: The folder with all rows.
    """

    run: RunFolder

    @cached_property
    def columns(self) -> dict[str, list[Any]]:
        """All rows as columns of plain values, in order of points."""
        blocks = [self.run.read_block(number) for number in range(self.run.describe()["blocks"])]
        names = dict.fromkeys(name for block in blocks for name in block.column_names)
        return {
            name: [
                cell
                for block in blocks
                for cell in (
                    block.column(name).to_pylist()
                    if name in block.column_names
                    else [None] * block.num_rows
                )
            ]
            for name in names
        }


def sweep(
    study: Mapping[str, Any] | str | Path,
    *,
    resume: bool = False,
    jobs: int = 0,
    executor: Executor = "processes",
    scheduler: str = "",
    watch: Watch | None = None,
) -> Sweep:
    """Return the answers of a study, which are kept as a run in the user's data folder.

    Args:
        study: The path of a study file, the name of one that comes with perfatlas, or its tables
            as a mapping.
        resume: Whether to continue an interrupted run of the same study, which is refused
            otherwise, and to compute damaged blocks again.
        jobs: Number of processes; 0 for one per processor.
        executor: processes of this machine, or dask.
        scheduler: Address of a Dask scheduler; "" for a cluster on this machine.
        watch: Called with the counts so far after each block.

    Raises:
        InvalidSpecError: The study is invalid, or the run folder is damaged or cannot be written.
        UsageError: An interrupted run is not to be continued, or another process writes it.
        KeyboardInterrupt: Ctrl-C; its text says what is kept.

    Example:
        >>> import os, tempfile
        >>> from perfatlas import sweep
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     os.environ["XDG_DATA_HOME"] = folder
        ...     found = sweep(
        ...         {
        ...             "verb": "kernel gemm",
        ...             "scenario": {"system": "h200_sxm", "n": 8192, "k": 8192},
        ...             "vary": {"m": [1, 64, 4096]},
        ...         },
        ...         jobs=1,
        ...     )
        ...     found.columns["bound"]
        ['memory', 'memory', 'compute']
        >>> del os.environ["XDG_DATA_HOME"]
    """
    if scheduler and executor != "dask":
        raise UsageError("--scheduler has no effect without --executor dask")
    raw, text, name = _read(study)
    described = describe(raw, name)
    run = RunFolder(runs_folder() / described["id"])
    started = time.perf_counter()
    with run.locked():
        run.create(described, text)
        described = run.describe()
        found = run.summary()
        if resume and not all(map(run.is_whole, range(described["blocks"]))):
            found = None  # blocks of a complete run were damaged afterwards
        tally = Tally(read_study(raw, name), described)
        if found is None:
            kept = _kept_blocks(run, described, tally, resume=resume)
            left = [number for number in range(described["blocks"]) if number not in kept]
            results = _results(described, left, jobs or usable_processors(), executor, scheduler)
            put_run(run)
            with closing(results):
                _keep(run, results, tally, watch)
            found = tally.summary()
            run.finish(found)
    put_run(run)
    answer = _answer(described, found, tally, time.perf_counter() - started)
    return Sweep(answer=answer, run=run)


def _read(study: Mapping[str, Any] | str | Path) -> tuple[dict[str, Any], str, str]:
    """Return the tables of a study, its text and its name."""
    if isinstance(study, (str, Path)) and _is_shipped(study):
        name, text = str(study), shipped_studies()[str(study)]
        raw = tomllib.loads(text)
    elif isinstance(study, (str, Path)):
        raw = read_toml(study)
        name, text = Path(study).stem, Path(study).read_text("utf-8")
    else:
        raw = json.loads(json.dumps(dict(study)))
        name, text = "study", format_toml(raw)
    given = raw.get("name", name)
    if not isinstance(given, str) or not given:
        raise InvalidSpecError(f"{study}: name = {given!r}: expected a text")
    return raw, text, _NAME.sub("-", given)[:60].strip("-") or "study"


def _is_shipped(study: str | Path) -> bool:
    """Return whether a study comes with perfatlas; a file of that name wins.

    Raises:
        InvalidSpecError: It is a name, and neither a file nor a study that comes with perfatlas.
    """
    name = str(study)
    if exists(study) or "/" in name or name.endswith(".toml"):
        return False
    if name not in shipped_studies():
        hint = did_you_mean(name, shipped_studies()) or f"; they are {', '.join(shipped_studies())}"
        raise InvalidSpecError(
            f"{repr_for_error(name)} is neither a file nor a study of `perfatlas catalog studies`"
            f"{hint}"
        )
    return True


def describe(raw: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the description of a run: what is asked, versions, hashes, and its blocks.

    Args:
        raw: The tables of the study.
        name: Its name.

    Raises:
        InvalidSpecError: The study is invalid.
    """
    study = read_study(raw, name)
    size = block_points(study)
    most = min(size * MOST_BLOCKS, MOST_POINTS)
    if study.points.size > most:
        raise InvalidSpecError(
            f"{name}: {study.points.size:,} points are more than the {most:,} of a sweep of"
            f" {study.command}, which take hours and 10 GB; vary fewer names or values, or sample"
            " them ([sample], with fewer points)"
        )
    values: dict[str, Any] = dict(study.fixed)
    for axis in study.points.axes:
        values |= dict(zip(axis.names, axis.values, strict=True))
    same = {
        "command": study.command,
        "study": json.loads(json.dumps(raw, default=str)),
        "versions": versions(),
        "data_hashes": data_hashes(),
        "files": file_hashes(values),
        "points": study.points.size,
        "block_points": size,
        "blocks": -(-study.points.size // size),
    }
    digest = content_hash(json.dumps(same, sort_keys=True)).removeprefix("sha256:")
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    return {"id": f"{name}-{digest[:10]}", "name": name, "created": now, **same}


def block_points(study: Study) -> int:
    """Return the number of points of a block, which depends on the study alone.

    Args:
        study: The study.
    """
    points = study.points
    if not study.is_tabled:
        return max(1, min(ROW_BLOCK, points.size // FEWEST_BLOCKS))
    most = LARGEST_BLOCK
    systems = 1
    for axis in points.axes:
        systems *= axis.size if any(map(is_hardware, axis.names)) else 1
    sampled = () if points.sample is None else points.sample.names
    if systems > MANY_SYSTEMS or any(is_hardware(one.name) for one in sampled):
        most = MANY_SYSTEMS
    return min(most, max(SMALL_BLOCK, points.size // FEWEST_BLOCKS))


def _kept_blocks(
    run: RunFolder, described: Mapping[str, Any], tally: Tally, *, resume: bool
) -> set[int]:
    """Return the finished blocks of an interrupted run; damaged ones are computed again."""
    present = [n for n in range(described["blocks"]) if run.block_path(n).exists()]
    if present and not resume:
        raise UsageError(
            f"run {run.id} has {len(present):,} of {counted(described['blocks'], 'block')} of an"
            f" interrupted sweep: add --resume to continue it, or delete it with `perfatlas runs rm"
            f" {run.id}`"
        )
    whole = {number for number in present if run.is_whole(number)}
    for number in sorted(whole):
        tally.add(number, run.stats(number) or {})
    tally.begin(resumed=len(whole), damaged=sorted(set(present) - whole))
    return whole


def _results(
    described: Mapping[str, Any],
    numbers: Sequence[int],
    jobs: int,
    executor: Executor,
    scheduler: str,
) -> Generator[tuple[int, Any], None, None]:
    text = json.dumps(described)
    if executor == "dask":
        return dask_results(answer_block, text, numbers, jobs, scheduler)
    return local_results(answer_block, text, numbers, jobs)


def _keep(
    run: RunFolder, results: Iterator[tuple[int, Any]], tally: Tally, watch: Watch | None
) -> None:
    """Write each block as it arrives; an error or Ctrl-C says what is kept.

    Raises:
        InvalidSpecError: A block cannot be written.
        KeyboardInterrupt: Ctrl-C.
    """
    try:
        for number, (content, stats) in results:
            run.write_block(number, content)
            tally.add(number, stats)
            if watch is not None:
                watch(tally)
    except InvalidSpecError as problem:
        raise InvalidSpecError(f"{problem}{tally.kept_text()}") from problem
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted{tally.kept_text()}") from None


def _answer(
    described: Mapping[str, Any], found: Mapping[str, Any], tally: Tally, elapsed_s: float
) -> Answer:
    """Return the envelope of a sweep."""
    computed = tally.points - tally.resumed_points
    speed = {
        "elapsed_s": elapsed_s,
        "points_per_s": computed / elapsed_s if computed and not tally.is_old else None,
    }
    return Answer(
        command="sweep",
        scenario={"study": described["study"]},
        results={"run": described["id"], **found, **speed},
        breakdown=[],
        evidence=Evidence(
            tier="",
            data_versions={
                **described["versions"],
                **described["data_hashes"],
                **described["files"],
            },
        ),
        warnings=tuple(tally.warnings()),
    )
