"""`perfatlas catalog`: list catalogs and show entries with their sources."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

from perfatlas.commands.flags import SWITCH
from perfatlas.commands.output import envelope, print_json
from perfatlas.quantities import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["systems", "models", "formats", "engines", "rates", "durations", "fields"]
Action = Literal["list", "show"]


def catalog(
    kind: Kind,
    action: Action = "list",
    name: str | None = None,
    /,
    *,
    json: Annotated[bool, SWITCH] = False,
) -> int:
    """List a catalog, or show one entry; return the exit code.

    Args:
        kind: The catalog.
        action: List the entries, or show one with the source of every value.
        name: Entry to show: a listed name, a file, or a system with overrides.
        json: Print one JSON object.
    """
    from perfatlas.verbs.catalog.facts import CATALOGS

    chosen = CATALOGS[kind]
    if action == "show" and name is None:
        raise UsageError(
            f"missing name; for example: perfatlas catalog {kind} show {chosen.example}"
        )
    if action == "list" and name is not None:
        raise UsageError(f"did you mean: perfatlas catalog {kind} show {name}")
    if name is None:
        rows = chosen.rows()
        if json:
            print_json(envelope(f"catalog {kind}", results={kind: rows}))
        else:
            _print_list(rows, chosen.columns)
        return 0
    facts = chosen.facts(name)
    if json:
        print_json(envelope(f"catalog {kind}", results=facts, scenario={"name": name}))
    else:
        _print_entry(kind, facts)
    return 0


def _print_list(rows: list[dict[str, Any]], columns: Mapping[str, str]) -> None:
    from perfatlas.report.text import open_terminal, print_rows

    print_rows(open_terminal(sys.stdout), rows, columns=columns or None)


def _print_entry(kind: Kind, facts: Mapping[str, Any]) -> None:
    from perfatlas.report.text import (
        open_terminal,
        print_facts,
        print_rows,
        print_sourced,
        profile_values,
        system_values,
    )

    console = open_terminal(sys.stdout)
    if kind == "systems":
        print_facts(console, {"name": facts["name"], "notes": facts["notes"]})
        print_sourced(console, system_values(facts))
    elif kind == "engines":
        print_sourced(console, profile_values(facts))
    elif kind == "fields":
        rows = [{"name": name, **row} for name, row in facts["properties"].items()]
        print_rows(console, rows, columns={"name": "name", "description": "meaning"})
    else:
        print_facts(console, facts)
