"""Every format of logs by name: one way in, whatever wrote the log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.quantities import InvalidSpecError, did_you_mean, shown
from perfatlas.telemetry.dcgm import read_dcgm
from perfatlas.telemetry.goodput_log import read_goodput_log
from perfatlas.telemetry.history import joined
from perfatlas.telemetry.history_table import read_history
from perfatlas.telemetry.job_log import read_job_log
from perfatlas.telemetry.nvsentinel import read_nvsentinel
from perfatlas.telemetry.problem_detector import read_problems, read_rules
from perfatlas.telemetry.run_failures import run_failures
from perfatlas.telemetry.sacct import read_sacct
from perfatlas.telemetry.sacct_json import read_sacct_json
from perfatlas.telemetry.xid_log import COALESCE_S, NO_HELP, read_xid_log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from perfatlas.telemetry.history import History
    from perfatlas.telemetry.job_runs import JobRuns
    from perfatlas.telemetry.stamps import Clock


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """What logs leave out; each format reads what it needs.

    Args:
        clock: Zone, year, time of boot and host of lines that do not tell them.
        coalesce_s: Repeats of one Xid on one GPU within so long are one event [s].
        tolerance_s: Times in a job's log may run back so far [s].
        scraped: Path to the time of a scrape of dcgm-exporter.
        rules: Configurations of node-problem-detector.
    """

    clock: Clock = NO_HELP
    coalesce_s: float = COALESCE_S
    tolerance_s: float = 0.0
    scraped: Mapping[str, float | str] = field(default_factory=dict)
    rules: Sequence[str | Path] = ()


class Imported(NamedTuple):
    """What logs told.

    Args:
        history: The events.
        runs: The runs of jobs, where the format tells them.
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
            "node-problem-detector: give its configuration (rules, --rules kernel-monitor.json): "
            "it says which events are the detector's"
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
    return Imported(joined([read_history(path) for path in paths]), None)


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
    """Return what logs of one format tell.

    Args:
        name: One of `FORMATS`.
        paths: The logs, in the order of time.
        options: What the logs leave out.

    Raises:
        InvalidSpecError: There is no such format or no log, or the reader refuses one.
    """
    if name not in _READERS:
        listed = ", ".join(FORMATS)
        hint = did_you_mean(name, FORMATS)
        raise InvalidSpecError(f"format = {shown(name)} is not one of {listed}{hint}")
    if not paths:
        raise InvalidSpecError(f"no log of format {name!r} is given")
    return _READERS[name](paths, options)
