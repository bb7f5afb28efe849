"""Values with provenance in files: a bare value, or {value, kind, ref, note}."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, get_args

from perfatlas.files.fields import Field, Text, known_keys, read_fields, sub_table
from perfatlas.quantities import InvalidSpecError, Kind, Source, repr_for_error

if TYPE_CHECKING:
    from perfatlas.files.fields import Reader

Value = float | str | bool  # SI number, text or flag
_KINDS: Final[dict[str, Kind]] = {kind: kind for kind in get_args(Kind)}


class _Words:
    """Non-empty text of any length."""

    def read(self, value: object, where: str) -> str:
        if not isinstance(value, str) or not value.strip():
            raise InvalidSpecError(f"{where} = {repr_for_error(value)}: expected text")
        return value


_SOURCE: Final[dict[str, Field[str]]] = {
    "kind": Field(Text(choices=tuple(_KINDS))),
    "ref": Field(_Words()),
    "note": Field(_Words()),
}
_ENTRY: Final = {"value": None, "reason": None, "range": None, **_SOURCE}


class Entry(NamedTuple):
    """A value with its source; `reason` justifies a value that looks unphysical."""

    value: Value
    source: Source
    reason: str = ""
    ends: tuple[float, float] | None = None  # Between which sources disagree [SI]


def read_source(table: Mapping[str, object], default: Source | None, where: str) -> Source:
    """Return the source that a table states; missing keys come from the default."""
    stated = read_fields({k: v for k, v in table.items() if k in _SOURCE}, _SOURCE, where)
    kind = stated.get("kind", default and default.kind)
    ref = stated.get("ref", default and default.ref)
    if not kind:
        raise InvalidSpecError(f"{where}: kind is missing: one of {', '.join(_KINDS)}")
    if not ref:
        raise InvalidSpecError(f"{where}: ref is missing: name the document with the value")
    return Source(kind=_KINDS[kind], ref=ref, note=stated.get("note", ""))


def default_source(table: Mapping[str, object], fallback: Source | None, where: str) -> Source:
    """Return the default source for the values of a table.

    Args:
        table: May have `source = { kind = ..., ref = ... }`.
        fallback: Used if the table states none.
        where: Place of the table, for messages.

    Raises:
        InvalidSpecError: There is no valid source.
    """
    where = f"{where}: source"
    return read_source(sub_table(table.get("source", {}), where, "{ kind, ref }"), fallback, where)


def read_entry(reader: Reader[Value], raw: object, default: Source, where: str) -> Entry:
    """Return a value with its source, from a bare value or from {value, kind, ref, note, reason}.

    A number may state the `range` within which sources disagree, as ["13 TB/s", "22 TB/s"].

    Args:
        default: Source if the value states none.
        where: Place of the value, for messages.

    Raises:
        InvalidSpecError: The value, its range or its source is invalid.
    """
    if not isinstance(raw, Mapping):
        return Entry(reader.read(raw, where), default)
    known_keys(raw, _ENTRY, where)
    if "value" not in raw:
        raise InvalidSpecError(f"{where} has no value")
    reason = raw.get("reason", "")
    if not isinstance(reason, str):
        raise InvalidSpecError(f"{where}.reason = {repr_for_error(reason)}: expected text")
    value = reader.read(raw["value"], where)
    ends = None if raw.get("range") is None else _range(reader, raw["range"], value, where)
    return Entry(value, read_source(raw, default, where), reason, ends)


def _range(reader: Reader[Value], raw: object, value: Value, where: str) -> tuple[float, float]:
    """Return the two numbers between which a value lies."""
    ends = [reader.read(end, f"{where}.range") for end in raw] if isinstance(raw, list) else []
    numbers = [
        float(number)
        for number in (*ends, value)
        if isinstance(number, (int, float)) and not isinstance(number, bool)
    ]
    if len(ends) != 2 or len(numbers) != 3 or not numbers[0] <= numbers[2] <= numbers[1]:
        raise InvalidSpecError(
            f"{where}.range = {repr_for_error(raw)}: expected two numbers with the value between"
            ' them, such as ["13 TB/s", "22 TB/s"]'
        )
    return numbers[0], numbers[1]
