"""Which file reads which `model_type`.

A file named after its model_type is found by itself; only other names are listed here.
"""

from __future__ import annotations

import importlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.models.architecture import Architecture
    from perfatlas.models.fields import Fields

PACKAGE: Final = "perfatlas.models.families"

# model_type -> the family file that reads it, where the names differ
ALSO_READ_BY: Final[dict[str, str]] = {
    "gemma3_text": "gemma3",
    "glm4v_moe": "glm4_moe",
    "glm4v_moe_text": "glm4_moe",
    "glm_moe_dsa": "deepseek_v32",
    "kimi_k2": "deepseek_v3",
    "kimi_k25": "deepseek_v3",
    "llama4_text": "llama4",
    "ministral3": "mistral",
    "mistral3": "mistral",
    "qwen2_5_vl": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen2_vl": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen3_5_moe": "qwen3_5",
    "qwen3_5_moe_text": "qwen3_5",
    "qwen3_5_text": "qwen3_5",
    "qwen3_vl": "qwen3",
    "qwen3_vl_moe": "qwen3_moe",
    "qwen3_vl_moe_text": "qwen3_moe",
    "qwen3_vl_text": "qwen3",
}


@cache
def families() -> dict[str, str]:
    """Return the family file of every known model_type."""
    files = (entry.name for entry in resources.files(PACKAGE).iterdir())
    names = {name[:-3] for name in files if name.endswith(".py")} - {"__init__", "registry"}
    return {name: name for name in sorted(names)} | ALSO_READ_BY


def family_reader(model_type: str) -> Callable[[Fields], Architecture]:
    """Return the `read` function of a known model_type, importing only its file."""
    module = importlib.import_module(f"{PACKAGE}.{families()[model_type]}")
    return cast("Callable[[Fields], Architecture]", module.read)
