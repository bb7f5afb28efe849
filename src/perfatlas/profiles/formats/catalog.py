"""All formats of profiles by name, behind a single function.

A format is a module of this folder with the literal `FORMAT_NAME` and the functions `matches` and
`read`; modules are listed.
"""

from __future__ import annotations

import importlib
import re
import zlib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perfatlas.profiles.formats.json_stream import open_bytes
from perfatlas.quantities import InvalidSpecError, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.profiles.events import Profile

_FOLDER: Final = "perfatlas.profiles.formats"
_NAMED: Final = re.compile(r'^FORMAT_NAME: Final = "(\w+)"$', re.MULTILINE)
_HEAD_BYTES: Final = 1 << 16
_ARCHIVE: Final = "ustar"  # in the first block of an archive
# Reports that only the tools of their vendor read, and the command that exports them.
_EXPORTS: Final = {
    ".nsys-rep": "nsys export --type sqlite --output {stem}.sqlite {name}",
    ".qdrep": "nsys export --type sqlite --output {stem}.sqlite {name}",
    ".et": "chakra_jsonizer --input_filename {name} --output_filename {stem}.json",
    ".ncu-rep": "ncu --import {name} --csv --page details > {stem}.csv",
}


@cache
def _modules() -> Mapping[str, str]:
    """Return the module of each format by its name."""
    modules = {}
    for file in sorted(resources.files(_FOLDER).iterdir(), key=lambda file: file.name):
        if file.name.endswith(".py") and (match := _NAMED.search(file.read_text("utf-8"))):
            modules[match[1]] = file.name.removesuffix(".py")
    return modules


def format_names() -> tuple[str, ...]:
    """Return the names of all formats."""
    return tuple(_modules())


def import_profile(path: str | Path) -> Profile:
    """Return the profile in a file; its contents tell the format.

    Args:
        path: The file, plain or gzip.

    Raises:
        InvalidSpecError: The file cannot be read, has no known format, or is damaged.
    """
    name, shown = Path(path).name, printable(str(path))
    for suffix, command in _EXPORTS.items():
        if name.endswith(suffix):
            stem = name.removesuffix(suffix)
            raise InvalidSpecError(
                f"profile {shown!r} is a report that only its own tool reads; export it:"
                f" {command.format(stem=printable(stem), name=printable(name))}"
            )
    head = _head(path)
    if not head.strip():
        raise InvalidSpecError(f"profile {shown!r} is empty, or a gzip file without contents")
    if _ARCHIVE in head[:512]:
        raise InvalidSpecError(
            f"profile {shown!r} is a tar archive; extract it: tar xf {printable(name)}"
        )
    for module_name in _modules().values():
        module = importlib.import_module(f"{_FOLDER}.{module_name}")
        if module.matches(head):
            profile: Profile = module.read(path)
            return profile
    formats = ", ".join(format_names())
    raise InvalidSpecError(
        f"profile {shown!r} has none of the formats that perfatlas reads: {formats};"
        " docs/profile.md has the command that writes each"
    )


def _head(path: str | Path) -> str:
    """Return the beginning of a file as text, "" for a damaged gzip file."""
    with open_bytes(path) as file:
        try:
            data = file.read(_HEAD_BYTES)
        except (EOFError, OSError, zlib.error):
            data = b""
    return data.decode("utf-8-sig", "replace")
