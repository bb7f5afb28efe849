"""Lines of logs, their positions, timestamps and counts."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.reliability.telemetry.reading.line_tally import FileCounts, reasons
    from perfatlas.reliability.telemetry.reading.lines import (
        INVALID_UTF8, LogFile, LogLine, LogRecord, read_log_table, refuse,
    )
    from perfatlas.reliability.telemetry.reading.stamps import (
        LineClock, LogClock, check_time_span, checked_s, epoch_seconds, iso_seconds, moment_of,
        zone_of,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
