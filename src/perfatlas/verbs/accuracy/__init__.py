"""The change of a benchmark and of perplexity by number formats."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.accuracy.answer import accuracy, accuracy_columns
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
