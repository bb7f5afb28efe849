"""Specs: entries by dotted path, read from the catalog or a user's file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from perfatlas import files, quantities
from perfatlas.hardware.schema import FIELDS, is_section
from perfatlas.quantities import InvalidSpecError, Source, did_you_mean, repr_for_error

MAX_FILE_BYTES: Final = 262_144  # bytes of a user's spec
_FILE_KEYS: Final = ("name", "base", "source", "notes", "device", "node", "fabric")


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
    matches = [name for name in FIELDS if "." in name and name.rpartition(".")[2] == key]
    if not matches:
        keys = [name.rpartition(".")[2] for name in FIELDS]
        # a shared table alone makes no two names similar
        return did_you_mean(path, FIELDS) if did_you_mean(key, keys) else ""
    nearest = max(matches, key=lambda name: name.startswith(table))
    return f"; did you mean {nearest!r} ({key} in the table [{nearest.rpartition('.')[0]}])?"


def read_section(
    section: str, table: Mapping[str, object], default: Source, origin: str
) -> dict[str, files.Entry]:
    """Return the entries of a section by path; all problems are reported in one error.

    Args:
        section: Name of the section, such as "device".
    """
    entries: dict[str, files.Entry] = {}
    problems: list[str] = []
    for path, raw in walk_section(section, table, origin):
        try:
            entries[path] = files.read_entry(FIELDS[path].reader, raw, default, f"{origin}: {path}")
        except InvalidSpecError as problem:
            problems.append(str(problem))
    files.refuse_all(problems, origin)
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


@dataclass(frozen=True, kw_only=True)
class Spec:
    """An unchecked system specification."""

    name: str  # Name of the device
    origin: str  # File or name it was read from, for messages
    entries: Mapping[str, files.Entry]  # Value and source by dotted path
    notes: tuple[str, ...] = ()  # Remarks to show with an answer
    changed: frozenset[str] = frozenset()  # Paths that the user changed
    # Entries before the user's changes, None without changes
    unchanged: Mapping[str, files.Entry] | None = None


def shipped(file: str) -> dict[str, object]:
    """Return a shipped file of hardware."""
    return files.shipped_table(f"data/hardware/{file}")


def catalog_group(section: str, name: str, origin: str) -> dict[str, files.Entry]:
    """Return the entries of a node or fabric of the catalog.

    Args:
        section: "node" or "fabric".
    """
    groups = shipped(f"{section}s.toml")
    table = groups.get(name)
    if not isinstance(table, dict):
        raise quantities.InvalidSpecError(
            f"{origin}: unknown {section}"
            f" {quantities.repr_for_error(name)}{quantities.did_you_mean(name[:80], groups)}"
        )
    default = files.default_source(table, None, f"{section} {name}")
    fields = {key: raw for key, raw in table.items() if key != "source"}
    return {section: files.Entry(name, default)} | read_section(section, fields, default, name)


def _read_file(path: str) -> dict[str, object]:
    file = Path(path)
    try:
        if not file.exists():
            raise quantities.InvalidSpecError(
                f"system {quantities.repr_for_error(path)}: no file at this path; give a TOML spec"
            )
        if not file.is_file():
            what = "is a folder" if file.is_dir() else "is not a regular file"
            raise quantities.InvalidSpecError(
                f"system {quantities.repr_for_error(path)} {what}; expected a TOML spec"
            )
        with file.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a usable path"
        raise quantities.InvalidSpecError(
            f"system {quantities.repr_for_error(path)} cannot be read: {reason}"
        ) from error
    if len(data) > MAX_FILE_BYTES:
        raise quantities.InvalidSpecError(
            f"system {quantities.repr_for_error(path)} is larger than {MAX_FILE_BYTES} bytes"
        )
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise quantities.InvalidSpecError(
            f"system {quantities.repr_for_error(path)} is not UTF-8 text"
        ) from error
    except (ValueError, RecursionError) as error:
        detail = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise quantities.InvalidSpecError(
            f"system {quantities.repr_for_error(path)} is not TOML: {detail[:200]}"
        ) from error


def _group_entries(
    section: str, raw: object, default: quantities.Source, origin: str
) -> dict[str, files.Entry]:
    """Return the entries of `node` or `fabric`: a name, or a table (full or with `base`)."""
    if isinstance(raw, str):
        return catalog_group(section, raw, origin)
    if not isinstance(raw, Mapping):
        raise quantities.InvalidSpecError(
            f"{origin}: {section} = {quantities.repr_for_error(raw)}: expected a name or a table"
        )
    base = raw.get("base")
    if base is not None and not isinstance(base, str):
        raise quantities.InvalidSpecError(
            f"{origin}: {section}.base = {quantities.repr_for_error(base)}: expected a name"
        )
    entries = catalog_group(section, base, origin) if base is not None else {}
    fields = {key: value for key, value in raw.items() if key != "base"}
    return entries | read_section(section, fields, default, origin)


def read_spec(table: Mapping[str, object], origin: str, fallback: quantities.Source | None) -> Spec:
    """Return the spec of a table, without what its base has."""
    for key in table:
        if key not in _FILE_KEYS:
            elsewhere = any(path.endswith(f".{key}") for path in FIELDS)
            nearest = (
                nearest_field(key) if elsewhere else quantities.did_you_mean(key[:80], _FILE_KEYS)
            )
            raise quantities.InvalidSpecError(
                f"{origin}: unknown key {quantities.repr_for_error(key)}{nearest}"
            )
    default = files.default_source(table, fallback, origin)
    device = files.sub_table(table.get("device", {}), f"{origin}: device")
    entries = read_section("device", device, default, origin)
    for section in ("node", "fabric"):
        if section in table:
            entries |= _group_entries(section, table[section], default, origin)
    notes = table.get("notes", [])
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise quantities.InvalidSpecError(
            f"{origin}: notes = {quantities.repr_for_error(notes)}: expected an array of text"
        )
    return Spec(name=origin, origin=origin, entries=entries, notes=tuple(notes))


def file_spec(path: str) -> tuple[Spec, str | None]:
    """Return the spec in a user's file, and the catalog system it is based on, if any."""
    table = _read_file(path)
    base, name = table.get("base"), table.get("name", Path(path).stem)
    if base is not None and not isinstance(base, str):
        raise quantities.InvalidSpecError(
            f"{path}: base = {quantities.repr_for_error(base)}: expected the name of a system"
        )
    if not isinstance(name, str) or not name.strip() or len(name) > 80:
        raise quantities.InvalidSpecError(
            f"{path}: name = {quantities.repr_for_error(name)}: expected a short text"
        )
    spec = read_spec(table, path, quantities.Source(kind="assumed", ref=f"user file {path}"))
    return Spec(name=name, origin=path, entries=spec.entries, notes=spec.notes), base
