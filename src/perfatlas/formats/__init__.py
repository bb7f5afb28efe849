"""Number formats: bytes per element with scales, tensor-core peak, quantization."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.formats.catalog import Format, formats, get_format
    from perfatlas.formats.storage import Storage, StoredModule
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
