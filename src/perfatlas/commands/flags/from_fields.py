"""Flags generated from the table of fields; None is unset, so that the scenario decides."""

from __future__ import annotations

import inspect
import re
from contextlib import contextmanager
from dataclasses import make_dataclass
from functools import partial
from importlib import import_module
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, cast

from cyclopts import Group, Parameter

from perfatlas.declarations import commands, verb_fields
from perfatlas.quantities import repr_for_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from cyclopts import Token

    from perfatlas.vocabulary.fields import Field, Number

_ANNOTATED: Final[Any] = Annotated  # for types that are built at run time
_LITERAL: Final[Any] = Literal
MAX_SHOWN: Final = 20  # Fields of a verb whose --help shows all of them
Command = TypeVar("Command", bound="Callable[..., Any]")


def takes_fields(verb: str) -> Callable[[Command], Command]:
    """Return a decorator that adds all fields of a verb to the argument `flags` of a command.

    Args:
        verb: Key of `QUESTIONS`.
    """

    def declare(command: Command) -> Command:
        del command.__annotations__["flags"]  # the annotation of the signature holds then
        command.__signature__ = FlagsSignature(verb, inspect.signature(command))  # type: ignore[attr-defined]
        return command

    return declare


class FlagsSignature(inspect.Signature):
    """The signature of a command; the class of its argument `flags` is made when it is read.

    Fields without a flag come first, and are `positional` of the command as declared.

    Args:
        verb: Key of `QUESTIONS`.
        own: The signature as declared.
    """

    def __init__(self, verb: str, signature: inspect.Signature) -> None:
        """Keep what is declared; nothing is read yet."""
        super().__init__(return_annotation=signature.return_annotation)
        self.verb = verb
        self._own = signature.parameters
        self._fields: Mapping[str, Field] | None = None
        self._made: Mapping[str, inspect.Parameter] | None = None

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:  # type: ignore[override]
        """The declared arguments, `flags` with the class of its flags."""
        if self._made is None:
            made = flags_of(self.verb, self._fields)
            flags = self._own["flags"].replace(annotation=made | None)
            kind = inspect.Parameter.POSITIONAL_ONLY
            first = {
                name: inspect.Parameter(
                    name, kind, default=None, annotation=_hint(verb_fields(self.verb)[name])
                )
                for name in positional_fields(self.verb)
            }
            flags_of_command = {
                name: parameter for name, parameter in self._own.items() if name != "positional"
            }
            self._made = {**first, **flags_of_command, "flags": flags}
        return self._made

    @contextmanager
    def limited_to(self, words: Sequence[str]) -> Iterator[None]:
        """Let the command take only the flags that a command line names, while the block runs.

        The library that reads command lines examines every flag that a command takes, which would
        be half of the time of reading one.
        """
        named = {word.partition("=")[0] for word in words if word.startswith("--")}
        fields = verb_fields(self.verb)
        first = next(iter(fields))
        with self._with({n: f for n, f in fields.items() if n == first or named & _spellings(f)}):
            yield

    @contextmanager
    def common(self) -> Iterator[int]:
        """Let the command take only its common flags, while the block runs.

        Yields:
            The number of flags that this leaves out.
        """
        fields = verb_fields(self.verb)
        shown = fields
        if len(fields) > MAX_SHOWN:
            shown = {n: field for n, field in fields.items() if field.required or field.row.common}
        with self._with(shown):
            yield len(fields) - len(shown)

    @contextmanager
    def _with(self, fields: Mapping[str, Field]) -> Iterator[None]:
        before = self._fields, self._made
        self._fields, self._made = fields, None
        try:
            yield
        finally:
            self._fields, self._made = before


def flags_of(verb: str, fields: Mapping[str, Field] | None = None) -> Any:  # noqa: ANN401 - a class of flags, made here
    """Return the class with the flags of a verb's fields.

    Args:
        verb: Key of `QUESTIONS`.
        fields: Some of its fields; by default all.
    """
    left_out = positional_fields(verb)
    all_fields = verb_fields(verb) if fields is None else fields
    fields = {name: field for name, field in all_fields.items() if name not in left_out}
    lists = verb in commands() and commands()[verb][1].lists
    rows = [(name, _hint(field, lists=lists), None) for name, field in fields.items()]
    namespace = {"__module__": __name__}
    made: Any = make_dataclass("Flags", rows, frozen=True, kw_only=True, namespace=namespace)
    return Parameter(name="*")(made)


def _spellings(field: Field) -> set[str]:
    """Return the flags of a field as --help shows them."""
    flag = field.name.replace("_", "-")
    return {f"--{flag}", f"--no-{flag}", f"--{field.row.alias}"}


def positional_fields(verb: str) -> tuple[str, ...]:
    """Return the fields of a verb that a command line has after the command, without a flag."""
    return tuple(name for name, field in verb_fields(verb).items() if field.row.positional)


def read_words(verb: str, words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the fields that words state as --flag=value, in table order, and the other words.

    The library that reads command lines reads their texts in the same way, in a hundred times the
    time, and says what is wrong with others.

    Args:
        verb: Key of `QUESTIONS`.
        words: What follows the command.

    Raises:
        ValueError: A text is no value of its field, or is read by that library alone.
    """
    fields, first = verb_fields(verb), list(positional_fields(verb))
    lists = commands()[verb][1].lists
    stated: dict[str, Any] = {}
    others: list[str] = []
    for word in words:
        flag, has_text, text = word.partition("=")
        is_flag = flag.startswith("--")
        name = flag[2:].replace("-", "_") if is_flag or not first else first.pop(0)
        switched = name.removeprefix("no_")
        if name in stated or switched in stated:
            raise ValueError(word)
        if name in fields and (has_text or not is_flag):
            stated[name] = _read(fields[name], text if is_flag else word, lists=lists)
        elif not has_text and switched in fields and fields[switched].type is bool:
            stated[switched] = name == switched
        else:
            others.append(word)
    return {name: stated[name] for name in fields if name in stated}, others


def set_flags(flags: object, scenario: Path | None = None) -> dict[str, Any]:
    """Return the flags that are set, by name, in table order.

    Args:
        flags: From `flags_of`; None if no flag is set.
        scenario: TOML file with the same names; flags win over it.

    Raises:
        InvalidSpecError: The file cannot be read.
    """
    values = {} if flags is None else vars(flags)
    found = {
        name: str(value) if isinstance(value, PurePath) else value
        for name, value in values.items()
        if value is not None
    }
    if scenario is None:
        return found
    from perfatlas.files import read_toml

    return {**read_toml(scenario), **found}


def listed_names(functions: Sequence[str], _context: object = None) -> list[str]:
    """Return the names of a catalog, for completion.

    Args:
        functions: What lists them, each as "module:function".
    """
    paths = (function.partition(":") for function in functions)
    return [
        name for module, _, function in paths for name in getattr(import_module(module), function)()
    ]


def _hint(field: Field, *, lists: bool = False) -> Any:  # noqa: ANN401 - an annotated type
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
    if field.listed_by:
        options["completer"] = partial(listed_names, field.listed_by)
    if field.choices:
        kind = _LITERAL[field.choices]
        options["converter"] = partial(_chosen, field)
    elif field.number is not None:
        options["converter"] = partial(_converted, field, lists=lists)
        if lists:
            options["metavar"] = "INT,..." if field.type is int else "FLOAT,..."
            kind = Any
    elif field.is_file:
        kind = Path
    elif field.type is bool and field.default is False:
        options["negative"] = ""
    elif field.type not in (bool, str):
        kind = str
    return _ANNOTATED[kind | None, Parameter(**options)]


def _chosen(field: Field, hint: object, tokens: Sequence[Token]) -> Any:  # noqa: ANN401 - a word
    """Return the word of a flag in any letter case; others are refused as they are written."""
    from cyclopts import convert

    word = str(field.folded(tokens[0].value))
    return convert(hint, [tokens[0].evolve(value=word)])


def _default(field: Field) -> str:
    """Return the default as --help shows it, or ""."""
    if field.row.default or field.default is None or field.type is bool:
        return field.row.default
    value = field.default
    return f"{value:g}" if isinstance(value, float) else str(value)


def _converted(field: Field, _hint: object, tokens: Sequence[Token], *, lists: bool) -> Any:  # noqa: ANN401 - numbers
    return _read_numbers(field, tokens[0].value, lists=lists)


def _read(field: Field, text: str, *, lists: bool) -> Any:  # noqa: ANN401 - a value of any field
    """Return the value of a field in the text of its flag."""
    if field.choices:
        word = str(field.folded(text))
        if word not in field.choices:
            raise ValueError(text)
        return word
    if field.number is not None:
        return _read_numbers(field, text, lists=lists)
    if field.type is bool:
        raise ValueError(text)
    return Path(text) if field.is_file else text


def _read_numbers(field: Field, text: str, *, lists: bool) -> float | tuple[float, ...]:
    """Return the number in a text, or with `lists` also several, with commas between them."""
    texts = text.split(",") if lists else [text]
    if any(re.fullmatch(r"0\d+", part) for part in texts[1:]):  # as in 1,000,000
        raise ValueError(f"{text!r} reads as a list of numbers: write one number without commas")
    first, *others = (_read_number(field, part) for part in texts)
    return (first, *others) if others else first


def _read_number(field: Field, text: str) -> float:
    number, whole = cast("Number", field.number), field.type is int
    try:
        value: Any = number.read(text)
        if whole and isinstance(value, float) and not value.is_integer():
            raise ValueError(text)  # noqa: TRY301 - reported below
        return int(value) if whole else float(value)
    except (ValueError, OverflowError) as problem:
        if number.unit and str(problem).startswith("expected"):
            raise ValueError(f"{repr_for_error(text)}: {problem}") from None
        if number.unit:
            raise
        kind = "integer" if whole else "number"
        raise ValueError(
            f"cannot convert {repr_for_error(text)} to {'an' if whole else 'a'} {kind}"
        ) from None
