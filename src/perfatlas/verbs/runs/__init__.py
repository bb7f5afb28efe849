"""Runs of `sweep`: list, show, export, delete."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.runs.answer import runs_export, runs_list, runs_rm, runs_show
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
