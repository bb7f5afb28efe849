"""Predictions compared with measurements of this machine."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.validate_here.command import validate_here
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
