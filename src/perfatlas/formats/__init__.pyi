from .catalog import (
    Format as Format,
    formats as formats,
    get_format as get_format,
)
