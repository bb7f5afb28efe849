"""A form of each command, made from the table of fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.commands.flags import listed_names
from perfatlas.declarations import commands
from perfatlas.vocabulary.fields import bounds_text, default_text, needs_text
from perfatlas.web.questions import SWITCHES, catalog_field, form_fields, typical_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.vocabulary.fields import Field

FIRST: Final = "Question"  # the group of what most questions state
SHOWN: Final = "Output"  # the group of switches
NO_UNIT: Final = ("fraction", "ratio", "percent", "tokens")


class Input(NamedTuple):
    """An input of a form.

    Args:
        name: Name of the field.
        value: What the client set, "" for nothing.
        text: Its meaning, a sentence.
        notes: Default, bounds and condition, each a text.
        unit: SI unit, or "".
        choices: Allowed values; empty for any.
        listed: Catalog whose names complete the value, or "".
        placeholder: An example, or the default.
        required: Whether it must be set.
    """

    name: str
    value: str
    text: str
    notes: Sequence[str] = ()
    unit: str = ""
    choices: Sequence[str] = ()
    listed: str = ""
    placeholder: str = ""
    required: bool = False


class Form(NamedTuple):
    """A form.

    Args:
        command: The command that it asks.
        title: What the command does.
        shown: Inputs that most questions state, and those that are set.
        folded: Groups of further inputs by title.
        lists: Names by catalog, for completion.
        example: Values of an example by field.
    """

    command: str
    title: str
    shown: Sequence[Input]
    folded: Mapping[str, Sequence[Input]]
    lists: Mapping[str, Sequence[str]]
    example: Mapping[str, str]

    @property
    def path(self) -> str:
        """Path of the form and its answers."""
        return path_of(self.command)


def path_of(command: str) -> str:
    """Return the path of the pages of a command."""
    return f"/{command.replace(' ', '/')}"


def form_of(command: str, given: Mapping[str, str]) -> Form:
    """Return the form of a command.

    Args:
        given: What the client has set, by field.
    """
    fields, example = form_fields(command), typical_fields(command)
    first = {name for name, field in fields.items() if field.required} | set(example)
    shown: list[Input] = []
    groups: dict[tuple[int, str], list[Input]] = {}
    lists: dict[str, Sequence[str]] = {}
    for name, field in fields.items():
        one = _input(field, fields, given.get(name, ""), example.get(name, ""))
        if one.listed and one.listed not in lists:
            lists[one.listed] = listed_names(catalog_field(field, fields).listed_by)
        if name in first or one.value:
            shown.append(one)
        else:
            groups.setdefault((field.group.order, field.group.title), []).append(one)
    shown += [
        Input(name, given.get(name, ""), text, choices=("true",))
        for name, text in SWITCHES.get(command, {}).items()
    ]
    folded = {title: inputs for (_, title), inputs in sorted(groups.items())}
    title = commands()[command][1].help
    return Form(command, title, shown, folded, lists, example)


def _input(field: Field, fields: Mapping[str, Field], value: str, example: str) -> Input:
    default, needs = default_text(field), needs_text(field.row.needs, fields)
    choices = field.choices or (("true", "false") if field.type is bool else ())
    bounds = "" if choices else bounds_text(field)
    notes = {"default": default, "range": bounds, "applies with": needs}
    catalog = catalog_field(field, fields)
    return Input(
        name=field.name,
        value=value,
        text=field.row.text,
        notes=[f"{label}: {text}" for label, text in notes.items() if text],
        unit="" if field.unit in NO_UNIT else field.unit,
        choices=choices,
        listed=catalog.catalog if catalog.listed_by else "",
        placeholder=f"such as {example}" if field.required and example else default,
        required=field.required,
    )
