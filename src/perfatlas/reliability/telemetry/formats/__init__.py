"""Readers of log formats, one module each."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.reliability.telemetry.formats.catalog import format_names, import_logs
    from perfatlas.reliability.telemetry.formats.options import COALESCE_S, ImportOptions
    from perfatlas.reliability.telemetry.formats.sacct import read_sacct
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
