"""Readers of networks: what turns the files of one format into networks."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from perfatlas.networks.contract import Network


@dataclass(frozen=True, kw_only=True)
class Reader:
    """The files of one format."""

    name: str
    suffixes: tuple[str, ...]  # How names of its files end, such as ".json"
    # Returns the network of a file. It raises an error of `quantities` for what it cannot read;
    # `OSError` and `ValueError` become one that names the file.
    read: Callable[[Path], Network]
    in_folders: str = ""  # Name of the file to read where a folder is given, "" if none is


_REGISTERED: dict[str, Reader] = {}


def register_reader(reader: Reader) -> None:
    """Add a reader from outside the package.

    Raises:
        InvalidSpecError: A reader of this name exists.
    """
    if any(other.name == reader.name for other in readers()):
        raise InvalidSpecError(f"reader {reader.name} already exists; rename it")
    _REGISTERED[reader.name] = reader


def readers() -> tuple[Reader, ...]:
    """Return all readers: `READER` in the module `reader` of each folder of `networks`.

    Example:
        >>> from perfatlas.networks.readers import readers
        >>> [reader.name for reader in readers()][:1]
        ['graphs']
    """
    return (*_in_folders(), *_REGISTERED.values())


@cache
def _in_folders() -> tuple[Reader, ...]:
    package = "perfatlas.networks"
    folders = sorted(
        entry.name
        for entry in resources.files(package).iterdir()
        if entry.is_dir() and entry.joinpath("reader.py").is_file()
    )
    modules = [importlib.import_module(f"{package}.{name}.reader") for name in folders]
    return tuple(module.READER for module in modules)
