"""A fitted fleet for people: its causes, its lemon machines, how far to trust it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import counted, parse_duration
from perfatlas.report.text import (
    print_labelled,
    print_line,
    print_plain,
    print_rows,
    share_text,
    time_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console


NOUNS: Final = ("failure", "effect", "notice")
SPARE_SHARE: Final = 50  # units for each that stands by: some 2 %, as Lenovo's NVL72 guide says


def print_fitted(console: Console, results: Mapping[str, Any]) -> None:
    """Write what `fleet fit` found.

    Args:
        console: From `open_terminal`.
        results: nodes, effects, left_out, causes (rows of the evidence and law), output, evidence.
    """
    rows = []
    for cause in results["causes"]:
        low, high = (time_text(seconds(end)) for end in cause["mean_time_between_interval"])
        rows.append(
            {
                "cause": cause["name"],
                "events": cause["events"],
                "share": share_text(cause["share"]),
                "fleet": time_text(seconds(cause["fleet_mean_time_between"])),
                "part": time_text(seconds(cause["mean_time_between"])),
                "interval": f"{low} - {high}",
                "law": cause["law"],
            }
        )
    columns = {
        "cause": "cause",
        "events": "events",
        "share": "share",
        "fleet": "fleet",
        "part": "one part",
        "interval": "in 95 %",
        "law": "law",
    }
    title = (
        f"what fails on {counted(results['nodes'], 'node')}: mean time between failures of the"
        " whole fleet, and of one part with its interval"
    )
    print_rows(console, rows, columns=columns, title=title)
    _print_lemons(console, results["causes"])
    if results["effects"]:
        print_line(
            console, f"taken for effects of others: {counted(results['effects'], 'failure')}"
        )
    if results["left_out"]:
        told = ", ".join(kind_text(kind, count) for kind, count in results["left_out"].items())
        print_line(console, f"not counted, by --kinds: {told}")
    print_line(console, "which law, and why; more in the evidence", style="bold")
    print_labelled(
        console,
        [(cause["name"], cause["remarks"][-1]) for cause in results["causes"] if cause["remarks"]],
    )
    print_written(console, results["output"], results["nodes"])


def kind_text(kind: str, count: int) -> str:
    """Return how many events of a kind there are, in words.

    Args:
        kind: failure, effect, notice, unclear, planned or overhead.
        count: How many.

    Example:
        >>> from perfatlas.verbs.fleet.text import kind_text
        >>> kind_text("failure", 2), kind_text("notice", 1), kind_text("unclear", 2)
        ('2 failures', '1 notice', '2 unclear')
    """
    return counted(count, kind) if kind in NOUNS else f"{count:,} {kind}"


def _print_lemons(console: Console, causes: Sequence[Mapping[str, Any]]) -> None:
    """Write which nodes fail far more often, by what, and how often the others do."""
    reasons: dict[str, list[str]] = {}
    for cause in causes:
        for lemon in cause["lemon_nodes"] or []:
            told = f"{lemon['events']:,} x {cause['name']}"
            reasons.setdefault(str(lemon["node"]), []).append(told)
    if reasons:
        print_line(console, "nodes that fail far more often than the others", style="bold")
        print_labelled(console, [(node, ", ".join(told)) for node, told in reasons.items()])
    apart = [
        (cause["name"], time_text(seconds(cause["mean_time_between_without_lemons"])))
        for cause in causes
        if cause["mean_time_between_without_lemons"]
    ]
    if apart:
        print_line(console, "one part without lemons; the fleet file has both", style="bold")
        print_labelled(console, apart)


def print_written(console: Console, path: str, nodes: int) -> None:
    """Write where a fleet went, and what can be done with it.

    Args:
        console: From `open_terminal`.
        path: Of the fleet.
        nodes: Of the fleet.
    """
    print_plain(console, f"fleet written to {path}, evidence beside it", wrap=False)
    print_plain(console, f"next: {goodput_command(path, nodes)}", wrap=False)


def goodput_command(fleet: str, units: int) -> str:
    """Return a command that asks for the goodput of a fleet, with a fiftieth of it as spares.

    A job on every unit would wait for each repair.

    Args:
        fleet: Its file or name.
        units: Nodes or racks of it.

    Example:
        >>> from perfatlas.verbs.fleet.text import goodput_command
        >>> goodput_command("rsc1", 2080).partition(" --checkpoint")[0]
        'perfatlas goodput --fleet rsc1 --spares 42'
    """
    spares = f" --spares {-(-units // SPARE_SHARE)}" if units > 1 else ""
    words = f"perfatlas goodput --fleet {shlex.quote(fleet)}{spares}"
    return f"{words} --checkpoint-write-s 60 --restart-s 300"


def seconds(text: str) -> float:
    """Return the seconds of a time as the evidence writes it.

    Args:
        text: A number and a unit of time.

    Example:
        >>> from perfatlas.verbs.fleet.text import seconds
        >>> seconds("3600 s")
        3600.0
    """
    return parse_duration(text, field="evidence")
