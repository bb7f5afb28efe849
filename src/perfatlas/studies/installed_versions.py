"""Versions of programs and data that the answers of a run depend on."""

from __future__ import annotations

import platform
from functools import cache
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import content_hash, file_hash
from perfatlas.quantities import UnsupportedError
from perfatlas.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGES: Final = ("numpy", "scipy", "numba", "pyarrow")


@cache
def versions() -> dict[str, str]:
    """Return the versions of perfatlas, Python and the packages that compute and write."""
    found = {name: version(name) for name in PACKAGES}
    return {"perfatlas": __version__, "python": platform.python_version(), **found}


@cache
def data_hashes() -> dict[str, str]:
    """Return the hash of each folder of the data of perfatlas, and of its code.

    Example:
        >>> from perfatlas.studies import data_hashes
        >>> data_hashes()["calibrations"][:7]
        'sha256:'
    """
    package = Path(str(resources.files("perfatlas")))
    found = {"code": _folder_hash(package, "*.py")}
    for folder in sorted((package / "data").iterdir()):
        if folder.is_dir():
            found[folder.name] = _folder_hash(folder, "*")
    return found


def _folder_hash(folder: Path, pattern: str) -> str:
    files = sorted(path for path in folder.rglob(pattern) if path.is_file())
    lines = [f"{path.relative_to(folder).as_posix()} {file_hash(path)}" for path in files]
    return content_hash("\n".join(lines))


def file_hashes(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the hashes of the files that texts name; of a folder, of its config.json.

    Args:
        values: Values by name; lists are searched too.
    """
    found: dict[str, str] = {}
    for value in values.values():
        for text in value if isinstance(value, (list, tuple)) else [value]:
            if not isinstance(text, str) or len(text) > 4096 or "\0" in text:
                continue
            path = Path(text.partition("{")[0].strip())
            path = path / "config.json" if path.is_dir() else path
            if path.is_file():
                found[str(path)] = file_hash(path)
    return found


def check_versions(described: Mapping[str, Any]) -> None:
    """Refuse to compute a block of a run that another installation began.

    Raises:
        UnsupportedError: Versions or data differ.
    """
    ours = {"versions": versions(), "data_hashes": data_hashes()}
    for part, own in ours.items():
        names = [name for name in own if described[part].get(name) != own[name]]
        if names:
            theirs = described[part].get(names[0])
            raise UnsupportedError(
                f"the run was begun with {names[0]} {theirs} and this process has"
                f" {own[names[0]]} ({', '.join(names)} differ): install the same versions on all"
                " machines"
            )
