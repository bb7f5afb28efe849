"""Kernel parameters fitted to measurements."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.calibrate.answer import calibrate
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
