"""Comparison of estimates side by side."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.compare.answer import compare
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
