"""Where the time of a profile went, and where it is longer than predicted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.profiles.explanation.changes import compared as compared
    from perfatlas.profiles.explanation.other_system import on_system as on_system
    from perfatlas.profiles.explanation.results import explain as explain
    from perfatlas.profiles.explanation.spans import activity_spans as activity_spans
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
