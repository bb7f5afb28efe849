"""What fleets and histories show, in plain language: causes, repairs, effect on jobs."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import DAY_S, counted, parse_duration
from perfatlas.report import charts, pages, text
from perfatlas.verbs.fleet.glossary import (
    LENGTHS,
    glossary,
    in_words,
    spelled_rate,
    spelled_time,
    unit_of,
)
from perfatlas.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Facts = Mapping[str, Any]
    Columns = Mapping[str, str | Callable[[Facts], str]]

LEMONS: Final = "Lemon nodes: significantly higher failure rate than the others"
WITHOUT_LEMONS: Final = "mean_time_between_without_lemons"
MAX_CAUSES: Final = 10  # of a brief answer
MAX_LEMONS: Final = 3
NOUNS: Final = ("failure", "effect", "notice")
SPARE_SHARE: Final = 50  # units per spare: about 2%, as in Lenovo's NVL72 guide
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
EFFECTS: Final = {
    "stops": "stops the job",
    "corrupts": "corrupts results silently",
    "slows": "slows the job down",
}
MAX_NAMED: Final = 3  # causes named in one sentence
FITTED: Final = (
    "The fleet was fitted to records of failures. One part: the mean time between failures of one"
    " part, and its interval, which contains the true time in 19 of 20 such cases; it is wider with"
    " fewer failures."
)
NOT_ALL: Final = (
    "Not every line is a failure: others are consequences, planned, unclear, or outside the"
    " observation window."
)
CHANGED: Final = "The fleet file was changed after the fit."
OF_ALL: Final = (
    "The time and its interval are for all machines, including those with high failure rates."
)
MAX_BARS: Final = 20
KINDS: Final = {
    "failure": "failure",
    "unclear": "hardware or software, unknown from the log",
    "effect": "consequence of another failure",
    "notice": "recorded, without interruption",
    "planned": "planned",
    "overhead": "overhead",
}


def fitted_page(answer: Facts, *, reproduce: str) -> pages.Page:
    """Return the answer of `fleet fit`, whose fleet is in a file."""
    results = answer["results"]
    causes = sorted(results["causes"], key=lambda cause: -cause["events"])
    seen = _seen_columns(causes, text.time_text)
    last = {title: seen.pop(title) for title in ("without lemons",) if title in seen}
    columns: Columns = {
        "cause": "name",
        "events": "events",
        "share": lambda row: text.share_text(row["share"]),
        "fleet": lambda row: text.time_text(_seconds(row["fleet_mean_time_between"])),
        **seen,
        "law": "law",
        **last,
    }
    table = pages.Table.of(causes, columns, ("cause", "law"))
    lemons = _lemons(causes)
    reasons = [(row["name"], row["remarks"][-1]) for row in causes if row["remarks"]]
    job = f"perfatlas goodput --fleet {shlex.quote(results['output'])}"
    times = "--spares COUNT --checkpoint-write-s TIME --restart-s TIME"
    events = counted(sum(cause["events"] for cause in causes), "failure")
    closing: list[pages.Block] = [
        f"confidence: maximum likelihood on {events}, 95% intervals",
        f"fleet written to {results['output']}, with an evidence file",
        pages.Command(line=f"{job} {times}", label="next: "),
    ]
    return pages.Page(
        command="fleet fit",
        title=(
            f"causes of failure on {counted(results['nodes'], 'node')}: mean time between failures"
            " of the whole fleet, and of one part with its interval"
        ),
        sections=[
            pages.Section(title="Causes", blocks=[table], most=MAX_CAUSES),
            *([pages.Section(title=LEMONS, blocks=[lemons], most=MAX_LEMONS)] if lemons else []),
            pages.Section(blocks=_records(results)),
            pages.Section(
                title="Distribution and reason; see the evidence file",
                blocks=[_pairs(reasons)],
                is_detail=True,
            ),
            pages.Section(blocks=closing),
        ],
        reproduce=reproduce,
    )


def _records(results: Facts) -> list[pages.Block]:
    """Return the exposure under jobs, the agreement of several logs, and the availability."""
    blocks: list[pages.Block] = []
    availability = results["availability"]
    if results["utilization"] is not None:
        share = text.share_text(results["utilization"])
        blocks.append(
            f"jobs ran in {share} of the node-hours; failures that accounting reports are divided"
            " by the node-hours under jobs"
        )
    if agreement := results["log_agreement"]:
        blocks += [
            "agreement of the logs, each failure counted once:",
            _pairs([(AGREEMENT[name], f"{count:,}") for name, count in agreement.items()]),
        ]
    if availability["node"] == "unknown":
        causes = ", ".join(availability["without_repair_times"])
        why = f"have no repair times of {causes}" if causes else "report no node out of service"
        blocks.append(
            f"availability of nodes: unknown, the logs {why}; import node states"
            " (docs/telemetry.md) or add [[repair]] to the fleet file"
        )
    else:
        blocks.append(f"availability of nodes: {text.share_text(availability['node'])}")
    blocks += [
        f"{counted(availability[name], 'node state')} without an end: {meaning}"
        for name, meaning in WITHOUT_END.items()
        if availability.get(name)
    ]
    if results["effects"]:
        blocks.append(f"marked as effects of others: {counted(results['effects'], 'failure')}")
    if left_out := results["left_out"]:
        kinds = ", ".join(kind_text(kind, count) for kind, count in left_out.items())
        blocks.append(f"not counted, by --kinds: {kinds}")
    return blocks


def _seen_columns(
    causes: Sequence[Facts], spelled: Callable[[float], str]
) -> dict[str, Callable[[Facts], str]]:
    """Return columns of the time between failures of one part, as its evidence states it.

    Args:
        spelled: Returns a time [s] as text.
    """

    def interval(cause: Facts) -> str:
        low, high = (spelled(_seconds(end)) for end in cause["mean_time_between_interval"])
        return f"{low} - {high}" if low != high else low

    def without_lemons(cause: Facts) -> str:
        others = cause.get(WITHOUT_LEMONS)
        return spelled(_seconds(others)) if others else "the same"

    apart = any(cause.get(WITHOUT_LEMONS) for cause in causes)
    return {
        "one part": lambda cause: spelled(_seconds(cause["mean_time_between"])),
        "95% interval": interval,
        **({"without lemons": without_lemons} if apart else {}),
    }


def _seconds(text: str) -> float:
    return parse_duration(text, field="evidence")


def _pairs(rows: Sequence[tuple[str, str]]) -> pages.Table:
    return pages.Table(head=("", ""), rows=rows, text_columns=(0, 1))


def _lemons(causes: Sequence[Facts]) -> pages.Table | None:
    """Return the lemon nodes of the evidence, the most failures first; None for none."""
    found: dict[str, list[tuple[int, str, float]]] = {}
    for cause in causes:
        for lemon in cause.get("lemon_nodes") or []:
            seen = (lemon["events"], cause["name"], lemon["probability"])
            found.setdefault(str(lemon["node"]), []).append(seen)
    rows: list[dict[str, Any]] = [
        {
            "machine": node,
            "causes": ", ".join(f"{name} ({events:,})" for events, name, _ in seen),
            "failures": sum(events for events, *_ in seen),
            "probability": max(probability for *_, probability in seen),
        }
        for node, seen in found.items()
    ]
    columns: Columns = {
        "machine": "machine",
        "causes": "causes",
        "failures": "failures",
        "probability of a high failure rate": lambda row: text.share_text(row["probability"]),
    }
    rows.sort(key=lambda row: -row["failures"])
    return pages.Table.of(rows, columns, ("machine", "causes")) if rows else None


def kind_text(kind: str, count: int) -> str:
    """Return the number of events of a kind, as text.

    Args:
        kind: failure, effect, notice, unclear, planned or overhead.

    Example:
        >>> from perfatlas.verbs.fleet.blocks import kind_text
        >>> kind_text("failure", 2), kind_text("notice", 1), kind_text("unclear", 2)
        ('2 failures', '1 notice', '2 unclear')
    """
    return counted(count, kind) if kind in NOUNS else f"{count:,} {kind}"


def report_page(answer: Facts, *, reproduce: str) -> pages.Page:
    """Return the answer of `fleet report`, of a fleet or a history."""
    facts, name = answer["results"], Path(answer["scenario"]["subject"]).name
    if "fleet" in facts:
        return fleet_page(name, facts["fleet"], facts["evidence"], reproduce=reproduce)
    return history_page(name, facts["history"], reproduce=reproduce)


def fleet_page(
    name: str,
    facts: Facts,
    evidence: Facts | None,
    *,
    reproduce: str,
) -> pages.Page:
    """Return a fleet as an HTML page.

    Args:
        facts: Result of `fleet_facts`.
        evidence: Evidence of a fitted fleet; None for none.
    """
    causes, jobs = facts["causes"], facts["jobs"]
    return pages.Page(
        command="fleet report",
        title=f"Failures of {name}",
        summary=[
            _size(facts),
            _how_often(causes),
            _most_frequent(causes),
            *_means(jobs),
        ],
        values=_values(facts),
        sections=[
            _causes(causes, facts["repairs"]),
            _repairs(facts["repairs"]),
            *_inspected(causes, evidence),
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


def _values(facts: Facts) -> list[text.Value]:
    told = [("machines", f"{facts['units']:,}"), ("GPUs", f"{facts['gpus']:,}")]
    if of_machines := _per_day(facts["causes"]):
        told.append(("time between failures of machines", spelled_time(DAY_S / of_machines)))
    largest = facts["jobs"][-1]
    if math.isfinite(largest["mtti_s"]):
        told.append(
            ("time to interruption of a job on the whole fleet", spelled_time(largest["mtti_s"]))
        )
    return [text.Value(label, value) for label, value in told]


def _per_day(causes: Sequence[Facts]) -> float:
    """Return the failures of machines per day in the fleet."""
    return float(sum(row["per_day"] for row in causes if not row["of_job"]))


def _causes(causes: Sequence[Facts], repairs: Sequence[Facts]) -> pages.Section:
    means = {row["name"]: row["mean_s"] for row in repairs}

    def repair(cause: Facts) -> str:
        lasts = means.get(cause["repair"])
        how_long = f", {spelled_time(lasts)}" if lasts else ""
        return f"{cause['repair']}{how_long}" if cause["repair"] else "none, the job restarts"

    columns: Columns = {
        "cause": "name",
        "description": lambda row: in_words(row["name"], row["meaning"]) or "-",
        "share": lambda row: text.share_text(row["share"]),
        "in the fleet, every": lambda row: (
            spelled_time(row["mean_time_between_s"]) + (", each job" if row["of_job"] else "")
        ),
        "effect": lambda row: EFFECTS[row["effect"]],
        "detected after": lambda row: (
            spelled_time(row["detection_s"]) if row["detection_s"] else "at once (assumed)"
        ),
        "repair": repair,
    }
    texts = ("cause", "description", "effect", "detected after", "repair")
    blocks = [*causes_chart(causes), pages.Table.of(causes, columns, texts)]
    return pages.Section(title="Causes of failures", blocks=blocks)


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
        return f"The most frequent cause: {first[0]}, {text.share_text(share)} of all {whose}."
    more = [f"{len(first) - MAX_NAMED} more"] if len(first) > MAX_NAMED else []
    *named, last = [*first[:MAX_NAMED], *more]
    which = f"{len(first)} most frequent" if len(first) < len(causes) else f"{len(first)}"
    return (
        f"The {which} causes are equally frequent, each {text.share_text(share)} of all {whose}:"
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
    return [text] if math.isfinite(largest["mtti_s"]) else []


def _next(name: str, units: int) -> pages.Section:
    """Return the command that ranks improvements.

    It has 2% of the fleet as spares: a job on every unit would wait for each repair.
    """
    text = (
        "More frequent or faster checkpoints, faster restarts, more spare machines, quicker"
        " repairs: the largest gain depends on the job. This command ranks them for given"
        " checkpoint and restart times:"
    )
    spares = f" --spares {-(-units // SPARE_SHARE)}" if units > 1 else ""
    job = f"perfatlas goodput --fleet {shlex.quote(name)}{spares}"
    command = pages.Command(line=f"{job} --checkpoint-write-s 60 --restart-s 300 --what-if")
    return pages.Section(title="Possible improvements", blocks=[text, command])


def _repairs(repairs: Sequence[Facts]) -> pages.Section:
    if any(row["mean_s"] for row in repairs):
        rows = [(row["name"], spelled_time(row["mean_s"])) for row in repairs]
        block: pages.Block = pages.Table(head=("repair", "mean time"), rows=rows)
    else:
        block = (
            "No repair time is known for this fleet. Until one is set, machines are assumed to"
            " return at once, so that no spares are needed."
        )
    return pages.Section(title="Repair times", blocks=[block])


def _inspected(causes: Sequence[Facts], evidence: Facts | None) -> list[pages.Section]:
    """Return the machines to inspect first, or the lemon assumption of the fleet."""
    found = _lemons((evidence or {}).get("cause", []))
    blocks: list[pages.Block] = (
        ["These fail significantly more often than the others.", found] if found else []
    )
    assumed = [cause for cause in causes if cause["lemon_share"]]
    blocks += [
        f"For {cause['name']}, {text.share_text(cause['lemon_share'])} of the parts are assumed to"
        f" fail {text.format_number(cause['lemon_factor'])} times as often as the others."
        for cause in assumed
    ]
    if len(assumed) > 1:
        blocks.append(
            "These shares are per cause: a machine with two such causes is counted in both, so"
            " that they do not add up to a number of machines."
        )
    return [pages.Section(title="Machines to inspect first", blocks=blocks)] if blocks else []


def _sizes(jobs: Sequence[Facts], causes: Sequence[Facts]) -> pages.Section:
    unit = unit_of(jobs[-1]["mtti_s"])
    columns: Columns = {
        "GPUs of the job": "gpus",
        "mean time to interruption": lambda row: (
            "never" if math.isinf(row["mtti_s"]) else spelled_time(row["mtti_s"], unit)
        ),
        "interruptions": lambda row: spelled_rate(DAY_S / row["mtti_s"]),
    }
    blocks = [*lives_chart(jobs), _what_size_does(causes), pages.Table.of(jobs, columns)]
    return pages.Section(title="Interruptions by job size", blocks=blocks)


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


def _evidence(causes: Sequence[Facts], evidence: Facts | None) -> list[pages.Section]:
    if evidence is None:
        return []
    seen = evidence.get("cause", [])
    columns: Columns = {
        "cause": "name",
        "failures": lambda row: f"{row['events']:,}" if "events" in row else "unknown",
        **_seen_columns(seen, spelled_time),
    }
    files = [(file["path"], f"{file['parsed']:,}") for file in evidence.get("file", [])]
    blocks: list[pages.Block] = [
        FITTED,
        *([OF_ALL] if "without lemons" in columns else []),
        *([CHANGED] if evidence["changed"] else []),
        pages.Table.of(seen, columns, ("cause",)),
        *_ageing(causes),
        NOT_ALL,
        pages.Table(head=("record", "lines read"), rows=files),
    ]
    return [pages.Section(title="Evidence", blocks=blocks)]


def _ageing(causes: Sequence[Facts]) -> list[str]:
    """Return a note on observed rates of ageing parts."""
    return [
        f"The failure rate of a part of {cause['name']} changes with its age. Over a whole"
        " lifetime, most of which may not have been observed, the distribution of the fleet has a"
        f" mean of {spelled_time(cause['part_mean_s'])}; the numbers above this section use it."
        for cause in causes
        if cause["ages"]
    ]


def causes_chart(causes: Sequence[Facts]) -> list[pages.Block]:
    """Return the chart of failure causes, the most frequent first; empty for a single cause."""
    if len(causes) < 2:
        return []
    bars = [
        charts.Bar(row["name"], row["share"], text.share_text(row["share"]), charts.ORANGE)
        for row in causes[:MAX_BARS]
    ]
    left = len(causes) - len(bars)
    note = [f"The {MAX_BARS} most frequent; the table has {left} more."] if left else []
    figure = charts.BarChart(bars, charts.Axis("share of all failures", "%"))
    return [pages.Chart(figure=figure, title="Share of failures by cause"), *note]


def lives_chart(jobs: Sequence[Facts]) -> list[pages.Block]:
    """Return the chart of MTTI by job size, empty for fewer than two points."""
    rows = [row for row in jobs if math.isfinite(row["mtti_s"])]
    if len(rows) < 2:
        return []
    unit = unit_of(rows[-1]["mtti_s"])  # as in the table and the text of the largest job
    times = [row["mtti_s"] / LENGTHS[unit][0] for row in rows]
    line = charts.Line(
        "mean time to interruption", [row["gpus"] for row in rows], times, charts.BLUE
    )
    y = charts.Axis(f"mean time to interruption [{unit}s]", log=True)
    figure = charts.LineChart([line], charts.Axis("GPUs of the job", log=True), y)
    return [pages.Chart(figure=figure, title="Mean time to interruption by job size")]


def days_chart(facts: Facts) -> list[pages.Block]:
    """Return the chart of failures per day, empty for a single day."""
    if len(facts["days"]) < 2:
        return []
    figure = charts.DaysChart(
        facts["days"], facts["failures_per_day"], charts.Axis("failures per day", "count")
    )
    return [pages.Chart(figure=figure, title="Failures per day")]


def history_page(name: str, facts: Facts, *, reproduce: str) -> pages.Page:
    """Return a history of failures as an HTML page.

    Args:
        facts: Result of `history_facts`.
    """
    told = [
        text for row in facts["causes"] for text in (row["component"], row["cause"], row["meaning"])
    ]
    first, last = ((facts[end] or "")[:10] for end in ("first", "last"))
    when = f"From {first} to {last}" if last > first else f"On {first}"
    summary = f"{when} the logs contain {counted(facts['events'], 'event')}."
    return pages.Page(
        command="fleet report",
        title=f"Failure history of {name}",
        summary=[summary if facts["events"] else "The logs contain no events."],
        values=[text.Value(KINDS[kind], f"{count:,}") for kind, count in facts["kinds"].items()],
        sections=[*_tables(facts), glossary(told)],
        reproduce=reproduce,
        versions={"perfatlas": __version__},
    )


def _tables(facts: Facts) -> list[pages.Section]:
    columns: Columns = {
        "component": "component",
        "cause": "cause",
        "description": lambda row: (
            in_words(f"{row['component']}_{row['cause']}", row["meaning"]) or "-"
        ),
        "kind": lambda row: KINDS[row["kind"]],
        "events": "events",
        "machines": "nodes",
        "mean time to recovery": lambda row: (
            "unknown" if row["mean_down_s"] is None else spelled_time(row["mean_down_s"])
        ),
    }
    texts = ("component", "cause", "description", "kind")
    chance = (
        "Some machines are first by chance; perfatlas fleet fit finds those with significantly"
        " more failures."
    )
    machines = pages.Table.of(
        facts["nodes"], {"machine": "node", "failures": "failures"}, ("machine",)
    )
    return [
        pages.Section(
            title="Events",
            blocks=[*days_chart(facts), pages.Table.of(facts["causes"], columns, texts)],
        ),
        pages.Section(title="Machines with the most failures", blocks=[chance, machines]),
    ]
