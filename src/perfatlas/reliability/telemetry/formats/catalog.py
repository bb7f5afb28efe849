"""All log formats by name, behind a single function.

A format is a module of this folder with the literal `FORMAT_NAME` and a function `read`; modules
are listed, and only the one that is used is imported.
"""

from __future__ import annotations

import importlib
import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error
from perfatlas.reliability.telemetry.formats.options import Imported, ImportOptions
from perfatlas.reliability.telemetry.reading import LogFile, refuse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.reliability.telemetry.reading import FileCounts

_FOLDER: Final = "perfatlas.reliability.telemetry.formats"
_NAMED: Final = re.compile(r'^FORMAT_NAME: Final = "(\w+)"$', re.MULTILINE)
# What the start of a log of each format contains, also of one without failures; the most specific
# first. Formats that are not listed refuse other logs themselves.
_SIGNS: Final = {
    "slurm_events": re.compile(r"^(?=.*\bNodeName\b)(?=.*\bTimeStart\b).*\|", re.MULTILINE),
    "sacct": re.compile(r"\A\ufeff?[^\n]*\bJobID(?:Raw)?\|"),
    "kubernetes": re.compile(
        r'"(?:involvedObject|regarding)"|"kind"\s*:\s*"(?:Event|Node|Pod)(?:List)?"'
    ),
    "xid": re.compile(
        r"NVRM|\bkernel\b|^(?:<\d+>|kern\s*:|\[ *\d+\.\d+\]|\d+,\d+,\d+,)|^\[[A-Z][a-z]{2} [A-Z]",
        re.MULTILINE,
    ),
}
_NO_OPTIONS: Final = ImportOptions()


@cache
def _modules() -> Mapping[str, str]:
    """Return the module of each format by its name."""
    modules = {}
    for file in sorted(resources.files(_FOLDER).iterdir(), key=lambda file: file.name):
        if file.name.endswith(".py") and (match := _NAMED.search(file.read_text("utf-8"))):
            modules[match[1]] = file.name.removesuffix(".py")
    return modules


def format_names() -> tuple[str, ...]:
    """Return the names of all log formats."""
    return tuple(sorted(_modules()))


def _check_recognized(name: str, file: FileCounts) -> None:
    """Raise for a log without a line of its format, which would be a cluster without failures.

    A valid log without failures has such lines. A pipe cannot be read again, and is not checked.
    """
    if not file.total or name not in _SIGNS or not Path(file.path).is_file():
        return
    head = next(LogFile(file.path).blocks(), "")
    if _SIGNS[name].search(head):
        return
    other = next((other for other, sign in _SIGNS.items() if sign.search(head)), None)
    advice = f"it looks like {other!r}: set --format {other}"
    if other is None:
        advice = f"choose its --format: {', '.join(format_names())}"
    text = f"nothing in its {file.size} was recognized as format {name!r}; {advice}"
    raise refuse(file.path, 0, text)


def import_logs(
    name: str,
    paths: Sequence[str | Path],
    options: ImportOptions = _NO_OPTIONS,
) -> Imported:
    """Return the history in logs of one format.

    Args:
        name: One of `format_names`.
        paths: The logs, in time order.

    Raises:
        InvalidSpecError: The format is unknown, there is no log, a log is invalid, or one is passed
            twice.
    """
    names = format_names()
    if name not in names:
        listed = ", ".join(names)
        hint = did_you_mean(name, names)
        raise InvalidSpecError(f"format = {repr_for_error(name)} is not one of {listed}{hint}")
    if not paths:
        raise InvalidSpecError(f"no log file of format {name!r} was specified")
    module = importlib.import_module(f"{_FOLDER}.{_modules()[name]}")
    imported: Imported = module.read(paths, options)
    if not imported.history.size and imported.history.occupancy is None:
        for file in imported.history.files:
            _check_recognized(name, file)
    path_of: dict[str, str] = {}
    # several tables may contain different events of one log
    for file in imported.history.files if name != "table" else ():
        if file.total and file.data_hash and file.data_hash in path_of:
            raise InvalidSpecError(
                f"'{file.path}' is the same log as '{path_of[file.data_hash]}', byte for byte: its"
                " events would count twice; pass each log once"
            )
        path_of[file.data_hash] = file.path
    return imported
