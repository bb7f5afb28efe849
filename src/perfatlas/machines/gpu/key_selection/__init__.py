"""Time of the top-k key selection of sparse attention."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.machines.gpu.key_selection.physics import KEY_SELECTION_SHAPE
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
