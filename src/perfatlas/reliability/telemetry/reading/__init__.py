"""Lines of logs, their positions, timestamps and counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.reliability.telemetry.reading.line_tally import (
        FileCounts as FileCounts,
        Tally as Tally,
        reasons as reasons,
    )
    from perfatlas.reliability.telemetry.reading.lines import (
        Line as Line,
        LogFile as LogFile,
        refuse as refuse,
    )
    from perfatlas.reliability.telemetry.reading.stamps import (
        Clock as Clock,
        checked_s as checked_s,
        epoch_seconds as epoch_seconds,
        iso_seconds as iso_seconds,
        moment_of as moment_of,
        zone_of as zone_of,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
