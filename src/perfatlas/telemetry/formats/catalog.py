"""All log formats by name, behind a single function."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.quantities import InvalidSpecError, counted, did_you_mean, repr_for_error
from perfatlas.telemetry.formats.dcgm import read_dcgm
from perfatlas.telemetry.formats.goodput_log import read_goodput_log
from perfatlas.telemetry.formats.job_log import read_job_log
from perfatlas.telemetry.formats.nvsentinel import read_nvsentinel
from perfatlas.telemetry.formats.problem_detector import read_problems, read_rules
from perfatlas.telemetry.formats.run_failures import run_failures
from perfatlas.telemetry.formats.sacct import read_sacct
from perfatlas.telemetry.formats.sacct_json import read_sacct_json
from perfatlas.telemetry.formats.xid_log import COALESCE_S, NO_HELP, read_xid_log
from perfatlas.telemetry.history import joined, read_history

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from perfatlas.telemetry.history import History, JobRuns
    from perfatlas.telemetry.reading import Clock, FileCounts


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """Information that logs omit; each format uses what it needs.

    Args:
        clock: Time zone, year, boot time and host for lines without them.
        coalesce_s: Repeats of an Xid on a GPU within this time are one event [s].
        tolerance_s: Allowed backward steps of times in a job's log [s].
        scraped: Time of each dcgm-exporter scrape, by path.
        rules: Configurations of node-problem-detector.
    """

    clock: Clock = NO_HELP
    coalesce_s: float = COALESCE_S
    tolerance_s: float = 0.0
    scraped: Mapping[str, float | str] = field(default_factory=dict)
    rules: Sequence[str | Path] = ()


class Imported(NamedTuple):
    """Imported logs.

    Args:
        history: The events.
        runs: The runs of jobs, where the format has them.
    """

    history: History
    runs: JobRuns | None


def _sacct(paths: Sequence[str | Path], options: ImportOptions) -> Imported:
    runs = read_sacct(paths, zone=options.clock.zone)
    return Imported(run_failures(runs), runs)


def _sacct_json(paths: Sequence[str | Path], _: ImportOptions) -> Imported:
    runs = read_sacct_json(paths)
    return Imported(run_failures(runs), runs)


def _xid(paths: Sequence[str | Path], options: ImportOptions) -> Imported:
    history = read_xid_log(paths, clock=options.clock, coalesce_s=options.coalesce_s)
    return Imported(history, None)


def _dcgm(paths: Sequence[str | Path], options: ImportOptions) -> Imported:
    return Imported(read_dcgm(paths, scraped=options.scraped), None)


def _problems(paths: Sequence[str | Path], options: ImportOptions) -> Imported:
    if not options.rules:
        raise InvalidSpecError(
            "node-problem-detector needs its configuration (rules, --rules kernel-monitor.json):"
            " to identify its events"
        )
    return Imported(read_problems(paths, [read_rules(path) for path in options.rules]), None)


def _nvsentinel(paths: Sequence[str | Path], options: ImportOptions) -> Imported:
    return Imported(read_nvsentinel(paths, zone=options.clock.zone), None)


def _goodput(paths: Sequence[str | Path], _: ImportOptions) -> Imported:
    return Imported(read_goodput_log(paths), None)


def _jobs(paths: Sequence[str | Path], options: ImportOptions) -> Imported:
    zone, tolerance_s = options.clock.zone, options.tolerance_s
    return Imported(read_job_log(paths, zone=zone, tolerance_s=tolerance_s), None)


def _table(paths: Sequence[str | Path], _: ImportOptions) -> Imported:
    histories = [read_history(path) for path in paths]
    if len(histories) > 1:
        _refuse_shared_events(paths, histories)
    return Imported(joined(histories), None)


def _refuse_shared_events(paths: Sequence[str | Path], histories: Sequence[History]) -> None:
    """Raise for histories that contain the same events of the same log."""
    seen: dict[tuple[object, ...], int] = {}
    for number, history in enumerate(histories):
        shared = 0
        first = number
        for event in _events(history):
            other = seen.setdefault(event, number)
            if other != number:
                shared, first = shared + 1, min(first, other)
        if shared:
            raise InvalidSpecError(
                f"'{paths[number]}' and '{paths[first]}' hold {counted(shared, 'event')} from the"
                " same lines of the same logs, which would count twice: pass each log once"
            )


def _events(history: History) -> Iterator[tuple[object, ...]]:
    """Yield the identity of each event: hash of its log, line, time and names."""
    names = [getattr(history, name).text() for name in ("component", "cause", "node", "device")]
    hashes = [history.files[index].data_hash for index in history.file_E.tolist()]
    rows = zip(hashes, history.line_E.tolist(), history.start_s_E.tolist(), *names, strict=True)
    return (row for row in rows if row[0])


def _refuse_same_log(name: str, files: Sequence[FileCounts]) -> None:
    """Raise for a log that is passed twice; scrapes of an exporter may be equal."""
    known: dict[tuple[str, ...], str] = {}
    for file in files:
        key = (file.data_hash, file.path) if name == "dcgm" else (file.data_hash,)
        if file.total and file.data_hash and key in known:
            raise InvalidSpecError(
                f"'{file.path}' is the same log as '{known[key]}', byte for byte: its events would"
                " count twice; pass each log once"
            )
        known[key] = file.path


_READERS: Final[Mapping[str, Callable[[Sequence[str | Path], ImportOptions], Imported]]] = {
    "sacct": _sacct,
    "sacct_json": _sacct_json,
    "xid": _xid,
    "dcgm": _dcgm,
    "node_problem_detector": _problems,
    "nvsentinel": _nvsentinel,
    "ml_goodput": _goodput,
    "jobs": _jobs,
    "table": _table,
}
FORMATS: Final = tuple(_READERS)


def import_logs(
    name: str,
    paths: Sequence[str | Path],
    options: ImportOptions = ImportOptions(),
) -> Imported:
    """Return the history in logs of one format.

    Args:
        name: One of `FORMATS`.
        paths: The logs, in time order.
        options: Information that the logs omit.

    Raises:
        InvalidSpecError: The format is unknown, there is no log, a log is invalid, or one is passed
            twice.
    """
    if name not in _READERS:
        listed = ", ".join(FORMATS)
        hint = did_you_mean(name, FORMATS)
        raise InvalidSpecError(f"format = {repr_for_error(name)} is not one of {listed}{hint}")
    if not paths:
        raise InvalidSpecError(f"no log file of format {name!r} was specified")
    found = _READERS[name](paths, options)
    if name != "table":  # several tables may contain different events of one log
        _refuse_same_log(name, found.history.files)
    return found
