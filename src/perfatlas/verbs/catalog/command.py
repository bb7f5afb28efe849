"""`perfatlas catalog`: list catalogs and show entries with their sources."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args

from cyclopts import Parameter

from perfatlas.commands.flags import SWITCH
from perfatlas.commands.output import envelope, print_json
from perfatlas.quantities import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.verbs.catalog.facts import Catalog

Kind = Literal[
    "systems",
    "models",
    "formats",
    "engines",
    "rates",
    "durations",
    "studies",
    "commands",
    "fields",
    "metrics",
    "hardware-fields",
    "engine-fields",
]
Action = Literal["list", "show", "new", "check"]
DETAILS: Final = ("parameter_parts", "checkpoint", "notes")  # of a model


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Start:
    """What a new file starts from.

    Args:
        base: Entry whose values a new file starts from.
        kind: Kind of machine of a new system: gpu, systolic or dataflow.
    """

    base: str | None = None
    kind: str | None = None


def catalog(
    entries: Kind,
    action: Action | str = "list",
    name: str | None = None,
    /,
    *,
    json: Annotated[bool, SWITCH] = False,
    verbose: Annotated[bool, SWITCH] = False,
    start: Start | None = None,
) -> int:
    """List a catalog, show one entry, or write and check a file of one; return the exit code.

    Args:
        action: List the entries, or show one (its name alone also does); of systems, engines and
            models, write a new file or check one.
        name: Entry to show: a listed name, a file, or a system with overrides. For new and check,
            the file.
        json: Print one JSON object.
        verbose: Show every value of an entry with its source.
        start: What a new file starts from.
    """
    start = start or Start()
    if action not in get_args(Action):
        if name is not None:
            raise UsageError(f"unexpected positional argument {name!r}: give one name")
        action, name = "show", action
    if action in ("new", "check"):
        return _file(entries, action, name, start, json=json)
    _only_new(entries, start)
    from perfatlas.verbs.catalog.facts import CATALOGS

    chosen = CATALOGS[entries]
    if action == "show" and name is None:
        raise UsageError(
            f"missing name; for example: perfatlas catalog {entries} show {chosen.example}"
        )
    if action == "list" and name is not None:
        raise UsageError(f"did you mean: perfatlas catalog {entries} show {name}")
    if name is None:
        rows = chosen.rows()
        if json:
            print_json(envelope(f"catalog {entries}", results={entries: rows}))
        else:
            _print_list(rows, chosen)
        return 0
    facts = chosen.facts(name)
    if json:
        print_json(envelope(f"catalog {entries}", results=facts, scenario={"name": name}))
    else:
        _print_entry(entries, facts, verbose=verbose)
    return 0


def _file(kind: Kind, action: str, name: str | None, start: Start, *, json: bool) -> int:
    """Write a new file of a catalog, or check one; return the exit code."""
    from pathlib import Path

    from perfatlas.files import check_writable, write_atomic
    from perfatlas.verbs.catalog.facts import FILES

    if kind not in FILES:
        raise UsageError(
            f"{action} applies only to {', '.join(FILES)}: perfatlas catalog systems {action}"
        )
    chosen = FILES[kind]
    if name is None or not name.endswith(Path(chosen.example).suffix):
        raise UsageError(
            f"missing file with suffix {Path(chosen.example).suffix}; for example: perfatlas"
            f" catalog {kind} {action} {chosen.example}"
        )
    if action == "check":
        _only_new(kind, start)
        checked = chosen.checked(name)
        if json:
            print_json(envelope(f"catalog {kind}", results={"file": name, "name": checked}))
        else:
            sys.stdout.write(f"{name}: {checked} is complete and consistent\n")
        return 0
    check_writable(name)
    if Path(name).is_symlink() or Path(name).exists():
        raise UsageError(f"{name} exists and is not overwritten; give another name")
    write_atomic(name, chosen.text(**_given(kind, start)))
    if json:
        print_json(envelope(f"catalog {kind}", results={"file": name}))
        return 0
    sys.stdout.write(
        f"{name} written; set its fields, then run: perfatlas catalog {kind} check {name}\n"
    )
    return 0


def _only_new(entries: Kind, start: Start) -> None:
    """Refuse what only a new file starts from."""
    for name, value in vars(start).items():
        if value is not None:
            raise UsageError(f"--{name} applies only to perfatlas catalog {entries} new")


def _given(entries: Kind, start: Start) -> dict[str, str | None]:
    """Return what a new file starts from; only systems have kinds."""
    if entries == "systems":
        return vars(start)
    if start.kind is not None:
        raise UsageError("--kind applies only to perfatlas catalog systems new")
    return {"base": start.base}


def _print_list(rows: list[dict[str, Any]], chosen: Catalog) -> None:
    from perfatlas.report import text

    console = text.open_terminal(sys.stdout)
    if not chosen.line:
        text.print_rows(console, rows, columns=chosen.columns or None)
        return
    for row in rows:
        line = f"{row['name']:<28}  {row[chosen.line]}"
        cut = line if len(line) <= console.width else f"{line[: console.width - 4].rstrip()} ..."
        text.print_plain(console, cut, wrap=False)


def _print_entry(kind: Kind, facts: Mapping[str, Any], *, verbose: bool) -> None:
    from perfatlas.report import text

    console = text.open_terminal(sys.stdout)
    if kind == "systems":
        text.print_facts(console, {n: facts[n] for n in ("name", "notes", "price", "chip")})
        if verbose:
            text.print_sourced(console, text.system_values(facts))
        else:
            text.print_grouped(console, text.system_values(facts), levels=2)
    elif kind == "engines" and verbose:
        text.print_sourced(console, text.profile_values(facts))
        text.print_readers(console, facts["read_by"])
    elif kind == "engines":
        text.print_grouped(console, text.profile_values(facts))
    elif kind == "studies":
        text.print_plain(console, facts["text"].rstrip(), wrap=False)
    elif "definitions" in facts:
        text.print_facts(console, {"name": facts["name"]})
        for definition in facts["definitions"]:
            console.print()
            text.print_facts(console, definition)
    elif kind == "commands":
        rows = [{"name": name, **row} for name, row in facts["properties"].items()]
        table = text.TitledRows("fields", rows, {"name": "name", "description": "meaning"})
        text.print_tables(console, [table], verbose=verbose)
    else:
        details = [] if verbose else [name for name in DETAILS if facts.get(name)]
        text.print_facts(console, {name: facts[name] for name in facts if name not in details})
        if details:
            texts = [name.replace("_", " ") for name in details]
            text.print_line(console, f"--verbose shows {', '.join(texts)}", style="dim")
