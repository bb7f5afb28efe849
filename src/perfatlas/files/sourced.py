"""Values of files that say where they come from: a bare value, or {value, kind, ref, note}."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, get_args

from perfatlas.files.fields import Field, Text, known_keys, read_fields, sub_table
from perfatlas.quantities import InvalidSpecError, Kind, Source, shown

if TYPE_CHECKING:
    from perfatlas.files.fields import Reader

Value = float | str | bool  # SI number, word or flag
_KINDS: Final[dict[str, Kind]] = {kind: kind for kind in get_args(Kind)}


class _Words:
    """Text of any length with something in it."""

    def read(self, value: object, where: str) -> str:
        if not isinstance(value, str) or not value.strip():
            raise InvalidSpecError(f"{where} = {shown(value)}: expected text")
        return value


_SOURCE: Final[dict[str, Field[str]]] = {
    "kind": Field(Text(choices=tuple(_KINDS))),
    "ref": Field(_Words()),
    "note": Field(_Words()),
}
_ENTRY: Final = {"value": None, "reason": None, **_SOURCE}


class Entry(NamedTuple):
    """A value with its source; `reason` excuses a value that looks unphysical."""

    value: Value
    source: Source
    reason: str = ""


def read_source(table: Mapping[str, object], default: Source | None, where: str) -> Source:
    """Return the source a table states, falling back on a default for what it leaves out.

    Args:
        table: It may have kind, ref and note; other keys are not looked at.
        default: Used for what it has not.
        where: Place of the table, for messages.

    Raises:
        InvalidSpecError: No kind or no reference, or a kind that does not exist.
    """
    stated = read_fields({k: v for k, v in table.items() if k in _SOURCE}, _SOURCE, where)
    kind = stated.get("kind", default and default.kind)
    ref = stated.get("ref", default and default.ref)
    if not kind:
        raise InvalidSpecError(f"{where}: kind is missing: one of {', '.join(_KINDS)}")
    if not ref:
        raise InvalidSpecError(f"{where}: ref is missing: say where the value can be read")
    return Source(kind=_KINDS[kind], ref=ref, note=stated.get("note", ""))


def default_source(table: Mapping[str, object], fallback: Source | None, where: str) -> Source:
    """Return the source of every value of a table that states none of its own.

    Args:
        table: It may have `source = { kind = ..., ref = ... }`.
        fallback: Used where it has not.
        where: Place of the table, for messages.

    Raises:
        InvalidSpecError: No usable source.
    """
    where = f"{where}: source"
    return read_source(sub_table(table.get("source", {}), where, "{ kind, ref }"), fallback, where)


def read_entry(reader: Reader[Value], raw: object, default: Source, where: str) -> Entry:
    """Return a value with its source, from a bare value or from {value, kind, ref, note, reason}.

    Args:
        reader: Reads the value.
        raw: As the file has it.
        default: Source of a value that states none.
        where: Place of the value, for messages.

    Raises:
        InvalidSpecError: The value or its source is not usable.
    """
    if not isinstance(raw, Mapping):
        return Entry(reader.read(raw, where), default)
    known_keys(raw, _ENTRY, where)
    if "value" not in raw:
        raise InvalidSpecError(f"{where} has no value")
    reason = raw.get("reason", "")
    if not isinstance(reason, str):
        raise InvalidSpecError(f"{where}.reason = {shown(reason)}: expected text")
    return Entry(reader.read(raw["value"], where), read_source(raw, default, where), reason)
