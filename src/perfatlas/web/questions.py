"""Questions of clients: which fields a form has, and their values as words of a command line.

No value of a client opens a file of the server. A file is one that a client has sent, names of
catalogs must be names of the catalog, and other text has no form that a reader takes for a path.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from perfatlas import quantities
from perfatlas.commands.flags import listed_names
from perfatlas.declarations import commands, has_fields, verb_fields
from perfatlas.vocabulary.fields import canonical_name, read_names
from perfatlas.web.file_forms import FILE_COMMANDS, SWEEP, file_fields, sweep_fields
from perfatlas.web.uploads import is_upload

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.vocabulary.fields import Field

FORMS: Final = (
    "estimate",
    "compare",
    "search",
    "train",
    "search training",
    "goodput",
    "goodput spares",
    "simulate",
    "fleet schedule",
    "accuracy",
    "collective",
    *(name for name in commands() if name.startswith("kernel ") and has_fields(name)),
    SWEEP,
    *FILE_COMMANDS,
)
SWITCHES: Final[Mapping[str, Mapping[str, str]]] = {
    "estimate": {
        "frontier": "Throughput against interactivity for all batches that fit.",
        "explain": "Sensitivities to the hardware, the next bottleneck and break-even values.",
    },
    "compare": {"decide": "The three measurements that would most change which is faster."},
    "search": {"explain": "What the latencies of the best plan depend on."},
    "goodput": {"frontier": "Recovery strategies of a fleet's job."},
}
NO_PAGE: Final = ("solve",)  # fields whose answer is a file
MAX_CHOICES: Final = 20  # that a message lists
MAX_CHARACTERS: Final = 1000  # of a value
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_FILES: Final = (
    r"\.(?:toml|json\w*|ya?ml|csv|parquet|te?xt|log|pt2?|onnx|mlir|safetensors|gz|zst|py)\b"
)
_PATH: Final = re.compile(rf"[/\\]|^\s*[~@.\[{{]|\.\.|{_FILES}", re.IGNORECASE)
_UNIT: Final = re.compile(r"[-+]?[\d.,_]+(?:e[-+]?\d+)?\s*[A-Za-z]*(?:/[A-Za-z0-9]+)?")
_NAMES_ONLY: Final = {  # catalogs of which any other text is a path, if a file has that name
    "models": ("perfatlas.networks:model_names", "perfatlas.networks:catalog_aliases"),
    "fleets": ("perfatlas.reliability.fleet.model:shipped_fleets",),
}
TAKE_FILES: Final = ("models", "systems", "fleets")  # catalogs whose entries may be files
_FILE_CHANGES: Final = ("node.topology",)  # hardware fields that may name a file
_YES: Final = {"true": True, "yes": True, "on": True, "1": True}
_NO: Final = {"false": False, "no": False, "off": False, "0": False}


@cache
def form_fields(command: str) -> Mapping[str, Field]:
    """Return the fields that a client may set, by name.

    Args:
        command: One of `FORMS`.

    Example:
        >>> from perfatlas.web import form_fields
        >>> "gpus" in form_fields("goodput"), "strategy_file" in form_fields("goodput")
        (True, True)
    """
    if command == SWEEP:
        return sweep_fields()
    fields = file_fields(command) if command in FILE_COMMANDS else verb_fields(command)
    return {name: field for name, field in fields.items() if name not in NO_PAGE}


def typical_fields(command: str) -> dict[str, str]:
    """Return the fields of the example of a command with their values, by name."""
    values: dict[str, str] = {}
    fields = form_fields(command)
    first = [name for name, field in fields.items() if field.row.positional]
    name = ""
    for word in commands()[command][1].example.removeprefix(command).split():
        if word.startswith("--"):
            name = word[2:].replace("-", "_")
        elif name or first:
            values[name or first.pop(0)] = word
    return {name: text for name, text in values.items() if name in fields}


def catalog_field(field: Field, fields: Mapping[str, Field]) -> Field:
    """Return the field whose catalog has the names of a field, such as `system` for `systems`."""
    single = fields.get(field.name.removesuffix("s"), field)
    return field if field.catalog else single


def command_words(command: str, values: Mapping[str, str]) -> list[str]:
    """Return the command line of a question, checked; it opens no file of the client's choice.

    Args:
        values: Values by field, as text; empty ones are unset.

    Raises:
        UsageError: A field is unknown or cannot be set here.
        InvalidSpecError: A value is too long, has control characters, names a file, or is no name
            of its catalog.

    Example:
        >>> from perfatlas.web import command_words
        >>> command_words("kernel gemm", {"system": "H200", "m": "64", "n": ""})
        ['kernel', 'gemm', '--system=H200', '--m=64']
    """
    fields, switches = form_fields(command), SWITCHES.get(command, {})
    words = command.split()
    for name, text in values.items():
        if not text.strip():
            continue
        flag = f"--{name.replace('_', '-')}"
        if name not in fields and name not in switches:
            raise quantities.UsageError(_unknown(name, fields))
        check_text(name, text)
        if name in switches or fields[name].type is bool:
            is_default = name in switches or fields[name].default is False
            words += _switch(name, text, off=[] if is_default else [f"--no-{flag[2:]}"])
        else:
            check_value(fields[name], text, fields)
            parts = re.split(r"[\s,]+", text.strip()) if fields[name].type == list[str] else [text]
            if not fields[name].row.positional:
                words += [f"{flag}={part}" for part in parts]
            elif text.startswith("-"):
                raise quantities.InvalidSpecError(
                    f"{name} = {quantities.repr_for_error(text)} is no word"
                )
            else:
                first = len(command.split())
                words[first:first] = parts
    return words


def _unknown(name: str, fields: Mapping[str, Field]) -> str:
    if name in NO_PAGE:
        return f"{name} can be set on the command line only: its answer is a file"
    ours = canonical_name(name, tuple(fields))
    hint = f"; perfatlas calls it {ours!r}" if ours else quantities.did_you_mean(name, fields)
    return f"unknown field {quantities.repr_for_error(name)}{hint}"


def check_text(name: str, text: str) -> None:
    """Refuse a text that is too long, or has control characters.

    Args:
        name: Its field, for messages.
        text: The value.

    Raises:
        InvalidSpecError: It is, or has.
    """
    if len(text) > MAX_CHARACTERS:
        raise quantities.InvalidSpecError(
            f"{name} has {len(text):,} characters; at most {MAX_CHARACTERS:,} are accepted"
        )
    if _CONTROL.search(text):
        raise quantities.InvalidSpecError(
            f"{name} = {quantities.repr_for_error(text)} has control characters"
        )


def _switch(name: str, text: str, *, off: list[str]) -> list[str]:
    """Return the words of a value that is true or false."""
    return [f"--{name.replace('_', '-')}"] if truth(name, text) else off


def truth(name: str, text: str) -> bool:
    """Return a text as true or false.

    Args:
        name: Its field, for messages.

    Raises:
        InvalidSpecError: It is neither.
    """
    value = (_YES | _NO).get(text.strip().casefold())
    if value is None:
        raise quantities.InvalidSpecError(
            f"{name} = {quantities.repr_for_error(text)}: expected true or false"
        )
    return value


def check_value(field: Field, text: str, fields: Mapping[str, Field]) -> None:
    """Refuse a value that a reader could take for a path.

    Args:
        text: The value.
        fields: All fields of the question, by name.

    Raises:
        InvalidSpecError: It looks like the name of a file.
    """
    if field.choices and field.folded(text) not in field.choices:
        hint = quantities.did_you_mean(text.strip(), field.choices)
        raise quantities.InvalidSpecError(
            f"{field.name} = {quantities.repr_for_error(text)} is none of"
            f" {', '.join(field.choices[:MAX_CHOICES])}{hint}"
        )
    if field.number is not None or field.choices:
        return  # numbers and words of a list, which no reader opens
    if field.is_file:
        _check_files(field, text)
        return
    catalog = catalog_field(field, fields)
    if not catalog.catalog:
        _refuse_path(field.name, text)
        return
    try:
        parts: Any = (text,) if catalog is field else read_names(text)
    except ValueError as problem:
        raise quantities.InvalidSpecError(f"{field.name}: {problem}") from None
    for part in parts:
        check_name(field.name, catalog.catalog, part)


def _check_files(field: Field, text: str) -> None:
    """Refuse what is no file that a client has sent, nor a name of the catalog of the field."""
    for part in re.split(r"[\s,]+", text.strip()) if field.type == list[str] else [text.strip()]:
        if not (is_upload(part) or field.catalog):
            raise quantities.InvalidSpecError(
                f"{field.name} = {quantities.repr_for_error(part)} is no file that was sent here:"
                " choose one in the form, or send one to /uploads/NAME"
            )
        if field.catalog:
            check_name(field.name, field.catalog, part)


def check_name(where: str, catalog: str, text: str) -> None:
    """Refuse a name of a catalog that is a path, or whose overrides name a file.

    Args:
        where: The field, for messages.
        catalog: Such as "systems".
        text: A name, with overrides in braces or without.

    Raises:
        InvalidSpecError: It is a path, no model or fleet of the catalog, or has an override that
            may name a file.
    """
    name, brace, changes = text.strip().partition("{")
    if is_upload(name) and catalog in TAKE_FILES:
        pass
    elif catalog in _NAMES_ONLY:
        names = listed_names(_NAMES_ONLY[catalog])
        lists = "the catalog lists all"
        quantities.resolve_name(name.strip(), names, what=catalog[:-1], lists=lists, shorten=False)
    else:
        _refuse_path(where, name)
    for change in changes.rstrip().removesuffix("}").split(",") if brace else ():
        path, _, value = change.partition("=")
        check_override(where, path, value)


def check_override(where: str, path: str, value: str) -> None:
    """Refuse a value of a hardware field, or a dimension of a model, that may name a file.

    Args:
        where: The field of the question, for messages.
        path: Such as device.tdp.
        value: The value.

    Raises:
        InvalidSpecError: It may.
    """
    if path.strip().endswith(_FILE_CHANGES):
        raise quantities.InvalidSpecError(
            f"{where}: {path.strip()} may name a file, so it can be set on the command line only"
        )
    if not _UNIT.fullmatch(value.strip()):
        _refuse_path(where, value)
    _refuse_path(where, path)


def _refuse_path(name: str, text: str) -> None:
    if _PATH.search(text):
        raise quantities.InvalidSpecError(
            f"{name} = {quantities.repr_for_error(text)} looks like the name of a file; a file can"
            " be used on the command line only"
        )
