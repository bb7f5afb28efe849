"""A fleet as an HTML page, in plain language: causes of failures, repairs, effect on jobs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import DAY_S, counted
from perfatlas.report.charts import (
    BLUE,
    ORANGE,
    Axis,
    Bar,
    BarChart,
    DaysChart,
    Line,
    LineChart,
)
from perfatlas.report.pages import Chart, Command, Page, Section, Table, Value
from perfatlas.report.text import format_number, share_text
from perfatlas.verbs.fleet.glossary import (
    LENGTHS,
    glossary,
    in_words,
    spelled_rate,
    spelled_time,
    unit_of,
)
from perfatlas.verbs.fleet.text import goodput_command, seconds
from perfatlas.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.report.pages import Block

    Facts = Mapping[str, Any]
    from collections.abc import Mapping

EFFECTS: Final = {
    "stops": "stops the job",
    "corrupts": "corrupts results silently",
    "slows": "slows the job down",
}
CAUSE_COLUMNS: Final = (
    "cause",
    "description",
    "share",
    "in the fleet, every",
    "effect",
    "detected after",
    "repair",
)
MOST_NAMED: Final = 3  # causes named in one sentence
LEMON_COLUMNS: Final = ("machine", "causes", "failures", "probability of a high failure rate")
FITTED: Final = (
    "The fleet was fitted to records of failures. The interval contains the true time in 19 of 20"
    " such cases; it is wider with fewer failures."
)
NOT_ALL: Final = (
    "Not every line is a failure: others are consequences, planned, unclear, or outside the"
    " observation window."
)
CHANGED: Final = "The fleet file was changed after the fit."
OF_ALL: Final = (
    "The time and its interval are for all machines, including those with high failure rates."
)


def fleet_page(
    name: str,
    facts: Facts,
    evidence: Facts | None,
    *,
    reproduce: str,
) -> Page:
    """Return a fleet as an HTML page.

    Args:
        facts: Result of `fleet_facts`.
        evidence: Evidence of a fitted fleet; None for none.
    """
    causes, jobs = facts["causes"], facts["jobs"]
    return Page(
        command="fleet report",
        has_figures=False,
        title=f"Failures of {name}",
        summary=[
            _size(facts),
            _how_often(causes),
            _most_frequent(causes),
            *_means(jobs),
        ],
        values=_values(facts),
        sections=[
            *shares_of(causes),
            *lives_of(jobs),
            _causes(causes, facts["repairs"]),
            _repairs(facts["repairs"]),
            *_lemons(causes, evidence),
            _sizes(jobs, causes),
            _next(name, facts["units"]),
            glossary([text for row in causes for text in (row["name"], row["meaning"])]),
        ],
        evidence=_evidence(causes, evidence),
        reproduce=reproduce,
        versions={"perfatlas": __version__},
    )


def _size(facts: Facts) -> str:
    return (
        f"This fleet has {counted(facts['units'], 'machine')} with"
        f" {counted(facts['gpus_per_unit'], 'GPU')} each, {counted(facts['gpus'], 'GPU')} in all."
    )


def _values(facts: Facts) -> list[Value]:
    told = [("machines", f"{facts['units']:,}"), ("GPUs", f"{facts['gpus']:,}")]
    if of_machines := _per_day(facts["causes"]):
        told.append(("time between failures of machines", spelled_time(DAY_S / of_machines)))
    largest = facts["jobs"][-1]
    if _is_interrupted(largest):
        told.append(
            ("time to interruption of a job on the whole fleet", spelled_time(largest["mtti_s"]))
        )
    return [Value(label=label, value=value) for label, value in told]


def _per_day(causes: Sequence[Facts]) -> float:
    """Return the failures of machines per day in the fleet."""
    return float(sum(row["per_day"] for row in causes if not row["of_job"]))


def _is_interrupted(job: Facts) -> bool:
    return bool(job["mtti_s"]) and not math.isinf(job["mtti_s"])


def _causes(causes: Sequence[Facts], repairs: Sequence[Facts]) -> Section:
    rows = [_cause_cells(cause, repairs) for cause in causes]
    table = Table(head=CAUSE_COLUMNS, rows=rows, text_columns=(0, 1, 4, 5, 6))
    return Section(title="Causes of failures", blocks=[table])


def _how_often(causes: Sequence[Facts]) -> str:
    """Return the failure rates of machines and of jobs independent of machines."""
    of_machines = _per_day(causes)
    of_job = sum(row["per_day"] for row in causes if row["of_job"])
    told = []
    if of_machines:
        told.append(f"A machine in the fleet fails every {_often(of_machines)}.")
    if of_job:
        told.append(
            f"Every job, however many GPUs it uses, is {'also ' if told else ''}interrupted every"
            f" {_often(of_job)}, by causes outside of single machines."
        )
    return " ".join(told)


def _often(per_day: float) -> str:
    return f"{spelled_time(DAY_S / per_day)} on average, {spelled_rate(per_day)}"


def _most_frequent(causes: Sequence[Facts]) -> str:
    """Return the most frequent cause, or all equally frequent ones."""
    share = causes[0]["share"]
    first = [_named(row) for row in causes if math.isclose(row["share"], share, rel_tol=1e-9)]
    whole = any(row["of_job"] for row in causes)
    whose = "failures of a job on the whole fleet" if whole else "failures"
    if len(first) == 1:
        return f"The most frequent cause: {first[0]}, {share_text(share)} of all {whose}."
    more = [f"{len(first) - MOST_NAMED} more"] if len(first) > MOST_NAMED else []
    *named, last = [*first[:MOST_NAMED], *more]
    which = f"{len(first)} most frequent" if len(first) < len(causes) else f"{len(first)}"
    return (
        f"The {which} causes are equally frequent, each {share_text(share)} of all {whose}:"
        f" {', '.join(named)} and {last}."
    )


def _named(cause: Facts) -> str:
    words = in_words(cause["name"], cause["meaning"])
    return f"{words} ({cause['name']})" if words else str(cause["name"])


def _means(jobs: Sequence[Facts]) -> list[str]:
    """Return the effect of failures on the largest job, as a sentence."""
    largest = jobs[-1]
    text = (
        f"A job on all {counted(largest['gpus'], 'GPU')} runs"
        f" {spelled_time(largest['mtti_s'])} on average until a failure interrupts it. It then"
        " restarts from its last checkpoint; the work since then is lost."
    )
    return [text] if _is_interrupted(largest) else []


def _next(name: str, units: int) -> Section:
    """Return the command that ranks improvements."""
    text = (
        "More frequent or faster checkpoints, faster restarts, more spare machines, quicker"
        " repairs: the largest gain depends on the job. This command ranks them for given"
        " checkpoint and restart times:"
    )
    command = Command(line=f"{goodput_command(name, units)} --what-if")
    return Section(title="Possible improvements", blocks=[text, command])


def _cause_cells(cause: Facts, repairs: Sequence[Facts]) -> tuple[str, ...]:
    noticed = spelled_time(cause["detection_s"]) if cause["detection_s"] else "at once (assumed)"
    lasts = {row["name"]: row["mean_s"] for row in repairs}.get(cause["repair"])
    how_long = f", {spelled_time(lasts)}" if lasts else ""
    return (
        cause["name"],
        in_words(cause["name"], cause["meaning"]) or "-",
        share_text(cause["share"]),
        spelled_time(cause["mean_time_between_s"]) + (", each job" if cause["of_job"] else ""),
        EFFECTS[cause["effect"]],
        noticed,
        f"{cause['repair']}{how_long}" if cause["repair"] else "none, the job restarts",
    )


def _repairs(repairs: Sequence[Facts]) -> Section:
    if any(row["mean_s"] for row in repairs):
        rows = [(row["name"], spelled_time(row["mean_s"])) for row in repairs]
        block: Block = Table(head=("repair", "mean time"), rows=rows)
    else:
        block = (
            "No repair time is known for this fleet. Until one is set, machines are assumed to"
            " return at once, so that no spares are needed."
        )
    return Section(title="Repair times", blocks=[block])


def _lemons(causes: Sequence[Facts], evidence: Facts | None) -> list[Section]:
    """Return the machines to inspect first, or the lemon assumption of the fleet."""
    found: dict[str, list[tuple[int, str, float]]] = {}
    for cause in (evidence or {}).get("cause", []):
        for lemon in cause.get("lemon_nodes", []):
            told = (lemon["events"], cause["name"], lemon["probability"])
            found.setdefault(str(lemon["node"]), []).append(told)
    blocks: list[Block] = []
    if found:
        blocks = [
            "These fail significantly more often than the others.",
            Table(head=LEMON_COLUMNS, rows=_lemon_cells(found), text_columns=(0, 1)),
        ]
    assumed = [cause for cause in causes if cause["lemon_share"]]
    blocks += [
        f"For {cause['name']}, {share_text(cause['lemon_share'])} of the parts are assumed to"
        f" fail {format_number(cause['lemon_factor'])} times as often as the others."
        for cause in assumed
    ]
    if len(assumed) > 1:
        blocks.append(
            "These shares are per cause: a machine with two such causes is counted in both, so"
            " that they do not add up to a number of machines."
        )
    return [Section(title="Machines to inspect first", blocks=blocks)] if blocks else []


def _lemon_cells(found: Mapping[str, Sequence[tuple[int, str, float]]]) -> list[tuple[str, ...]]:
    """Return a row per machine, the most failures first."""
    rows: list[tuple[str, ...]] = []
    for node, told in sorted(found.items(), key=lambda row: -sum(one[0] for one in row[1])):
        reasons = ", ".join(f"{name} ({events:,})" for events, name, _ in told)
        surest = max(probability for *_, probability in told)
        total = sum(events for events, *_ in told)
        rows.append((node, reasons, f"{total:,}", share_text(surest)))
    return rows


def _sizes(jobs: Sequence[Facts], causes: Sequence[Facts]) -> Section:
    unit = unit_of(jobs[-1]["mtti_s"])
    rows = [
        (
            f"{row['gpus']:,}",
            "never" if math.isinf(row["mtti_s"]) else spelled_time(row["mtti_s"], unit),
            spelled_rate(DAY_S / row["mtti_s"]),
        )
        for row in jobs
    ]
    head = ("GPUs of the job", "mean time to interruption", "interruptions")
    table = Table(head=head, rows=rows, text_columns=())
    return Section(title="Interruptions by job size", blocks=[_what_size_does(causes), table])


def _what_size_does(causes: Sequence[Facts]) -> str:
    stopping = [cause for cause in causes if cause["effect"] != "slows"]
    if not stopping:
        return "No cause stops a job."
    if all(cause["of_job"] for cause in stopping):
        return (
            "The causes that stop a job are not faults of single machines, so that the number of"
            " GPUs of the job has no effect."
        )
    return "The more GPUs a job uses, the sooner one of them fails and stops all the others."


def _evidence(causes: Sequence[Facts], evidence: Facts | None) -> list[Section]:
    if evidence is None:
        return []
    told = evidence.get("cause", [])
    apart = any("mean_time_between_without_lemons" in cause for cause in told)
    head = ["cause", "failures", "mean time between failures of a part", "95% interval"]
    files = [(file["path"], f"{file['parsed']:,}") for file in evidence.get("file", [])]
    blocks: list[Block] = [
        FITTED,
        *([OF_ALL] if apart else []),
        *([CHANGED] if evidence["changed"] else []),
        Table(
            head=[*head, "without lemon machines"] if apart else head,
            rows=[_seen_cells(cause, apart=apart) for cause in told],
        ),
        *_ageing(causes),
        NOT_ALL,
        Table(head=("record", "lines read"), rows=files),
    ]
    return [Section(title="Evidence", blocks=blocks)]


def _seen_cells(cause: Facts, *, apart: bool) -> list[str]:
    low, high = (seconds(end) for end in cause["mean_time_between_interval"])
    mean_s = seconds(cause["mean_time_between"])
    unit = unit_of(mean_s)
    ends = f"{spelled_time(low, unit)} to {spelled_time(high, unit)}"
    seen = f"{cause['events']:,}" if "events" in cause else "unknown"
    cells = [cause["name"], seen, spelled_time(mean_s, unit), ends]
    if not apart:
        return cells
    others = cause.get("mean_time_between_without_lemons")
    return [*cells, spelled_time(seconds(others), unit) if others else "the same"]


def _ageing(causes: Sequence[Facts]) -> list[str]:
    """Return a note on observed rates of ageing parts."""
    return [
        f"The failure rate of a part of {cause['name']} changes with its age. Over a whole"
        " lifetime, most of which may not have been observed, the distribution of the fleet has a"
        f" mean of {spelled_time(cause['part_mean_s'])}; the numbers above this section use it."
        for cause in causes
        if cause["ages"]
    ]


MOST_BARS: Final = 20


def shares_of(causes: Sequence[Facts]) -> list[Section]:
    """Return the chart of failure causes, None for a single cause.

    Args:
        causes: Causes of `fleet_facts`, most frequent first.
    """
    if len(causes) < 2:
        return []
    bars = [
        Bar(row["name"], row["share"], share_text(row["share"]), ORANGE)
        for row in causes[:MOST_BARS]
    ]
    left = len(causes) - len(bars)
    title = "Share of failures by cause"
    chart = Chart(figure=BarChart(bars, Axis("share of all failures", "%")), title=title)
    note = [f"The {MOST_BARS} most frequent; the table has {left} more."] if left else []
    return [Section(title=title, blocks=[*note, chart])]


def lives_of(jobs: Sequence[Facts]) -> list[Section]:
    """Return the chart of MTTI by job size, None for fewer than two points.

    Args:
        jobs: Jobs of `fleet_facts`.
    """
    rows = [row for row in jobs if math.isfinite(row["mtti_s"])]
    if len(rows) < 2:
        return []
    unit = unit_of(rows[-1]["mtti_s"])  # as in the table and the text of the largest job
    line = Line(
        "mean time to interruption",
        [row["gpus"] for row in rows],
        [row["mtti_s"] / LENGTHS[unit][0] for row in rows],
        BLUE,
    )
    y = Axis(f"mean time to interruption [{unit}s]", log=True)
    title = "Mean time to interruption by job size"
    figure = LineChart([line], Axis("GPUs of the job", log=True), y)
    return [Section.charted(title, figure)]


def days_of(facts: Facts) -> list[Section]:
    """Return the chart of failures per day, None for a single day.

    Args:
        facts: Result of `history_facts`.
    """
    if len(facts["days"]) < 2:
        return []
    title = "Failures per day"
    figure = DaysChart(facts["days"], facts["failures_per_day"], Axis("failures per day", "count"))
    return [Section.charted(title, figure)]


KINDS: Final = {
    "failure": "failure",
    "unclear": "hardware or software, unknown from the log",
    "effect": "consequence of another failure",
    "notice": "recorded, without interruption",
    "planned": "planned",
    "overhead": "overhead",
}
EVENT_COLUMNS: Final = (
    "component",
    "cause",
    "description",
    "kind",
    "events",
    "machines",
    "mean time to recovery",
)


def history_page(name: str, facts: Facts, *, reproduce: str) -> Page:
    """Return a history of failures as an HTML page.

    Args:
        facts: Result of `history_facts`.
    """
    told = [
        text for row in facts["causes"] for text in (row["component"], row["cause"], row["meaning"])
    ]
    return Page(
        command="fleet report",
        title=f"Failure history of {name}",
        summary=[_period(facts)],
        values=[
            Value(label=KINDS[kind], value=f"{count:,}") for kind, count in facts["kinds"].items()
        ],
        sections=[*days_of(facts), *_tables(facts), glossary(told)],
        reproduce=reproduce,
        versions={"perfatlas": __version__},
    )


def _tables(facts: Facts) -> list[Section]:
    events = Table(
        head=EVENT_COLUMNS,
        rows=[_event_cells(row) for row in facts["causes"]],
        text_columns=(0, 1, 2, 3),
    )
    machines = Table(
        head=("machine", "failures"),
        rows=[(row["node"], f"{row['failures']:,}") for row in facts["nodes"]],
    )
    chance = (
        "Some machines are first by chance; perfatlas fleet fit finds those with significantly"
        " more failures."
    )
    return [
        Section(title="Events", blocks=[events]),
        Section(title="Machines with the most failures", blocks=[chance, machines]),
    ]


def _period(facts: Facts) -> str:
    if not facts["events"]:
        return "The logs contain no events."
    first, last = facts["first"][:10], facts["last"][:10]
    when = f"From {first} to {last}" if last > first else f"On {first}"
    return f"{when} the logs contain {counted(facts['events'], 'event')}."


def _event_cells(row: Facts) -> tuple[str, ...]:
    return (
        row["component"],
        row["cause"],
        in_words(f"{row['component']}_{row['cause']}", row["meaning"]) or "-",
        KINDS[row["kind"]],
        f"{row['events']:,}",
        f"{row['nodes']:,}",
        "unknown" if row["mean_down_s"] is None else spelled_time(row["mean_down_s"]),
    )
