"""Programs of `torch.export`, with symbolic sizes, without PyTorch."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.networks.torch_export.program import STORED, nodes_of_program, read_archive
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
