"""Lines of logs, their positions, time stamps and tallies."""

from __future__ import annotations

from perfatlas.telemetry.reading.json_stream import json_lines, stream_items
from perfatlas.telemetry.reading.line_tally import FileCounts, Tally, reasons
from perfatlas.telemetry.reading.lines import Line, LogFile
from perfatlas.telemetry.reading.log_position import refuse
from perfatlas.telemetry.reading.stamps import (
    Clock,
    checked_s,
    epoch_seconds,
    iso_seconds,
    moment_of,
    zone_of,
)

__all__ = [
    "Clock",
    "FileCounts",
    "Line",
    "LogFile",
    "Tally",
    "checked_s",
    "epoch_seconds",
    "iso_seconds",
    "json_lines",
    "moment_of",
    "reasons",
    "refuse",
    "stream_items",
    "zone_of",
]
