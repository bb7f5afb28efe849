"""Saved answers and runs in one document."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.report.command import write_report
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
