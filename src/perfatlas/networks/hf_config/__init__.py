"""Reading of `config.json` files of Hugging Face checkpoints, by their facts."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.networks.hf_config.reader import read_config, read_network
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
