"""Any verb over lists, ranges and samples of its names and of hardware, kept as a run."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.sweep.answer import Sweep, sweep
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
