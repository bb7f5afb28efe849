"""Classes of kernels."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.profiles.classes.rules import (
        CLASSES, COMMUNICATION, COPIES, Rule, class_codes, read_rules,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
