"""What every log format takes and returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.reliability.telemetry.reading import Clock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from perfatlas.reliability.telemetry.history import History, JobRuns

COALESCE_S: Final = 5.0
NO_HELP: Final = Clock()


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """Information that logs omit; each format uses what it needs.

    Args:
        clock: Time zone, year, boot time and host for lines without them.
        coalesce_s: Repeats of an Xid on a GPU within this time are one event [s].
        tolerance_s: Allowed backward steps of times in a job's log [s].
        scraped: Time of each dcgm-exporter scrape or Slurm snapshot, by path.
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
    runs: JobRuns | None = None
