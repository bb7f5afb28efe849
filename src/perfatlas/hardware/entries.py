"""Entries of a spec by dotted path, from TOML files and overrides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from perfatlas.files import Entry, read_entry, refuse_all
from perfatlas.hardware.schema import FIELDS, is_section
from perfatlas.quantities import InvalidSpecError, Source, did_you_mean, repr_for_error


def unknown_field(path: str, origin: str) -> InvalidSpecError:
    """Return the error for an unknown path, with a suggestion."""
    clipped = path[:80]
    return InvalidSpecError(f"{origin}: unknown field {clipped!r}{nearest_field(clipped)}")


def nearest_field(path: str) -> str:
    """Return a clause that suggests the nearest field, preferably the same key in another table.

    Args:
        path: Path as the user wrote it, with or without its table.
    """
    table, _, key = path.rpartition(".")
    places = [known for known in FIELDS if "." in known and known.rpartition(".")[2] == key]
    if not places:
        keys = [known.rpartition(".")[2] for known in FIELDS]
        # a shared table alone makes no two names similar
        return did_you_mean(path, FIELDS) if did_you_mean(key, keys) else ""
    nearest = max(places, key=lambda known: known.startswith(table))
    return f"; did you mean {nearest!r} ({key} in the table [{nearest.rpartition('.')[0]}])?"


def read_section(
    section: str, table: Mapping[str, object], default: Source, origin: str
) -> dict[str, Entry]:
    """Return the entries of a section by path; all problems are reported in one error.

    Args:
        section: Name of the section, such as "device".
    """
    entries: dict[str, Entry] = {}
    problems: list[str] = []
    for path, raw in walk_section(section, table, origin):
        try:
            entries[path] = read_entry(FIELDS[path].reader, raw, default, f"{origin}: {path}")
        except InvalidSpecError as problem:
            problems.append(str(problem))
    refuse_all(problems, origin)
    return entries


def walk_section(
    prefix: str, table: Mapping[str, object], origin: str
) -> Iterator[tuple[str, object]]:
    """Yield (path, raw value) of every field below a section such as "device"."""
    for key, raw in table.items():
        path = f"{prefix}.{key}"
        if path in FIELDS:
            yield path, raw
        elif is_section(path) and isinstance(raw, Mapping):
            yield from walk_section(path, raw, origin)
        elif is_section(path):
            raise InvalidSpecError(f"{origin}: {path} = {repr_for_error(raw)}: expected a table")
        else:
            raise unknown_field(path, origin)
