"""What compiled kernels hold, without a GPU."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.kernel_inspect.command import kernel_inspect
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
