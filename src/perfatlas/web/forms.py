"""A form of each command, made from the table of fields."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.commands.flags import listed_names
from perfatlas.declarations import commands
from perfatlas.vocabulary.fields import (
    MAX_COUNT,
    bounds_text,
    default_text,
    json_schema,
    needs_text,
)
from perfatlas.web.questions import (
    FORMS,
    SWITCHES,
    TAKE_FILES,
    catalog_field,
    form_fields,
    typical_fields,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.vocabulary.fields import Field

NO_UNIT: Final = ("fraction", "ratio", "percent", "tokens")
MAX_UNFOLDED: Final = 10  # fields of a form that shows all
MAX_PLACEHOLDER: Final = 24  # characters that an input shows in full
NO_FILE: Final = "Files can be named on the command line only"
_NAMES_FILE: Final = re.compile(r"\b(file|path|profile)\b")
_UNIT_WORD: Final = re.compile(r"_(?:s|w|bytes|usd)$")


class Input(NamedTuple):
    """An input of a form."""

    name: str  # Name of the field
    label: str  # Its name in words, without the unit
    value: str  # What the client set, "" for nothing
    text: str  # Its meaning, a sentence
    notes: Sequence[str] = ()  # Default, bounds and condition, each a text
    unit: str = ""  # SI unit, or ""
    choices: Sequence[str] = ()  # Allowed values; empty for any
    listed: str = ""  # Catalog whose names complete the value, or ""
    placeholder: str = ""  # An example, or the default
    required: bool = False  # Whether it must be set
    takes_file: bool = False  # Whether it may name a file of the client
    several: bool = False  # Whether it may name several


class Form(NamedTuple):
    """A form."""

    command: str  # The command that it asks
    title: str  # What the command does
    shown: Sequence[Input]  # Inputs that most questions state, and those that are set
    folded: Mapping[str, Sequence[Input]]  # Groups of further inputs by title
    lists: Mapping[str, Sequence[str]]  # Names by catalog, for completion
    example: Mapping[str, str]  # Values of an example by field

    @property
    def path(self) -> str:
        """Path of the form and its answers."""
        return path_of(self.command)

    @property
    def siblings(self) -> list[tuple[str, str]]:
        """Paths and commands of the same verb, if there are others."""
        verb = self.command.partition(" ")[0]
        commands = [(path_of(name), name) for name in FORMS if name.partition(" ")[0] == verb]
        return commands if len(commands) > 1 else []


def path_of(command: str) -> str:
    """Return the path of the pages of a command."""
    return f"/{command.replace(' ', '/')}"


def form_of(command: str, values: Mapping[str, str]) -> Form:
    """Return the form of a command.

    Args:
        values: What the client has set, by field.
    """
    fields, example = form_fields(command), typical_fields(command)
    first = {name for name, field in fields.items() if field.required} | set(example)
    first |= set(fields) if len(fields) <= MAX_UNFOLDED else set()
    shown: list[Input] = []
    groups: dict[tuple[int, str], list[Input]] = {}
    lists: dict[str, Sequence[str]] = {}
    for name, field in fields.items():
        entry = _unset_inputs(command)[name]
        if name in values:
            entry = entry._replace(value=values[name])
        if entry.listed and entry.listed not in lists:
            lists[entry.listed] = listed_names(catalog_field(field, fields).listed_by)
        if name in first or entry.value:
            shown.append(entry)
        else:
            groups.setdefault((field.group.order, field.group.title), []).append(entry)
    shown += [
        Input(name, name, values.get(name, ""), text, choices=("true",), placeholder="no")
        for name, text in SWITCHES.get(command, {}).items()
    ]
    folded = {title: inputs for (_, title), inputs in sorted(groups.items())}
    title = commands()[command][1].help
    return Form(command, title, shown, folded, lists, example)


@cache
def _unset_inputs(command: str) -> dict[str, Input]:
    """Return the inputs of the fields of a command, by name."""
    fields, example = form_fields(command), typical_fields(command)
    needed = json_schema(command, fields)["required"]
    return {
        name: _input(field, fields, example.get(name, ""))._replace(required=name in needed)
        for name, field in fields.items()
    }


def _input(field: Field, fields: Mapping[str, Field], example: str) -> Input:
    default, needs = default_text(field), needs_text(field.row.needs, fields)
    choices = field.choices or (("true", "false") if field.type is bool else ())
    catalog = catalog_field(field, fields)
    most = field.number.at_most if field.number else None
    notes = {
        "Default": default if len(default) > MAX_PLACEHOLDER else "",
        "Range": bounds_text(field) if most and most < MAX_COUNT else "",
        "Applies with": needs,
    }
    note_texts = [f"{label}: {text}" for label, text in notes.items() if text]
    takes_file = field.is_file or catalog.catalog in TAKE_FILES
    if catalog.catalog and not takes_file and _NAMES_FILE.search(field.row.text):
        note_texts.append(NO_FILE)
    unit = "" if field.unit in NO_UNIT else field.unit
    label = _UNIT_WORD.sub("", field.name) if unit else field.name
    return Input(
        name=field.name,
        label=label.replace("_", " "),
        value="",
        text=field.row.text,
        notes=note_texts,
        unit=unit,
        choices=choices,
        listed=catalog.catalog if catalog.listed_by else "",
        placeholder=default or (f"such as {example}" if example and not choices else "not set"),
        takes_file=takes_file,
        several=field.type == list[str],
    )
