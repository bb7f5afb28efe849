"""Options and results of every log format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.reliability.telemetry.reading import LogClock

if TYPE_CHECKING:
    from perfatlas.reliability.telemetry.history import History, JobRuns

COALESCE_S: Final = 5.0
NO_HELP: Final = LogClock()


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """Information that logs omit; each format uses what it needs."""

    clock: LogClock = NO_HELP  # Time zone, year, boot time and host for lines without them
    coalesce_s: float = COALESCE_S  # Repeats of an Xid on a GPU within this time are one event [s]


class Imported(NamedTuple):
    """Imported logs."""

    history: History  # The events
    runs: JobRuns | None = None  # The runs of jobs, where the format has them
