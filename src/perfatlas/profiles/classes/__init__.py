"""Classes of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.profiles.classes.rules import (
        CLASSES as CLASSES,
        COMMUNICATION as COMMUNICATION,
        COPIES as COPIES,
        Rule as Rule,
        class_codes as class_codes,
        read_rules as read_rules,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
