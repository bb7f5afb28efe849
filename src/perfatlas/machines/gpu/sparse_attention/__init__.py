"""Time of latent attention over selected keys."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.machines.gpu.sparse_attention.physics import SPARSE_MLA_PREFILL_SHAPE
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
