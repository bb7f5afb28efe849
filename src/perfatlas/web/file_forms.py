"""Fields of commands that read files, runs and shipped studies, from what the command declares."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from inspect import Parameter, getdoc, signature
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_type_hints
from zoneinfo import available_timezones

from perfatlas.declarations import commands, has_fields, verb_fields
from perfatlas.files import shipped_names
from perfatlas.reliability.telemetry.formats import format_names
from perfatlas.studies import shipped_studies
from perfatlas.vocabulary.fields import Field, Number, Row
from perfatlas.vocabulary.fields.clusters import FleetName
from perfatlas.vocabulary.fields.rows import Group, InputFile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FILE: Final = Annotated[str, InputFile()]
FILES: Final = Annotated[list[str], InputFile()]
_LITERAL: Final[Any] = Literal  # of names that are listed at run time
GROUP: Final = Group("Files", 0, "")


def argument_types() -> Mapping[str, Mapping[str, Any]]:
    """Return the annotated types of the arguments that a client may set, by command."""
    system = verb_fields("estimate")["system"].hint
    year = Annotated[int, Number(at_least=1970, at_most=9999)]
    formats = _LITERAL[format_names()]
    zones = _LITERAL[tuple(sorted(available_timezones()))]
    return {
        "profile": {
            "files": FILES, "system": system, "on": system, "against": FILE, "capture": FILE,
        },
        "validate serving": {"results": FILES},
        "fleet report": {
            "subject": Annotated[FleetName, InputFile()], "format": formats, "zone": zones,
            "year": year, "node": str,
        },
        "fleet plan": {"study": _LITERAL[tuple(shipped_names("data/fleet/plans"))]},
        "runs show": {"run": str},
    }  # fmt: skip


SWEEP: Final = "sweep"
SWEPT: Final = tuple(name for name, (_, row) in commands().items() if row.table or row.row)
VALUES_TEXT: Final = "as 1, 2, 4, or as 2TB/s to 8TB/s in 7 steps (or in 7 log steps)."


def sweep_fields() -> dict[str, Field]:
    """Return the fields of the form of a sweep."""
    verbs, studies = _LITERAL[SWEPT], _LITERAL[tuple(sorted(shipped_studies()))]
    name_text = "Name that varies: a field, or one of the hardware, as device.memory.bandwidth."
    rows: Mapping[str, tuple[Any, str]] = {
        "study": (studies, "A study that comes with perfatlas, in place of the fields below."),
        "verb": (verbs, "Command that answers each point."),
        "question": (str, "What all points share, as the address of a page: model=...&system=..."),
        "vary": (str, name_text),
        "values": (str, f"Its values, {VALUES_TEXT}"),
        "vary_2": (str, "A second name that varies, crossed with the first: a heat map."),
        "values_2": (str, f"Its values, {VALUES_TEXT}"),
        "objective": (str, "Result to compare, as tpot_s; the usual one of the command if unset."),
    }
    group = Group("Study", 0, "")
    return {
        name: Field(name, Annotated[hint, Row(text)], None, required=False,
                    row=Row(text, positional=name == "study"),
                    group=group)
        for name, (hint, text) in rows.items()
    }  # fmt: skip


FILE_COMMANDS: Final = tuple(argument_types())


@cache
def file_fields(command: str) -> dict[str, Field]:
    """Return the fields of a command of `FILE_COMMANDS`, with those that it declares."""
    package, row = commands()[command]
    module, _, name = row.run.partition(":")
    function = getattr(import_module(f"{package}.{module}"), name)
    texts = _texts(function)
    first = {
        one.name
        for one in signature(function).parameters.values()
        if one.kind is Parameter.POSITIONAL_ONLY
    }
    needed = {*first, "results"}
    found = {
        name: Field(name, hint, None, name in needed, Row(texts[name], positional=name in first),
                    GROUP)
        for name, hint in argument_types()[command].items()
    }  # fmt: skip
    return found | (verb_fields(command) if has_fields(command) else {})


def _texts(function: Callable[..., Any]) -> dict[str, str]:
    """Return what the docstrings of a command and of its flags say of each argument."""
    flags = get_type_hints(function).get("flags", object)
    found = {}
    for one in (function, *getattr(flags, "__args__", (flags,))):
        arguments = (getdoc(one) or "").partition("Args:\n")[2].partition("\n\n")[0]
        for name, text in re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", arguments, re.MULTILINE):
            found[name] = re.sub(r"\s+", " ", text)
    return found
