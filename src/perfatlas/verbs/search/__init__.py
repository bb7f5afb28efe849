"""The best deployments of a model under service-level objectives."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.search.answer import SearchAnswer, search
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
