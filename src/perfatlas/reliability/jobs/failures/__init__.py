"""Histories of node failures of a cluster."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.reliability.jobs.failures.histories import draw_failures, unsupported
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
