"""Where the time of a profile went, and where it is longer than predicted."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.profiles.explanation.changes import compared
    from perfatlas.profiles.explanation.other_system import on_system
    from perfatlas.profiles.explanation.results import explain
    from perfatlas.profiles.explanation.spans import activity_spans
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
