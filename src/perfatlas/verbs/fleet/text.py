"""Text output of a fitted fleet: causes, lemon nodes, uncertainty."""

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

MOST_CAUSES: Final = 10  # of a brief answer
MOST_LEMONS: Final = 3
NOUNS: Final = ("failure", "effect", "notice")
SPARE_SHARE: Final = 50  # units per spare: about 2%, as in Lenovo's NVL72 guide


def print_fitted(
    console: Console, results: Mapping[str, Any], *, reproduce: str, verbose: bool = False
) -> None:
    """Write the results of `fleet fit`.

    Args:
        results: nodes, effects, left_out, causes (rows of the evidence and distribution), output,
            evidence.
        verbose: Whether to print all causes and nodes, and the reason for each distribution.
    """
    causes = sorted(results["causes"], key=lambda cause: -cause["events"])
    left = 0 if verbose or len(causes) == MOST_CAUSES + 1 else len(causes) - MOST_CAUSES
    rows = [_cause_row(cause) for cause in (causes if left <= 0 else causes[:MOST_CAUSES])]
    columns = {
        "cause": "cause",
        "events": "events",
        "share": "share",
        "fleet": "fleet",
        "part": "one part",
        "interval": "95% interval",
        "law": "law",
    }
    title = (
        f"causes of failure on {counted(results['nodes'], 'node')}: mean time between failures of"
        " the whole fleet, and of one part with its interval"
    )
    print_line(console, title, style="bold")
    print_rows(console, rows, columns=columns)
    if left > 0:
        events = sum(cause["events"] for cause in causes[MOST_CAUSES:])
        print_line(console, f"{left:,} more causes with {counted(events, 'event')}")
    console.print()
    _print_lemons(console, causes, verbose=verbose)
    print_logs(console, results)
    if results["effects"]:
        print_line(
            console, f"marked as effects of others: {counted(results['effects'], 'failure')}"
        )
    if results["left_out"]:
        told = ", ".join(kind_text(kind, count) for kind, count in results["left_out"].items())
        print_line(console, f"not counted, by --kinds: {told}")
    if verbose:
        print_line(console, "distribution and reason; see the evidence file", style="bold")
        print_labelled(
            console, [(cause["name"], cause["remarks"][-1]) for cause in causes if cause["remarks"]]
        )
    events = sum(cause["events"] for cause in causes)
    fitted = f"maximum likelihood on {counted(events, 'failure')}, 95% intervals"
    print_line(console, f"confidence: {fitted}", style="bold")
    print_plain(console, f"fleet written to {results['output']}, with an evidence file", wrap=False)
    print_plain(console, f"next: {job_command(results['output'])}", wrap=False)
    print_plain(console, f"reproduce: {reproduce}", style="dim", wrap=False)


AGREEMENT: Final = {
    "job_ends_explained": "ends of jobs explained by a device failure",
    "job_ends_repeated": "ends of further jobs on a failed node",
    "node_failures_only_in_accounting": "node failures that only accounting reports",
    "device_failures_without_job_end": "device failures under a job that went on",
    "device_failures_on_idle_nodes": "device failures on idle nodes",
    "node_states_explained": "node states explained by a failure, as its repair",
    "node_states_alone": "failed node states without a failure in another log",
}


WITHOUT_END: Final = {
    "states_without_end": "counted as down until the next state of the node or until --end",
    "states_without_end_not_counted": "not counted as downtime, as they are of another kind than"
    " --kinds or belong to a failure of another log",
}


def print_logs(console: Console, results: Mapping[str, Any]) -> None:
    """Write the exposure under jobs, the agreement of several logs, and the availability.

    Args:
        results: As for `print_fitted`.
    """
    if results["utilization"] is not None:
        print_line(
            console,
            f"jobs ran in {share_text(results['utilization'])} of the node-hours; failures that"
            " accounting reports are divided by the node-hours under jobs",
        )
    rows = [(AGREEMENT[name], f"{n:,}") for name, n in (results["log_agreement"] or {}).items()]
    if rows:
        print_line(console, "agreement of the logs, each failure counted once", style="bold")
        print_labelled(console, rows)
    node = results["availability"]["node"]
    if node == "unknown":
        causes = ", ".join(results["availability"]["without_repair_times"])
        why = f"have no repair times of {causes}" if causes else "report no node out of service"
        print_line(
            console,
            f"availability of nodes: unknown, the logs {why}; import node states"
            " (docs/telemetry.md) or add [[repair]] to the fleet file",
        )
    else:
        print_line(console, f"availability of nodes: {share_text(node)}")
    for name, told in WITHOUT_END.items():
        if count := results["availability"].get(name, 0):
            print_line(console, f"{counted(count, 'node state')} without an end: {told}")


def _cause_row(cause: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells of a cause."""
    low, high = (time_text(seconds(end)) for end in cause["mean_time_between_interval"])
    return {
        "cause": cause["name"],
        "events": cause["events"],
        "share": share_text(cause["share"]),
        "fleet": time_text(seconds(cause["fleet_mean_time_between"])),
        "part": time_text(seconds(cause["mean_time_between"])),
        "interval": f"{low} - {high}" if low != high else low,
        "law": cause["law"],
    }


def kind_text(kind: str, count: int) -> str:
    """Return the number of events of a kind, as text.

    Args:
        kind: failure, effect, notice, unclear, planned or overhead.

    Example:
        >>> from perfatlas.verbs.fleet.text import kind_text
        >>> kind_text("failure", 2), kind_text("notice", 1), kind_text("unclear", 2)
        ('2 failures', '1 notice', '2 unclear')
    """
    return counted(count, kind) if kind in NOUNS else f"{count:,} {kind}"


def _print_lemons(console: Console, causes: Sequence[Mapping[str, Any]], *, verbose: bool) -> None:
    """Write the lemon nodes with their causes, and the rate of the other nodes."""
    reasons: dict[str, list[str]] = {}
    for cause in causes:
        for lemon in cause["lemon_nodes"] or []:
            told = f"{lemon['events']:,} x {cause['name']}"
            reasons.setdefault(str(lemon["node"]), []).append(told)
    if reasons:
        print_line(
            console, "lemon nodes: significantly higher failure rate than the others", style="bold"
        )
        lines = [(node, ", ".join(told)) for node, told in reasons.items()]
        print_labelled(console, lines if verbose else lines[:MOST_LEMONS])
        if len(lines) > MOST_LEMONS and not verbose:
            print_line(console, f"  {len(lines) - MOST_LEMONS:,} more, shown by --verbose")
    if not verbose:
        return
    apart = [
        (cause["name"], time_text(seconds(cause["mean_time_between_without_lemons"])))
        for cause in causes
        if cause["mean_time_between_without_lemons"]
    ]
    if apart:
        print_line(console, "one part without lemons; the fleet file has both", style="bold")
        print_labelled(console, apart)


def job_command(fleet: str) -> str:
    """Return a goodput command whose checkpoint and restart times are to be filled in.

    Example:
        >>> from perfatlas.verbs.fleet.text import job_command
        >>> job_command("f.toml")
        'perfatlas goodput --fleet f.toml --spares COUNT --checkpoint-write-s TIME --restart-s TIME'
    """
    words = f"perfatlas goodput --fleet {shlex.quote(fleet)}"
    return f"{words} --spares COUNT --checkpoint-write-s TIME --restart-s TIME"


def goodput_command(fleet: str, units: int) -> str:
    """Return a goodput command for a fleet, with 2% of it as spares.

    A job on every unit would wait for each repair.

    Args:
        fleet: File or name of the fleet.
        units: Nodes or racks of the fleet.

    Example:
        >>> from perfatlas.verbs.fleet.text import goodput_command
        >>> goodput_command("rsc1", 2080).partition(" --checkpoint")[0]
        'perfatlas goodput --fleet rsc1 --spares 42'
    """
    spares = f" --spares {-(-units // SPARE_SHARE)}" if units > 1 else ""
    words = f"perfatlas goodput --fleet {shlex.quote(fleet)}{spares}"
    return f"{words} --checkpoint-write-s 60 --restart-s 300"


def seconds(text: str) -> float:
    """Return the seconds of a time in the evidence file.

    Args:
        text: A number and a unit of time.

    Example:
        >>> from perfatlas.verbs.fleet.text import seconds
        >>> seconds("3600 s")
        3600.0
    """
    return parse_duration(text, field="evidence")
