"""One module per architecture family, selected by `model_type`."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.networks.hf_config.families.registry import families, family_reader
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
