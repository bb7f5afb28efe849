from .registry import (
    families as families,
    family_reader as family_reader,
)
