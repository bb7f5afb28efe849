"""Tables of the catalogs: all entries of one, and the values of an entry with their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.report.text import format_value, profile_values, spelled_out, system_values
from perfatlas.web.questions import check_name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

CATALOGS: Final = ("systems", "models", "engines", "formats", "rates", "durations", "studies")
VALUES: Final = ("field", "value", "kind", "source", "note")


class CatalogTable(NamedTuple):
    """A table of a catalog page."""

    head: Sequence[str]  # Titles of the columns
    rows: Sequence[Sequence[str]]  # Cells (rows, columns)
    title: str = ""  # Heading, or ""
    links: str = ""  # Address to which the first cell is appended; "" for no links
    # Indices of text columns, which may wrap; others are right-aligned
    texts: Collection[int] = (0, 1)


def catalog_words(kind: str, name: str = "") -> list[str]:
    """Return the command line of a catalog, or of an entry; it opens no file of a client's choice.

    Raises:
        InvalidSpecError: There is no such catalog, or the name is a path.
    """
    if kind not in CATALOGS:
        raise InvalidSpecError(f"unknown catalog {repr_for_error(kind)}: {', '.join(CATALOGS)}")
    if not name:
        return ["catalog", kind]
    check_name("name", kind, name)
    if name.startswith("-"):
        raise InvalidSpecError(f"name = {repr_for_error(name)}: names begin with a letter")
    return ["catalog", kind, "show", name]


def listed(kind: str, results: Mapping[str, Any]) -> list[CatalogTable]:
    """Return the entries of a catalog.

    Args:
        results: The results of the command.
    """
    rows = results[kind]
    names = list(rows[0]) if rows else []
    key = "profile" if kind == "engines" else "name"
    names = [key, *(name for name in names if name != key)]
    cells = [[str(row[key]), *(format_value(n, row.get(n)) for n in names[1:])] for row in rows]
    texts = [index for index, n in enumerate(names) if isinstance(rows[0][n], str)]
    head = [spelled_out(n) for n in names]
    return [CatalogTable(head, cells, links=f"/catalog/{kind}/", texts=texts)]


def entry(kind: str, facts: Mapping[str, Any]) -> list[CatalogTable]:
    """Return the values of an entry of a catalog with their sources.

    Args:
        facts: The results of the command.
    """
    if kind == "systems":
        values = system_values(facts)
        about = [[name, str(facts[name])] for name in ("price", "chip") if facts[name]]
        about += [["note", str(note)] for note in facts["notes"]]
    elif kind == "studies":
        return [CatalogTable(("study",), [[line] for line in str(facts["text"]).splitlines()])]
    else:
        values = profile_values({n: v for n, v in facts.items() if n not in ("source", "notes")})
        about = [[name, str(facts[name])] for name in ("source",) if facts.get(name)]
        about += [["note", str(note)] for note in facts.get("notes") or ()]
    refs = list(dict.fromkeys(ref for value in values for ref in value.refs if ref))
    numbers = {ref: f"[{number}]" for number, ref in enumerate(refs, start=1)}
    columns = [
        (
            value.field,
            value.value,
            value.kind,
            " ".join(numbers[r] for r in value.refs if r),
            value.note,
        )
        for value in values
    ]
    used = [n for n in range(len(VALUES)) if n == 0 or any(row[n] for row in columns)]
    rows = [[row[n] for n in used] for row in columns]
    about += [[number, ref] for ref, number in numbers.items()]
    texts = range(len(used))
    tables = [CatalogTable([VALUES[n] for n in used], rows, title="Values", texts=texts)]
    return [*tables, *([CatalogTable(("", ""), about, title="Notes and sources")] if about else [])]
