"""Data that comes with perfatlas, read by name."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any


@cache
def shipped_table(name: str) -> dict[str, Any]:
    """Return a shipped TOML file; it is parsed once, so callers must not change it.

    Args:
        name: Path below the package, such as "data/formats.toml".

    Example:
        >>> from perfatlas.files import shipped_table
        >>> shipped_table("data/formats.toml")["bf16"]["weight_bits"]
        16
    """
    return tomllib.loads(shipped_text(name))


def shipped_text(name: str) -> str:
    """Return a shipped text file.

    Args:
        name: Path below the package.
    """
    return resources.files("perfatlas").joinpath(name).read_text("utf-8")


@cache
def shipped_names(folder: str) -> tuple[str, ...]:
    """Return the names of the shipped TOML files of a folder, without their ending, sorted.

    Args:
        folder: Path below the package.
    """
    files = resources.files("perfatlas").joinpath(folder).iterdir()
    names = (file.name for file in files)
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))
