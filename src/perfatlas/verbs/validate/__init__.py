"""Estimates compared with benchmarks of a user."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.validate.answer import validate_serving
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
