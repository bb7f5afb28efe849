"""Reading one value of a spec, with its source, from whatever a TOML file or a user wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, get_args

from perfatlas.hardware.schema import FIELDS, SECTIONS, Field
from perfatlas.quantities import (
    InvalidSpecError,
    Kind,
    Source,
    did_you_mean,
    format_quantity,
    parse_quantity,
    shown,
)

LONGEST_VALUE: Final = 80  # characters of a quantity or a word
_ENTRY_KEYS: Final = ("value", "kind", "ref", "note", "reason")
_KINDS: Final[dict[str, Kind]] = {kind: kind for kind in get_args(Kind)}


Value = float | str | bool  # SI number, word or flag


class Entry(NamedTuple):
    """A value with its source; `reason` excuses a value that looks unphysical."""

    value: Value
    source: Source
    reason: str = ""


def unknown_field(path: str, origin: str) -> InvalidSpecError:
    """Return the error for a path no spec has, naming the nearest one."""
    clipped = path[:LONGEST_VALUE]
    return InvalidSpecError(f"{origin}: unknown field {clipped!r}{nearest_field(clipped)}")


def nearest_field(path: str) -> str:
    """Return a clause that names the field meant: first of all the same key in another table.

    Args:
        path: What the user wrote, with or without its table.
    """
    table, _, key = path.rpartition(".")
    places = [known for known in FIELDS if "." in known and known.rpartition(".")[2] == key]
    if not places:
        return did_you_mean(path, FIELDS)
    nearest = max(places, key=lambda known: known.startswith(table))
    return f"; did you mean {nearest!r}, that is {key} in [{nearest.rpartition('.')[0]}]?"


def _number(path: str, field: Field, raw: object) -> float:
    if isinstance(raw, bool) or not isinstance(raw, (str, int, float)):
        raise InvalidSpecError(f"{path} = {shown(raw)}: expected a number, or text with a unit")
    if isinstance(raw, str) and len(raw) > LONGEST_VALUE:
        raise InvalidSpecError(f"{path} = {shown(raw)} is not a number")
    if isinstance(raw, int) and raw.bit_length() > LONGEST_VALUE:
        raise InvalidSpecError(f"{path} = {shown(raw)} is out of range")
    value = parse_quantity(raw, field.dimension, field=path)
    if value < 0 or (value == 0 and field.least > 0):
        raise InvalidSpecError(f"{path} = {shown(raw)}: must be positive")
    if not field.least <= value <= field.most:
        low, high = (format_quantity(limit, field.unit) for limit in (field.least, field.most))
        raise InvalidSpecError(
            f"{path} = {shown(raw)} is outside {low} to {high}; is the unit right?"
        )
    if field.whole and value != int(value):
        raise InvalidSpecError(f"{path} = {shown(raw)}: must be a whole number")
    return value


def _word(path: str, field: Field, raw: object) -> str:
    if not isinstance(raw, str) or len(raw) > LONGEST_VALUE:
        raise InvalidSpecError(f"{path} = {shown(raw)}: expected a short text")
    if field.choices and raw not in field.choices:
        raise InvalidSpecError(
            f"{path} = {raw!r} is not one of {', '.join(field.choices)}"
            f"{did_you_mean(raw, field.choices)}"
        )
    return raw


def _flag(path: str, raw: object) -> bool:
    words = {"true": True, "false": False}
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and raw.casefold() in words:
        return words[raw.casefold()]
    raise InvalidSpecError(f"{path} = {shown(raw)}: expected true or false")


def read_value(path: str, raw: object) -> Value:
    """Return the checked SI value of a field.

    Args:
        path: A key of `schema.FIELDS`.
        raw: What the user or a file says.

    Raises:
        InvalidSpecError: Wrong type, unit or range; the message names the path.
    """
    field = FIELDS[path]
    if field.dimension == "flag":
        return _flag(path, raw)
    if field.dimension == "text":
        return _word(path, field, raw)
    return _number(path, field, raw)


def read_source(table: Mapping[str, object], default: Source | None, origin: str) -> Source:
    """Return the source a table states, falling back on a default for what it leaves out.

    Raises:
        InvalidSpecError: No kind or no reference, or a kind that does not exist.
    """
    stated = {key: table[key] for key in ("kind", "ref", "note") if key in table}
    for key, raw in stated.items():
        if not isinstance(raw, str) or not raw.strip():
            raise InvalidSpecError(f"{origin}: {key} = {shown(raw)}: expected text")
    kind = str(stated.get("kind", default.kind if default else ""))
    ref = str(stated.get("ref", default.ref if default else ""))
    if kind not in _KINDS:
        raise InvalidSpecError(
            f"{origin}: kind = {shown(kind)} is not one of {', '.join(_KINDS)}"
            f"{did_you_mean(kind[:LONGEST_VALUE], _KINDS)}"
        )
    if not ref:
        raise InvalidSpecError(f"{origin}: ref is missing: say where the value can be read")
    return Source(kind=_KINDS[kind], ref=ref, note=str(stated.get("note", "")))


def default_source(table: Mapping[str, object], fallback: Source | None, origin: str) -> Source:
    """Return the source of every value of a table that states none of its own.

    Args:
        table: It may have `source = { kind = ..., ref = ... }`.
        fallback: Used where it has not.
        origin: Where the table is, for messages.

    Raises:
        InvalidSpecError: No usable source.
    """
    raw = table.get("source", {})
    if not isinstance(raw, Mapping):
        raise InvalidSpecError(f"{origin}: source = {shown(raw)}: expected {{ kind, ref }}")
    return read_source(raw, fallback, f"{origin}: source")


def read_entry(path: str, raw: object, default: Source, origin: str) -> Entry:
    """Return a value with its source, from a bare value or from {value, kind, ref, note, reason}.

    Raises:
        InvalidSpecError: The value or its source is not usable.
    """
    if not isinstance(raw, Mapping):
        return Entry(read_value(path, raw), default)
    for key in raw:
        if key not in _ENTRY_KEYS:
            clipped = f"{path}.{key}"[:LONGEST_VALUE]
            raise InvalidSpecError(
                f"{origin}: unknown key {clipped!r}{did_you_mean(str(key), _ENTRY_KEYS)}"
            )
    if "value" not in raw:
        raise InvalidSpecError(f"{origin}: {path} has no value")
    reason = raw.get("reason", "")
    if not isinstance(reason, str):
        raise InvalidSpecError(f"{origin}: {path}.reason = {shown(reason)}: expected text")
    source = read_source(raw, default, f"{origin}: {path}")
    return Entry(read_value(path, raw["value"]), source, reason)


def walk_section(
    prefix: str, table: Mapping[str, object], origin: str
) -> Iterator[tuple[str, object]]:
    """Yield (path, raw value) of every field below a section such as "device".

    Raises:
        InvalidSpecError: A key no spec has, or a value where a section belongs.
    """
    for key, raw in table.items():
        path = f"{prefix}.{key}"
        if path in FIELDS:
            yield path, raw
        elif path in SECTIONS and isinstance(raw, Mapping):
            yield from walk_section(path, raw, origin)
        elif path in SECTIONS:
            raise InvalidSpecError(f"{origin}: {path} = {shown(raw)}: expected a table")
        else:
            raise unknown_field(path, origin)
