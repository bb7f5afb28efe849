"""Commands as functions of Python, which return what --json prints.

Their arguments are those of the command: its parameters and the fields of its classes of flags.
"""

from __future__ import annotations

import inspect
import re
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from perfatlas.answer import CommandAnswer

    Parameters = Iterator[tuple[str, inspect.Parameter, type | None]]

COLLECTED: Final[ContextVar[list[Any] | None]] = ContextVar("collected", default=None)
OF_TEXT: Final = ("json", "verbose")  # flags of what is printed


@contextmanager
def collected_json() -> Iterator[list[Any]]:
    """Collect the objects that commands print with --json, instead of writing them."""
    answers: list[Any] = []
    token = COLLECTED.set(answers)
    try:
        yield answers
    finally:
        COLLECTED.reset(token)


def flag_arguments(command: Callable[..., int], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the classes of flags of a command, filled, by the name of its argument.

    Args:
        command: The function of the command.
        values: Values of flags that are set, by name; names of no flag are left out.
    """
    return {key: _filled(of, values) for key, of in _flags(command).items()}


def _filled(of: Any, values: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a class of flags
    parts = {name: _filled(part, values) for name, part in _parts(of).items()}
    return of(**parts, **{row.name: values[row.name] for row in fields(of) if row.name in values})


@cache
def _parts(of: Any) -> dict[str, Any]:  # noqa: ANN401 - a class of flags
    """Return the classes of flags that a class of flags contains."""
    return {name: hint for name, hint in get_type_hints(of).items() if is_dataclass(hint)}


def answer_function(command: Callable[..., int], name: str) -> Callable[..., CommandAnswer]:
    """Return a function that returns what a command prints with --json.

    Args:
        command: The function of the command.
        name: The name of the command.

    Example:
        >>> import perfatlas
        >>> sorted(perfatlas.runs_list()["results"]), str(inspect.signature(perfatlas.runs_list))
        (['folder', 'runs'], "() -> 'CommandAnswer'")
    """

    def answer(*values: Any, **keywords: Any) -> CommandAnswer:  # noqa: ANN401 - of the command
        from perfatlas.answer import CommandAnswer

        parameters = list(_parameters(command))
        bound = inspect.signature(answer).bind(*values, **keywords)
        positional: list[Any] = []
        arguments: dict[str, Any] = (
            {"json": True} if "json" in inspect.signature(command).parameters else {}
        )
        given: dict[str, Any] = {"json": True}
        for key, parameter, of in parameters:
            if key not in bound.arguments:
                continue
            value = _read(bound.arguments[key], parameter.annotation)
            if of is not None:
                given[key] = value
            elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                positional += value
            elif parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                arguments[key] = value
            else:
                positional.append(value)
        with collected_json() as answers:
            command(*positional, **arguments, **flag_arguments(command, given))
        if not answers:
            raise KeyboardInterrupt(f"{name} was interrupted before it had an answer")
        return CommandAnswer(answers[0])

    answer.__name__ = answer.__qualname__ = name.replace(" ", "_")
    answer.__module__ = command.__module__
    documented = "".join(f"\n    {line}" for line in _documented(command))
    answer.__doc__ = f"Return what `perfatlas {name} --json` prints."
    answer.__doc__ += f"\n\nArgs:{documented}" if documented else ""
    parameters = [parameter for _, parameter, _ in _parameters(command)]
    parameters.sort(key=lambda parameter: parameter.kind)
    answer.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        parameters, return_annotation="CommandAnswer"
    )
    return answer


@cache
def _flags(command: Callable[..., int]) -> dict[str, Any]:
    """Return the classes of flags of a command, by the name of its parameter."""
    hints = get_type_hints(command)
    groups = {
        key: [group for group in get_args(hint) if is_dataclass(group)]
        for key, hint in hints.items()
    }
    return {key: classes[0] for key, classes in groups.items() if classes}


def _parameters(command: Callable[..., int]) -> Parameters:
    """Yield the arguments of the function, each with the class of flags that it belongs to."""
    hints, flags = get_type_hints(command), _flags(command)
    for name, parameter in inspect.signature(command).parameters.items():
        if name not in flags and name not in OF_TEXT:
            yield name, parameter.replace(annotation=_annotation(hints[name])), None
    for of in flags.values():
        types = get_type_hints(of)
        for field in fields(of):
            if field.name in OF_TEXT or is_dataclass(types[field.name]):
                continue
            default = inspect.Parameter.empty if field.default is MISSING else field.default
            kind = inspect.Parameter.KEYWORD_ONLY
            yield (
                field.name,
                inspect.Parameter(
                    field.name, kind, default=default, annotation=_annotation(types[field.name])
                ),
                of,
            )


def _annotation(hint: Any) -> str:  # noqa: ANN401 - a type
    """Return the type of an argument of the function as text: paths may be text, lists anything."""
    if get_origin(hint) is Union:
        parts = [one for one in get_args(hint) if str not in get_args(hint) or not get_args(one)]
        return " | ".join(map(_annotation, parts)).replace("NoneType", "None")
    text = hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)
    text = re.sub(r"typing\.|pathlib\.", "", text).replace("list[", "Sequence[")
    text = text.replace("Path", "str | Path")
    return f"str | Path | {text}" if text.startswith("Sequence[str | Path") else text


def _read(value: Any, text: str) -> Any:  # noqa: ANN401 - any argument
    """Return an argument as the command takes it: paths as paths, sequences as lists."""
    if isinstance(value, (str, Path)) and text.startswith("str | Path | Sequence["):
        value = [value]
    if "Path" not in text:
        return list(value) if "Sequence" in text and value is not None else value
    if isinstance(value, str):
        return Path(value)
    return [Path(path) for path in value] if isinstance(value, (list, tuple)) else value


def _documented(command: Callable[..., int]) -> list[str]:
    """Return the lines of the docstrings of a command and its flags that tell of arguments."""
    names = [name for name, _, _ in _parameters(command)]
    lines: list[str] = []
    for text in (command, *_flags(command).values()):
        is_shown = False
        for line in (inspect.getdoc(text) or "").partition("Args:\n")[2].splitlines():
            head = line.strip().lstrip("*").partition(":")[0]
            if line.startswith("    ") and not line.startswith("     "):
                is_shown = head in names
            elif not line.startswith("     "):
                is_shown = False
            if is_shown:
                lines.append(line.removeprefix("    "))
    return lines
