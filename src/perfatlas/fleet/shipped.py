"""Fleets by name: those that come with perfatlas, or a file."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas.fleet.fleet_file import fleet_of, read_fleet
from perfatlas.quantities import InvalidSpecError, did_you_mean, shown

if TYPE_CHECKING:
    from perfatlas.fleet.model import Fleet

_FOLDER: Final = "data/fleet/fleets"


def shipped_fleets() -> tuple[str, ...]:
    """Return the names of the fleets that come with perfatlas."""
    folder = resources.files("perfatlas").joinpath(_FOLDER)
    return tuple(sorted(file.name.removesuffix(".toml") for file in folder.iterdir()))


def read_evidence(name: str) -> dict[str, Any] | None:
    """Return what a fitted fleet rests on, None where no evidence lies beside it.

    Args:
        name: As of `resolve_fleet`.

    Raises:
        InvalidSpecError: There is evidence, and it cannot be read.
    """
    path = Path(name).with_suffix(".evidence.toml")
    if name in shipped_fleets() or not path.is_file():
        return None
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as problem:
        raise InvalidSpecError(
            f"the evidence '{path}' beside the fleet cannot be read: {problem}; fit the fleet again"
            " or move it away"
        ) from problem


def resolve_fleet(name: str) -> Fleet:
    """Return a shipped fleet, or that of a file.

    Args:
        name: A name of `shipped_fleets`, or the path of a TOML file.

    Raises:
        InvalidSpecError: There is no such name or file, or the file is wrong.

    Example:
        >>> from perfatlas.fleet.shipped import resolve_fleet
        >>> resolve_fleet("llama3").units
        2080
    """
    if name in shipped_fleets():
        text = resources.files("perfatlas").joinpath(f"{_FOLDER}/{name}.toml").read_text("utf-8")
        return fleet_of(tomllib.loads(text), name)
    path = Path(name)
    if not path.is_file() and path.suffix != ".toml":
        raise InvalidSpecError(
            f"fleet = {shown(name)}: neither a file nor one of {', '.join(shipped_fleets())}"
            f"{did_you_mean(name, shipped_fleets())}"
        )
    return read_fleet(path)
