"""Contents of the catalogs as plain data."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.catalog.answer import catalog
    from perfatlas.verbs.catalog.entries import models, systems
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
