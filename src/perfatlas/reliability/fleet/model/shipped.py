"""Fleets by name: shipped with perfatlas, or a file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas import files
from perfatlas.quantities import InvalidSpecError, repr_for_error, resolve_name
from perfatlas.reliability.fleet.model.fleet_file import fleet_of, read_fleet
from perfatlas.reliability.fleet.model.strategy_file import StrategyTable, strategies_of

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.model.model import Fleet

_FOLDER: Final = "data/fleet/fleets"
_EVIDENCE: Final = {
    "cause": ("name", "mean_time_between", "mean_time_between_interval"),
    "file": ("path", "parsed"),
}


def shipped_fleets() -> tuple[str, ...]:
    """Return the names of the shipped fleets."""
    return files.shipped_names(_FOLDER)


def read_evidence(name: str) -> dict[str, Any] | None:
    """Return the evidence of a fitted fleet, None where there is no evidence file.

    Its `changed` says that the fleet file was edited after the fit.

    Args:
        name: Name or path, as for `resolve_fleet`.

    Raises:
        InvalidSpecError: The evidence file cannot be read or lacks required keys.
    """
    path = Path(name).with_suffix(".evidence.toml")
    if name in shipped_fleets() or not files.is_file(path):
        return None
    try:
        evidence = tomllib.loads(path.read_text("utf-8"))
        _check_evidence(evidence)
    except (OSError, ValueError) as problem:
        raise InvalidSpecError(
            f"cannot read the evidence file '{path}' of the fleet: {problem}; fit the fleet again"
            " or move the file away"
        ) from problem
    fitted = evidence.get("fleet_hash")
    verifiable = fitted is not None and files.is_file(name)
    return evidence | {"changed": verifiable and files.file_hash(name) != fitted}


def _check_evidence(evidence: dict[str, Any]) -> None:
    """Raise for evidence without a required key."""
    for kind, keys in _EVIDENCE.items():
        rows = evidence.get(kind, [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError(f"{kind} is not an array of tables")
        for row in rows:
            if missing := [key for key in keys if key not in row]:
                raise ValueError(f"a {kind} lacks {', '.join(missing)}")


def resolve_fleet(name: str) -> Fleet:
    """Return a shipped fleet, or the fleet of a file.

    Args:
        name: A name of `shipped_fleets`, or the path of a TOML file.

    Raises:
        InvalidSpecError: The name or file does not exist, or the file is invalid.

    Example:
        >>> from perfatlas.reliability.fleet.model import resolve_fleet
        >>> resolve_fleet("llama3").units
        2080
    """
    path = _path_of(name)
    if path is not None:
        return read_fleet(path)
    shipped = _shipped_name(name)
    return fleet_of(_shipped_table(shipped), shipped)


def resolve_strategies(name: str) -> tuple[StrategyTable, ...]:
    """Return the strategies of a fleet or strategy file; may be empty.

    Args:
        name: A name of `shipped_fleets`, or the path of a TOML file.

    Raises:
        InvalidSpecError: The name or file does not exist, or the file is invalid.
    """
    path = _path_of(name, "fleet or strategy file")
    if path is not None:
        return strategies_of(files.read_toml(path), name)
    shipped = _shipped_name(name)
    return strategies_of(_shipped_table(shipped), shipped)


def _shipped_table(name: str) -> dict[str, Any]:
    return files.shipped_table(f"{_FOLDER}/{name}.toml")


def _path_of(name: str, holds: str = "fleet") -> Path | None:
    """Return the path of a file, None for the name of a shipped fleet."""
    path = Path(name)
    if name in shipped_fleets() or not (
        files.is_file(path) or path.suffix == ".toml" or "/" in name
    ):
        return None
    if not files.is_file(path):
        files.check_regular(path, holds)
        raise InvalidSpecError(
            f"{holds} {repr_for_error(name)}: no file at this path; expected a TOML file or one of"
            f" {', '.join(shipped_fleets())}"
        )
    return path


def _shipped_name(name: str) -> str:
    lists = f"there is no such file either; shipped fleets: {', '.join(shipped_fleets())}"
    return resolve_name(name, shipped_fleets(), what="fleet", lists=lists)
