"""Networks from files of frameworks."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.model.answer import model_import
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
