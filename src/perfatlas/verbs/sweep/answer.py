"""`sweep`: a study answered in blocks, each kept as soon as it is finished."""

from __future__ import annotations

import datetime as dt
import heapq
import io
import json
import re
import time
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from perfatlas import files, studies
from perfatlas.answer import Answer, AnsweredRun, Evidence
from perfatlas.commands.output import table_function
from perfatlas.files import load_arrow
from perfatlas.quantities import (
    InvalidSpecError,
    UsageError,
    counted,
    did_you_mean,
    repr_for_error,
)
from perfatlas.studies import sweeps

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    Watch = Callable[[sweeps.Tally], None]

Columns = dict[str, Sequence[Any]]
POINT: Final = "point"
MET: Final = "meets_constraints"
BEST_ROWS: Final = 10  # kept of each block
MAX_REASON_LENGTH: Final = 160  # characters
_NUMBER: Final = re.compile(r"(?<![A-Za-z_0-9.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


@dataclass
class _Block:
    """A block while it is answered.

    Attributes:
        study: The study.
        points: Its columns so far.
        stats: What it adds to the summary.
    """

    study: sweeps.Study
    points: studies.PointColumns
    stats: dict[str, Any] = field(default_factory=dict)

    @property
    def columns(self) -> Columns:
        """The columns of its points."""
        return self.points.columns

    @property
    def objective(self) -> str:
        """The column that ranks rows."""
        name = sweeps.RESULT_PREFIX + self.study.objective
        return name if name in self.columns else self.study.objective


def answer_block(run: str, number: int) -> tuple[bytes, dict[str, Any]]:
    """Return the answers of a block as a Parquet file, and what they add to the summary.

    Args:
        run: The description of the run, as JSON.
        number: The block, from 0.

    Raises:
        InvalidSpecError: This process has another version of perfatlas, or an expression mixes
            texts and numbers.
    """
    described, study = _read_run(run)
    size = described["block_points"]
    first, last = number * size, min((number + 1) * size, described["points"])
    columns: Columns = {POINT: range(first, last)}
    columns |= study.points.columns(first, last)
    block = _Block(study, studies.PointColumns(columns, study.inputs, last - first))
    known = [
        name for name, expression in study.derived.items() if study.is_known_before(expression)
    ]
    before = [constraint for constraint in study.constraints if study.is_known_before(constraint)]
    after = [constraint for constraint in study.constraints if constraint not in before]
    for name in known:
        block.points.derive(name, study.derived[name])
    if before:
        block.stats["left_out"] = block.points.constrain(before)
    if block.points.rows:
        answers = table_function(study.command)(_questions(block), block.columns[POINT])
        taken = {
            name: sweeps.RESULT_PREFIX + name if name in block.columns else name for name in answers
        }
        block.points.columns |= {taken[name]: cells for name, cells in answers.items()}
        for name in study.derived:
            if name not in known:
                block.points.derive(name, study.derived[name])
        if after:
            failed = [bool(code) for code in block.columns["error_code"]]
            block.columns[MET], block.stats["not_met"] = block.points.met(after, failed)
    _count(block)
    return _parquet(block), block.stats


@cache
def _read_run(run: str) -> tuple[dict[str, Any], sweeps.Study]:
    """Return the description and the study of a run, read once by each process."""
    described = json.loads(run)
    studies.check_versions(described)
    return described, sweeps.read_study(described["study"], described["name"])


def _questions(block: _Block) -> dict[str, Sequence[Any]]:
    """Return the columns of the verb's fields (K); overrides are part of systems and models."""
    study = block.study
    asked = block.points.same(study.fixed)
    changes: dict[str, dict[str, Sequence[Any]]] = {}
    fields = study.fields
    for name, cells in block.columns.items():
        if sweeps.is_override(name) and name in study.points.names:
            field, path = sweeps.overridden(name)
            changes.setdefault(field, {})[path] = cells
        elif name in fields:
            asked[name] = cells if isinstance(cells, files.DictionaryCells) else list(cells)
    for field, paths in changes.items():
        if field not in asked:
            raise InvalidSpecError(
                f"{next(iter(paths))} varies, and {field} is not set: add it to [scenario] or"
                " [vary]"
            )
        asked[field] = _with_overrides(asked[field], paths)
    return asked


def _with_overrides(names: Sequence[Any], changes: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return systems or models with overrides (K), each distinct text made once."""
    texts: dict[tuple[Any, ...], str] = {}
    found = []
    for key in zip(names, *changes.values(), strict=True):
        if key not in texts:
            head, _, inside = str(key[0]).rstrip().removesuffix("}").partition("{")
            parts = [inside] if inside.strip() else []
            parts += [
                f"{path}={str(value).lower() if isinstance(value, bool) else value!r}".replace(
                    "'", ""
                )
                for path, value in zip(changes, key[1:], strict=True)
            ]
            texts[key] = f"{head}{{{', '.join(parts)}}}"
        found.append(texts[key])
    return found


def _count(block: _Block) -> None:
    """Add rows, refusals and the best rows to what the block adds to the summary."""
    columns, stats = block.columns, block.stats
    codes = columns.get("error_code", [])
    refusals: dict[str, list[Any]] = {}
    reasons: dict[str, str] = {}
    for point, code, text in zip(columns[POINT], codes, columns.get("error", []), strict=False):
        if code:
            reason = reasons.get(text)
            if reason is None:
                reason = reasons[text] = _NUMBER.sub("N", str(text))[:MAX_REASON_LENGTH]
            refusals.setdefault(f"{code}: {reason}", [0, point, str(text)])[0] += 1
    stats |= {
        "rows": block.points.rows,
        "failed": sum(map(bool, codes)),
        "refusals": refusals,
        "bound": list(columns.get("tier", ())).count("bound"),
        "best": _best(block),
    }
    if block.study.base:
        stats["base"] = _base(block)


def _best(block: _Block) -> list[dict[str, Any]]:
    """Return the best rows by the objective: varied and derived values and the objective."""
    study, columns, name = block.study, block.columns, block.objective
    if name not in columns:
        return []
    sign = 1.0 if sweeps.is_higher_better(study.objective) else -1.0
    score = {
        row: sign * value for row, value in block.points.finite(name, columns.get(MET)).items()
    }
    best = heapq.nsmallest(BEST_ROWS, score, key=lambda row: (-score[row], row))
    shown = [POINT, *study.points.names, *study.derived, name, f"{name}_low", f"{name}_high"]
    shown = [key for key in dict.fromkeys((*shown, "tier")) if key in columns]
    return [{key: columns[key][row] for key in shown} for row in best]


def _base(block: _Block) -> dict[str, float]:
    """Return the objective of the base rows, by what other rows have in common with them."""
    study, columns = block.study, block.columns
    if block.objective not in columns:
        return {}
    found = {}
    for index, value in block.points.finite(block.objective).items():
        row = {name: columns[name][index] for name in study.points.names}
        if all(row[name] == study.base[name] for name in study.base):
            found[sweeps.base_key(row, study.points.names, study.base)] = value
    return found


def _parquet(block: _Block) -> bytes:
    """Return the block as a Parquet file whose metadata has what it adds to the summary."""
    pa = load_arrow()
    pq = load_arrow("parquet")
    last = [name for name in (MET, *sweeps.STATUS) if name in block.columns]
    order = [*(name for name in block.columns if name not in last), *last]
    columns = {name: files.arrow_column(name, block.points.stored(name)) for name in order}
    table = pa.table(columns)
    text = json.dumps(block.stats, default=_plain, allow_nan=False)
    table = table.replace_schema_metadata({studies.STATS: text.encode()})
    content = io.BytesIO()
    pq.write_table(table, content, compression="zstd", write_page_checksum=True)
    return content.getvalue()


def _plain(value: Any) -> Any:  # noqa: ANN401 - a numpy number
    return value.item() if hasattr(value, "item") else str(value)


Executor = Literal["processes", "dask"]
MAX_BLOCK: Final = 16_384  # points in memory of one process
MANY_SYSTEMS: Final = 1024  # points of a block whose systems all differ; each is kept
ROW_BLOCK: Final = 64  # points of a verb that answers row by row
MIN_BLOCKS: Final = 16  # of a long study, so that processes share it and results come early
SMALL_BLOCK: Final = 256
MAX_POINTS: Final = 100_000_000  # hours of a verb that answers tables, and 10 GB of results
MAX_BLOCKS: Final = 100_000  # each is a file, and its best rows are in memory
_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, kw_only=True)
class Sweep(AnsweredRun):
    """An answered study; `results` has its counts and best rows."""

    run: studies.RunFolder

    def _beside(self) -> dict[str, Any]:
        return {"columns": self.run.pictured()}

    @cached_property
    def columns(self) -> dict[str, list[Any]]:
        """All rows as columns of plain values, in order of points."""
        return self.run.columns()


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
    run = studies.RunFolder(studies.runs_folder() / described["id"])
    started = time.perf_counter()
    with run.locked():
        run.create(described, text)
        described = run.describe()
        found = run.summary()
        if resume and not all(map(run.is_whole, range(described["blocks"]))):
            found = None  # blocks of a complete run were damaged afterwards
        tally = sweeps.Tally(sweeps.read_study(raw, name), described)
        if found is None:
            kept = _kept_blocks(run, described, tally, resume=resume)
            left = [number for number in range(described["blocks"]) if number not in kept]
            results = _results(
                described, left, jobs or studies.usable_processors(), executor, scheduler
            )
            studies.put_run(run)
            with closing(results):
                _keep(run, results, tally, watch)
            found = tally.summary()
            run.finish(found)
    studies.put_run(run)
    answer = _answer(described, found, tally, time.perf_counter() - started)
    return Sweep(answer=answer, run=run)


def _read(study: Mapping[str, Any] | str | Path) -> tuple[dict[str, Any], str, str]:
    """Return the tables of a study, its text and its name."""
    if isinstance(study, (str, Path)) and _is_shipped(study):
        name, text = str(study), studies.shipped_studies()[str(study)]
        raw = tomllib.loads(text)
    elif isinstance(study, (str, Path)):
        raw = files.read_toml(study)
        name, text = Path(study).stem, Path(study).read_text("utf-8")
    else:
        raw = json.loads(json.dumps(dict(study)))
        name, text = "study", files.format_toml(raw)
    given = raw.get("name", name)
    if not isinstance(given, str) or not given:
        raise InvalidSpecError(f"{study}: name = {given!r}: expected a text")
    return raw, text, _NAME.sub("-", given)[:60].strip("-") or "study"


def _is_shipped(study: str | Path) -> bool:
    """Return whether a study comes with perfatlas; a file of that name wins."""
    name = str(study)
    if files.exists(study) or "/" in name or name.endswith(".toml"):
        return False
    if name not in studies.shipped_studies():
        hint = (
            did_you_mean(name, studies.shipped_studies())
            or f"; they are {', '.join(studies.shipped_studies())}"
        )
        raise InvalidSpecError(
            f"{repr_for_error(name)} is neither a file nor a study of `perfatlas catalog studies`"
            f"{hint}"
        )
    return True


def describe(raw: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the description of a run: what is asked, versions, hashes, and its blocks.

    Args:
        raw: The tables of the study.

    Raises:
        InvalidSpecError: The study is invalid.
    """
    study = sweeps.read_study(raw, name)
    size = block_points(study)
    most = min(size * MAX_BLOCKS, MAX_POINTS)
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
        "versions": studies.versions(),
        "data_hashes": studies.data_hashes(),
        "files": studies.file_hashes(values),
        "points": study.points.size,
        "block_points": size,
        "blocks": -(-study.points.size // size),
    }
    digest = files.content_hash(json.dumps(same, sort_keys=True)).removeprefix("sha256:")
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    return {"id": f"{name}-{digest[:10]}", "name": name, "created": now, **same}


def block_points(study: sweeps.Study) -> int:
    """Return the number of points of a block, which depends on the study alone."""
    points = study.points
    if not study.is_tabled:
        return max(1, min(ROW_BLOCK, points.size // MIN_BLOCKS))
    most = MAX_BLOCK
    systems = 1
    for axis in points.axes:
        systems *= axis.size if any(map(sweeps.is_hardware, axis.names)) else 1
    sampled = () if points.sample is None else points.sample.names
    if systems > MANY_SYSTEMS or any(
        sweeps.is_hardware(sampled_name.name) for sampled_name in sampled
    ):
        most = MANY_SYSTEMS
    return min(most, max(SMALL_BLOCK, points.size // MIN_BLOCKS))


def _kept_blocks(
    run: studies.RunFolder, described: Mapping[str, Any], tally: sweeps.Tally, *, resume: bool
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
        return studies.dask_results(answer_block, text, numbers, jobs, scheduler)
    return studies.local_results(answer_block, text, numbers, jobs)


def _keep(
    run: studies.RunFolder,
    results: Iterator[tuple[int, Any]],
    tally: sweeps.Tally,
    watch: Watch | None,
) -> None:
    """Write each block as it arrives; an error or Ctrl-C says what is kept."""
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
    described: Mapping[str, Any], found: Mapping[str, Any], tally: sweeps.Tally, elapsed_s: float
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
