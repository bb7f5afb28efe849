"""Kernels tuned for a chip: which designs to measure, and what the default costs."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.kernel_tune.answer import kernel_tune
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
