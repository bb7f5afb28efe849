"""Runs of `sweep`: list, show, export, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.runs.answer import (
        runs_export as runs_export,
        runs_list as runs_list,
        runs_rm as runs_rm,
        runs_show as runs_show,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
