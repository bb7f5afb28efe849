"""Which sources of operator times are compared, as shipped data."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

RULES: Final = "data/kernel_laboratories.toml"


@cache
def kernel_rules() -> Mapping[str, Any]:
    """Return the rules that were written before the first estimate."""
    text = resources.files("validation").joinpath(RULES).read_text("utf-8")
    return tomllib.loads(text)
