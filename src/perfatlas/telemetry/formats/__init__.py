"""Readers of log formats, a module each."""

from __future__ import annotations

from perfatlas.telemetry.formats.catalog import ImportOptions, import_logs
from perfatlas.telemetry.formats.sacct import read_sacct
from perfatlas.telemetry.formats.sacct_json import read_sacct_json
from perfatlas.telemetry.formats.xid_log import COALESCE_S

__all__ = [
    "COALESCE_S",
    "ImportOptions",
    "import_logs",
    "read_sacct",
    "read_sacct_json",
]
