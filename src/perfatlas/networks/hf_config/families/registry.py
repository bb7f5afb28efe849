"""Registry of family modules by the `model_type` in their MODEL_TYPES.

MODEL_TYPES is parsed from the source text, because importing every family would slow startup.
"""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

PACKAGE: Final = "perfatlas.networks.hf_config.families"
_MODEL_TYPES: Final = re.compile(r"^MODEL_TYPES = (\([^)]*\))$", re.MULTILINE)


@cache
def families() -> dict[str, str]:
    """Return the family module of every known model_type, sorted.

    Limits: MODEL_TYPES must be a literal tuple of strings that starts a line.
    """
    files = (entry for entry in resources.files(PACKAGE).iterdir() if entry.name.endswith(".py"))
    stated = (
        (model_type, entry.name.removesuffix(".py"))
        for entry in files
        for literal in _MODEL_TYPES.findall(entry.read_text("utf-8"))
        for model_type in ast.literal_eval(literal)
    )
    return dict(sorted(stated))


def family_reader(model_type: str) -> Callable[[Fields], Architecture]:
    """Return the `read` function for a known model_type, importing only its module.

    Args:
        model_type: A key of `families`.
    """
    module = importlib.import_module(f"{PACKAGE}.{families()[model_type]}")
    return cast("Callable[[Fields], Architecture]", module.read)
