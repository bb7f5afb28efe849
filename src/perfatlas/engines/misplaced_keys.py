"""Keys of an engine file that are written outside their table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def refuse_misplaced(table: Mapping[str, object], paths: Iterable[str], where: str) -> None:
    """Refuse a key at the top of a file, or in its scheduler, that belongs to another table.

    Args:
        table: The file.
        paths: Paths of all fields, as `profile_fields` has them.
        where: The file, for messages.

    Raises:
        InvalidSpecError: A key belongs to other tables; their first lines are named.
    """
    known = list(paths)
    scheduler = table.get("scheduler")
    tables = {"": table, "scheduler.": scheduler if isinstance(scheduler, dict) else {}}
    for place, keys in tables.items():
        for key in keys:
            if any(path.split("[")[0].startswith(f"{place}{key}") for path in known):
                continue
            places = [path.rpartition(".") for path in known]
            homes = [_header(home) for home, _, name in places if name == key and home]
            if homes:
                raise InvalidSpecError(
                    f"{where}: {place}{key} has no effect: {key} belongs to"
                    f" {' or '.join(homes)}; write it below that line"
                )


def _header(path: str) -> str:
    """Return the line that begins a table: [host] or [[scheduler.by_memory]]."""
    return f"[[{path.removesuffix('[]')}]]" if path.endswith("[]") else f"[{path}]"
