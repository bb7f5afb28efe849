"""Readers of profiles, one module each."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.profiles.formats.catalog import import_profile
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
