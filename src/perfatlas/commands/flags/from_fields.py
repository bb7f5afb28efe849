"""Flags made of the table of fields; None is "not given", so that the scenario decides."""

from __future__ import annotations

from dataclasses import make_dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

from cyclopts import Group, Parameter

from perfatlas.quantities import shown
from perfatlas.vocabulary.fields import fields_asked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cyclopts import Token

    from perfatlas.vocabulary.fields import Field, Number

_ANNOTATED: Final[Any] = Annotated  # for types that are made here
_LITERAL: Final[Any] = Literal
Command = TypeVar("Command", bound="Callable[..., Any]")


def asks(verb: str) -> Callable[[Command], Command]:
    """Return a decorator that gives the argument `flags` of a command all fields of a verb.

    Args:
        verb: Of the table of questions.
    """

    def declare(command: Command) -> Command:
        command.__annotations__["flags"] = flags_of(verb) | None
        return command

    return declare


def flags_of(verb: str) -> Any:  # noqa: ANN401 - a class of flags, made here
    """Return the class of all flags of a verb's fields.

    Args:
        verb: Of the table of questions.
    """
    rows = [(name, _hint(field), None) for name, field in fields_asked(verb).items()]
    own = {"__module__": __name__}
    made: Any = make_dataclass("Flags", rows, frozen=True, kw_only=True, namespace=own)
    return Parameter(name="*")(made)


def set_flags(flags: object) -> dict[str, Any]:
    """Return the flags that were given, by name, in the order of the table.

    Args:
        flags: From `flags_of`; None where none was given.
    """
    given = {} if flags is None else vars(flags)
    return {
        name: str(value) if isinstance(value, PurePath) else value
        for name, value in given.items()
        if value is not None
    }


def catalog_names(catalog: str, _context: object = None) -> list[str]:
    """Return the names of a catalog, for completion.

    Args:
        catalog: models, systems, engines, formats, fleets or rates.
    """
    if catalog == "models":
        from perfatlas.models import model_names

        return list(model_names())
    if catalog == "systems":
        from perfatlas.hardware import system_names

        return list(system_names())
    if catalog == "engines":
        from perfatlas.engines import engine_ids, engine_names

        return [*engine_names(), *engine_ids()]
    if catalog == "fleets":
        from perfatlas.fleet.model import shipped_fleets

        return list(shipped_fleets())
    if catalog == "rates":
        from perfatlas.fleet.model import published_rates

        return list(published_rates())
    from perfatlas.formats import formats

    return list(formats())


def _hint(field: Field) -> Any:  # noqa: ANN401 - an annotated type
    group = Group(field.group.title, sort_key=field.group.order)
    unit = f" [{field.unit}]" if field.unit in ("s", "1/s") and "[" not in field.row.text else ""
    options: dict[str, Any] = {
        "group": group,
        "help": f"{field.row.text.rstrip('.')}{unit}.",
        "show_default": _default(field) or False,
    }
    if field.row.alias:
        options["alias"] = f"--{field.row.alias}"
    kind: Any = field.type
    if field.catalog:
        options["completer"] = partial(catalog_names, field.catalog)
    if field.choices:
        kind = _LITERAL[field.choices]
    elif field.number is not None:
        options["converter"] = _reader(field.number, whole=field.type is int)
    elif field.is_file:
        kind = Path
    elif field.type is bool and field.default is False:
        options["negative"] = ""
    elif field.type not in (bool, str):
        kind = str
    return _ANNOTATED[kind | None, Parameter(**options)]


def _default(field: Field) -> str:
    """Return what --help says of the default, "" for nothing."""
    if field.row.default or field.default is None or field.type is bool:
        return field.row.default
    value = field.default
    return f"{value:g}" if isinstance(value, float) else str(value)


def _reader(number: Number, *, whole: bool) -> Callable[[object, Sequence[Token]], float]:
    """Return what reads the text of a flag; "1.5" is no whole number."""

    def read(_hint: object, tokens: Sequence[Token]) -> float:
        text = tokens[0].value
        try:
            found: Any = number.read(text)
            if whole and isinstance(found, float) and not found.is_integer():
                raise ValueError(text)  # noqa: TRY301 - told below
            return int(found) if whole else float(found)
        except (ValueError, OverflowError):
            if number.unit:
                raise
            kind = "whole number" if whole else "number"
            raise ValueError(f"unable to convert {shown(text)} into a {kind}") from None

    return read
