"""Text output of a schedule: GPU time by category, waiting times, compared policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.declarations import without_defaults
from perfatlas.quantities import HOUR_S, counted, format_quantity
from perfatlas.report.text import (
    METHODS,
    MOST_BUCKETS,
    SHORT_NAMES,
    format_value,
    print_aligned,
    print_closing,
    print_heading,
    print_line,
    print_more,
    print_rows,
    print_waterfall,
    share_text,
    time_text,
)
from perfatlas.scenario.cluster_schedules import PARTS
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    Answered = Mapping[str, Any]

SCHEDULE_BUCKETS: Final = {
    "productive": "useful work",
    "unfinished": "unfinished work",
    "lost_work": "work lost",
    "restart": "restarting",
    "detection": "failure detection",
    "waiting": "waiting for a node",
    "draining": "idle, node draining",
    "down": "nodes under repair",
    "idle_jobs_queued": "idle, jobs queued",
    "idle_no_jobs": "idle, no job waits",
    "under_way": "work in running jobs",
}
ONE_RUN: Final = "one simulation, without an interval"
SEEDED: Final = "; --seed selects other random draws"
MOST_CLASSES: Final = 12
FEW_IGNORED: Final = 3  # of a brief answer
FEW_COMPARED: Final = 5
DETAILS: Final = ("load", "stranded_share", "fragmented_share", "backfilled", "restarts")
FIGURES: Final = (
    *("duration_s", "load", "allocated_share", "fragmented_share", "stranded_share", "backfilled"),
)
LOCALITY: Final = ("single_domain_share", "domains_per_job")  # where nodes are in domains
COUNTS: Final = ("failures", "restarts", "preemptions", "lost_gpu_hours")  # shown if not 0
ENERGIES: Final = ("cluster_energy_j", *PARTS)
COSTS: Final = ("cluster_electricity_usd", "lost_work_electricity_usd")
WATTS: Final = {
    "power_w": "GPU power",
    "idle_power_w": "power of an idle GPU",
    "repair_power_w": "power of a GPU under repair",
}
SHOWN: Final = ("mean", "p50", "p90")  # columns of statistics
WAITS: Final = ("wait_s", "slowdown")
GROWS: Final = "grows"  # in place of statistics that have no steady value
ENDING: Final = {"response", "max_restarts", "patience_s", "detection_s", "preemption"}


def print_schedule(
    console: Console, answer: Answered, *, reproduce: str, verbose: bool = False
) -> None:
    """Write an answer of `fleet schedule` to a console.

    Args:
        verbose: Whether to print all results, classes of jobs and evidence.
    """
    results = answer["results"]
    print_line(console, schedule_headline(answer), style="bold")
    console.print()
    _print_results(console, results, brief=not verbose)
    print_heading(console, "where the GPU time goes")
    compared = results.get("compared")
    most = None if verbose else MOST_BUCKETS - bool(compared)
    print_waterfall(console, answer["breakdown"], SCHEDULE_BUCKETS, most=most)
    if len(results["classes"]) > 1 and verbose:
        classes = class_rows(results["classes"])
        print_heading(console, METRICS["classes"].label)
        print_rows(console, classes)
    if compared:
        print_heading(console, METRICS["compared"].label)
        print_rows(console, compared_rows(compared[: None if verbose else FEW_COMPARED]))
        print_more(console, len(compared) - FEW_COMPARED, verbose=verbose)
    method = METHODS[answer["evidence"]["tier"]]
    covered = ONE_RUN + (SEEDED if "seed" in answer["scenario"] else "")
    print_closing(
        console, answer, reproduce=reproduce, method=method, covered=covered, verbose=verbose
    )


def schedule_headline(answer: Answered) -> str:
    """Return the scenario in one line.

    Example:
        >>> from perfatlas.verbs.schedule.text import schedule_headline
        >>> schedule_headline({"scenario": {"num_jobs": 9, "seed": 3, "order": "priority"},
        ...     "results": {"jobs": 9, "nodes": 2, "gpus": 16}})
        'fleet schedule of 9 jobs on 16 GPUs in 2 nodes: order priority'
    """
    results, words = answer["results"], []
    for name, value in without_defaults("fleet schedule", answer["scenario"]).items():
        if name in ("num_jobs", "nodes", "gpus_per_node", "seed", "compare"):
            continue
        if name in WATTS:
            words.append(f"{WATTS[name]} {format_value('power_w', value)}")
        elif name == "usd_per_kwh":
            words.append(f"${value:g} per kWh")
        else:
            words.append(f"{_option(name)} {_value(name, value)}".rstrip())
    of = (
        f"fleet schedule of {counted(results['jobs'], 'job')}{_at_start(results)}"
        f" on {counted(results['gpus'], 'GPU')} in {counted(results['nodes'], 'node')}"
    )
    return f"{of}: {', '.join(words)}" if words else of


def _at_start(results: Mapping[str, Any]) -> str:
    """Return how many jobs of the steady state begin with the schedule, "" for none."""
    count = results.get("jobs_at_start") or 0
    return f" and {count:,} of the steady state at the start" if count else ""


def _option(name: str) -> str:
    """Return the name of a field as text."""
    return " ".join(SHORT_NAMES.get(word, word) for word in name.removesuffix("_s").split("_"))


def _value(name: str, value: Any) -> str:  # noqa: ANN401 - a field of any kind
    if isinstance(value, str):
        return value
    if value is True:
        return ""
    if isinstance(value, dict):
        return ",".join(f"{user}={share:g}" for user, share in value.items())
    if name.endswith("_s"):
        return time_text(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def schedule_lines(results: Answered, *, brief: bool = False) -> list[tuple[str, str]]:
    """Return (label, value) of the job results.

    Args:
        results: The `results` of an answer.
        brief: Without details, and without what a log holds beside jobs.
    """
    states = METRICS["states"].parts
    lines = []
    if "stability" in results:
        load, most = (format_value(name, results[name]) for name in ("load", "sustainable_load"))
        lines.append((results["stability"], f"load {load}, sustainable {most}"))
    lines += [(f"jobs {states[name]}", f"{n:,}") for name, n in results["states"].items()]
    lines += [
        (METRICS[name].label, format_value(name, results[name]))
        for name in (*FIGURES, *COUNTS)
        if results[name] is not None
        and (results[name] or name in FIGURES)
        and not (brief and name in DETAILS)
    ]
    lines += [
        (METRICS[name].label, format_value(name, results[name]))
        for name in LOCALITY
        if results.get(name) is not None
    ]
    lines += [
        (METRICS[name].label, _energy_text(name, results[name]))
        for name in (*ENERGIES, *COSTS)
        if name in results and (results[name] or not brief)
    ]
    if trace := results.get("trace"):
        if not brief:
            read = format_value("rows_read", results["rows_read"])
            lines.append((METRICS["rows_read"].label, read))
        lines += [
            (f"rows ignored: {row['reason']}, first at {row['first']}", f"{row['rows']:,}")
            for row in trace["ignored"][: FEW_IGNORED if brief else None]
        ]
    return lines


def _energy_text(name: str, value: float) -> str:
    """Return an energy in Wh, as electricity is sold, or its cost."""
    if name in COSTS:
        return format_value(name, value)
    return format_quantity(value / HOUR_S, "Wh", exact=False)


def statistics(name: str, told: Answered) -> list[str]:
    """Return mean, median and 90% quantile of a result as text."""
    return [format_value(name, told[part]) for part in SHOWN]


def _print_results(console: Console, results: Answered, *, brief: bool) -> None:
    growing = results.get("stability") == "overloaded"
    waits = [
        (
            METRICS[name].label,
            *([GROWS] * len(SHOWN) if growing else statistics(name, results[name])),
        )
        for name in WAITS
    ]
    print_aligned(console, schedule_lines(results, brief=brief))
    if not brief:
        console.print()
    print_aligned(console, waits, SHOWN)


def class_rows(classes: Sequence[Answered]) -> list[dict[str, str]]:
    """Return classes of jobs as cells, largest first; those beyond a dozen are merged.

    Args:
        classes: The `classes` of an answer.
    """
    ordered = sorted(classes, key=lambda row: -row["jobs"])
    rows = []
    for row in ordered[:MOST_CLASSES]:
        mean, _, p90 = statistics("wait_s", row["wait_s"])
        rows.append(
            {
                "class": str(row["kind"]),
                "jobs": f"{row['jobs']:,}",
                "wait, mean": mean,
                "p90": p90,
                "slowdown": statistics("slowdown", row["slowdown"])[0],
                "restarts": f"{row['restarts']:,}",
                "GPU-hours lost": format_value("lost_gpu_hours", row["lost_gpu_hours"]),
            }
        )
    left = ordered[MOST_CLASSES:]
    if left:
        jobs = sum(row["jobs"] for row in left)
        rows.append(
            dict.fromkeys(rows[0], "") | {"class": f"{len(left)} more", "jobs": f"{jobs:,}"}
        )
    return rows


def compared_rows(compared: Sequence[Answered]) -> list[dict[str, str]]:
    """Return compared schedules as cells: changed fields and results.

    Time and completed jobs are shown where they differ, completed jobs first where jobs may fail,
    as failed jobs reduce waiting. Jobs that never started and work of incomplete jobs are shown
    where present.

    Args:
        compared: The `compared` of an answer.
    """
    columns = {
        "time": [time_text(row["duration_s"]) for row in compared],
        "completed": [f"{row['completed']:,}" for row in compared],
    }
    differing = {name: column for name, column in columns.items() if len(set(column)) > 1}
    ending = any(ENDING & set(row["changes"]) for row in compared)
    first = {n: differing.pop(n) for n in ("completed",) if ending and n in differing}
    never = any(row["never_started"] for row in compared)
    others = {"under way": "under_way_share", "unfinished": "unfinished_share"}
    told = {label: name for label, name in others.items() if any(row[name] for row in compared)}
    near = {row.get("single_domain_share") for row in compared}
    domains = {"one domain": "single_domain_share"} if len(near) > 1 and None not in near else {}
    shares = {"useful": "productive_share", **domains, **told, "held": "allocated_share"}
    rows = []
    for at, row in enumerate(compared):
        mean, _, p90 = statistics("wait_s", row["wait_s"])
        cells = {
            **{_option(name): _value(name, value) for name, value in row["changes"].items()},
            **{name: column[at] for name, column in first.items()},
            "wait, mean": mean,
            "p90": p90,
            **({"no start": f"{row['never_started']:,}"} if never else {}),
            "slowdown": statistics("slowdown", row["slowdown"])[0],
            **{label: share_text(row[name]) for label, name in shares.items()},
        }
        rows.append(cells | {name: column[at] for name, column in differing.items()})
    return rows
