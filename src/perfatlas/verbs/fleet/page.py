"""A fleet or a history of failures as one HTML page, in words for people who are not engineers."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import counted
from perfatlas.report.text import format_number, share_text
from perfatlas.verbs.fleet.charts import days_of, lives_of, shares_of
from perfatlas.verbs.fleet.glossary import in_words, meanings, spelled_rate, spelled_time, unit_of
from perfatlas.verbs.fleet.text import goodput_command, seconds
from perfatlas.verbs.goodput import charts_of, page_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Facts = Mapping[str, Any]

DAY_S: Final = 86400.0
EFFECTS: Final = {
    "stops": "stops the job",
    "corrupts": "makes results wrong, silently",
    "slows": "slows the job down",
}
KINDS: Final = {
    "failure": "something broke",
    "unclear": "hardware or program, the log does not say",
    "effect": "a consequence of something else",
    "notice": "recorded, nothing stopped",
    "planned": "done on purpose",
    "overhead": "time spent otherwise",
}
CAUSE_COLUMNS: Final = (
    "reason",
    "in words",
    "share",
    "in the fleet, every",
    "what it does",
    "noticed after",
    "repair",
)
MOST_NAMED: Final = 3  # reasons in one sentence
LEMON_COLUMNS: Final = ("machine", "reasons", "failures", "how likely it is bad")
OF_ALL: Final = "The time and its range are of all machines, the bad ones among them."
EVENT_COLUMNS: Final = (
    "part",
    "reason",
    "in words",
    "what it is",
    "events",
    "machines",
    "over after, on average",
)


def fleet_page(name: str, facts: Facts, evidence: Facts | None) -> str:
    """Return a fleet as an HTML page that needs no network.

    Args:
        name: Of the fleet.
        facts: As `fleet_facts` tells them.
        evidence: What the fleet was fitted to, as in the file beside it; None where there is none.
    """
    causes = facts["causes"]
    parts = [
        f"<h1>How often {html.escape(name)} fails, and what that means</h1>",
        _said(
            f"This fleet has {counted(facts['units'], 'machine')} with"
            f" {counted(facts['gpus_per_unit'], 'GPU')} each, {counted(facts['gpus'], 'GPU')} in"
            f" all. {_how_often(causes)} {_most_frequent(causes)}"
        ),
        *_means(facts["jobs"]),
        "<h2>What fails</h2>",
        _table(
            CAUSE_COLUMNS,
            (_cause_cells(cause, facts["repairs"]) for cause in causes),
            words=(0, 1, 4, 5, 6),
        ),
        *_repairs(facts["repairs"]),
        *_lemons(causes, evidence),
        *_sizes(facts["jobs"], causes),
        *charts_of([*shares_of(causes), *lives_of(facts["jobs"])]),
        *_evidence(causes, evidence),
        *_next(name, facts["units"]),
        *_glossary(causes, "name"),
    ]
    return page_of(f"perfatlas fleet report: {name}", parts)


def _how_often(causes: Sequence[Facts]) -> str:
    """Return how often machines fail, and how often a job does whatever its machines."""
    of_machines = sum(row["per_day"] for row in causes if not row["of_job"])
    of_job = sum(row["per_day"] for row in causes if row["of_job"])
    told = []
    if of_machines:
        told.append(f"Somewhere in it something fails every {_often(of_machines)}.")
    if of_job:
        told.append(
            f"Every job, however many GPUs it uses, is {'also ' if told else ''}hit every"
            f" {_often(of_job)}, by what is no fault of a single machine."
        )
    return " ".join(told)


def _often(per_day: float) -> str:
    return f"{spelled_time(DAY_S / per_day)} on average, {spelled_rate(per_day)}"


def _most_frequent(causes: Sequence[Facts]) -> str:
    """Return the most frequent reason; all of them where several are as frequent."""
    share = causes[0]["share"]
    first = [_reason(row) for row in causes if math.isclose(row["share"], share, rel_tol=1e-9)]
    whole = any(row["of_job"] for row in causes)
    whose = "failures that a job on the whole fleet meets" if whole else "failures"
    if len(first) == 1:
        return f"The most frequent reason: {first[0]}, {share_text(share)} of all {whose}."
    more = [f"{len(first) - MOST_NAMED} more"] if len(first) > MOST_NAMED else []
    *named, last = [*first[:MOST_NAMED], *more]
    which = f"{len(first)} most frequent" if len(first) < len(causes) else f"{len(first)}"
    return (
        f"The {which} reasons are equally frequent, each {share_text(share)} of all {whose}:"
        f" {', '.join(named)} and {last}."
    )


def _reason(cause: Facts) -> str:
    words = in_words(cause["name"], cause["meaning"])
    return f"{words} ({cause['name']})" if words else str(cause["name"])


def history_page(name: str, facts: Facts) -> str:
    """Return a history of failures as an HTML page that needs no network.

    Args:
        name: Of the history.
        facts: As `history_facts` tells them.
    """
    parts = [
        f"<h1>What went wrong: {html.escape(name)}</h1>",
        _said(_period(facts)),
        "<h2>What happened</h2>",
        _table(EVENT_COLUMNS, (_event_cells(row) for row in facts["causes"]), words=(0, 1, 2, 3)),
        "<h2>Machines with the most failures</h2>",
        _said(
            "Some machines are always first by chance; perfatlas fleet fit tells which fail so"
            " often that chance is no explanation."
        ),
        _table(
            ("machine", "failures"),
            ((row["node"], f"{row['failures']:,}") for row in facts["nodes"]),
        ),
        *charts_of(days_of(facts)),
        *_glossary(facts["causes"], "component"),
    ]
    return page_of(f"perfatlas fleet report: {name}", parts)


def _period(facts: Facts) -> str:
    if not facts["events"]:
        return "The logs tell no event."
    kinds = "; ".join(f"{KINDS[kind]}: {count:,}" for kind, count in facts["kinds"].items())
    first, last = facts["first"][:10], facts["last"][:10]
    when = f"From {first} to {last}" if last > first else f"On {first}"
    return f"{when} the logs tell {counted(facts['events'], 'event')} ({kinds})."


def _event_cells(row: Facts) -> tuple[str, ...]:
    return (
        row["component"],
        row["cause"],
        in_words(f"{row['component']}_{row['cause']}", row["meaning"]) or "-",
        KINDS[row["kind"]],
        f"{row['events']:,}",
        f"{row['nodes']:,}",
        "not told" if row["mean_down_s"] is None else spelled_time(row["mean_down_s"]),
    )


def _said(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


def _means(jobs: Sequence[Facts]) -> list[str]:
    """Return what failures mean for the largest job, in a sentence."""
    largest = jobs[-1]
    if not largest["mtti_s"] or math.isinf(largest["mtti_s"]):
        return []
    return [
        _said(
            f"A job on all {counted(largest['gpus'], 'GPU')} runs"
            f" {spelled_time(largest['mtti_s'])} on average until a failure stops it. It then"
            " starts again from what it saved last, its checkpoint: what it did since is lost."
        )
    ]


def _next(name: str, units: int) -> list[str]:
    """Return how to learn what helps."""
    asked = f"{goodput_command(name, units)} --what-if"
    return [
        "<h2>What would help</h2>",
        _said(
            "Saving more often or faster, starting again sooner, more machines that stand by,"
            " quicker repairs: which of them gains most depends on the job. Whoever runs it can"
            " ask, with the seconds that saving and starting again take:"
        ),
        f"<p><code>{html.escape(asked)}</code></p>",
    ]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], words: Sequence[int] = (0,)) -> str:
    """Return a table; columns of words stand to the left, numbers to the right in one line."""

    def cells(tag: str, texts: Sequence[str]) -> str:
        kinds = ["words" if at in words else "number" for at in range(len(texts))]
        return "".join(
            f'<{tag} class="{kind}">{html.escape(str(text))}</{tag}>'
            for kind, text in zip(kinds, texts, strict=True)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><tr>{cells('th', head)}</tr>{body}</table>"


def _cause_cells(cause: Facts, repairs: Sequence[Facts]) -> tuple[str, ...]:
    noticed = spelled_time(cause["detection_s"]) if cause["detection_s"] else "taken as at once"
    lasts = {row["name"]: row["mean_s"] for row in repairs}.get(cause["repair"])
    how_long = f", {spelled_time(lasts)}" if lasts else ""
    return (
        cause["name"],
        in_words(cause["name"], cause["meaning"]) or "-",
        share_text(cause["share"]),
        spelled_time(cause["mean_time_between_s"]) + (", each job" if cause["of_job"] else ""),
        EFFECTS[cause["effect"]],
        noticed,
        f"{cause['repair']}{how_long}" if cause["repair"] else "none, the job starts again",
    )


def _repairs(repairs: Sequence[Facts]) -> list[str]:
    rows = [(row["name"], spelled_time(row["mean_s"])) for row in repairs]
    if not any(row["mean_s"] for row in repairs):
        return [
            _said(
                "No repair time is known for this fleet. Until one is given, machines are taken"
                " to be back at once, and no spares seem to be needed."
            )
        ]
    return ["<h2>How long a repair takes</h2>", _table(("repair", "on average"), rows)]


def _lemons(causes: Sequence[Facts], evidence: Facts | None) -> list[str]:
    """Return the machines to look at first, or what the fleet assumes of them."""
    found: dict[str, list[tuple[int, str, float]]] = {}
    for cause in (evidence or {}).get("cause", []):
        for lemon in cause.get("lemon_nodes", []):
            told = (lemon["events"], cause["name"], lemon["probability"])
            found.setdefault(str(lemon["node"]), []).append(told)
    parts = []
    if found:
        parts = [
            "<h2>Machines to look at first</h2>",
            _said(
                "These fail so much more often than the others that chance is no explanation."
                " Whoever looks for a repair that pays begins here."
            ),
            _table(LEMON_COLUMNS, _lemon_cells(found), words=(0, 1)),
        ]
    assumed = [cause for cause in causes if cause["lemon_share"]]
    parts += [
        _said(
            f"For {cause['name']}, {share_text(cause['lemon_share'])} of the parts are taken to"
            f" fail {format_number(cause['lemon_factor'])} times as often as the others."
        )
        for cause in assumed
    ]
    if len(assumed) > 1:
        parts.append(
            _said(
                "Bad is meant for one reason at a time: a machine that fails often for two reasons"
                " is among the bad ones of both, so these shares do not add up to a number of"
                " machines."
            )
        )
    return parts


def _lemon_cells(found: Mapping[str, Sequence[tuple[int, str, float]]]) -> list[tuple[str, ...]]:
    """Return a row per machine, the most failures first."""
    rows: list[tuple[str, ...]] = []
    for node, told in sorted(found.items(), key=lambda row: -sum(one[0] for one in row[1])):
        reasons = ", ".join(f"{name} ({events:,})" for events, name, _ in told)
        surest = max(probability for *_, probability in told)
        total = sum(events for events, *_ in told)
        rows.append((node, reasons, f"{total:,}", share_text(surest)))
    return rows


def _sizes(jobs: Sequence[Facts], causes: Sequence[Facts]) -> list[str]:
    unit = unit_of(jobs[-1]["mtti_s"])
    rows = [
        (
            f"{row['gpus']:,}",
            "for ever" if math.isinf(row["mtti_s"]) else spelled_time(row["mtti_s"], unit),
            spelled_rate(DAY_S / row["mtti_s"]),
        )
        for row in jobs
    ]
    return [
        "<h2>What a job will meet</h2>",
        _said(_what_size_does(causes)),
        _table(("GPUs of the job", "runs until it is interrupted", "interrupted"), rows),
    ]


def _what_size_does(causes: Sequence[Facts]) -> str:
    stopping = [cause for cause in causes if cause["effect"] != "slows"]
    if not stopping:
        return "Nothing here stops a job."
    if all(cause["of_job"] for cause in stopping):
        return (
            "What stops a job here is no fault of a single machine, so that it makes no difference"
            " how many GPUs the job uses."
        )
    return "The more GPUs a job uses, the sooner one of them fails and stops all the others."


def _evidence(causes: Sequence[Facts], evidence: Facts | None) -> list[str]:
    if evidence is None:
        return []
    told = evidence.get("cause", [])
    apart = any("mean_time_between_without_lemons" in cause for cause in told)
    head = ["reason", "failures seen", "one part failed every", "range"]
    files = [(file["path"], f"{file['parsed']:,}") for file in evidence.get("file", [])]
    return [
        "<h2>How sure this is</h2>",
        _said(
            "The fleet was fitted to records of what failed. The range holds the true time in 19 of"
            " 20 such cases; the fewer the failures, the wider it is."
        ),
        *(
            [_said("The time and its range are of all machines, the bad ones among them.")]
            if apart
            else []
        ),
        *([_said("The fleet file was changed after the fit.")] if evidence["changed"] else []),
        _table(
            [*head, "without the bad machines"] if apart else head,
            (_seen_cells(cause, apart=apart) for cause in told),
        ),
        *_ageing(causes),
        _said(
            "Not every line that was read tells a failure: others tell what was a consequence, was"
            " done on purpose, is not clear, or happened while nobody watched."
        ),
        _table(("record", "lines read"), files),
    ]


def _seen_cells(cause: Facts, *, apart: bool) -> list[str]:
    low, high = (seconds(end) for end in cause["mean_time_between_interval"])
    mean_s = seconds(cause["mean_time_between"])
    unit = unit_of(mean_s)
    ends = f"{spelled_time(low, unit)} to {spelled_time(high, unit)}"
    seen = f"{cause['events']:,}" if "events" in cause else "not told"
    cells = [cause["name"], seen, spelled_time(mean_s, unit), ends]
    if not apart:
        return cells
    others = cause.get("mean_time_between_without_lemons")
    return [*cells, spelled_time(seconds(others), unit) if others else "the same"]


def _ageing(causes: Sequence[Facts]) -> list[str]:
    """Return what a rate that was seen does not tell of parts that age."""
    return [
        _said(
            f"How often a part of {cause['name']} fails changes with its age. Over a whole life,"
            f" most of which nobody may have seen yet, the law of the fleet expects"
            f" {spelled_time(cause['part_mean_s'])}; the numbers above this section rest on that."
        )
        for cause in causes
        if cause["ages"]
    ]


def _glossary(causes: Sequence[Facts], name: str) -> list[str]:
    told = [text for row in causes for text in (row[name], row.get("cause"), row["meaning"])]
    rows = "".join(
        f"<p><b>{word}</b>: {html.escape(meaning)}.</p>"
        for word, meaning in meanings(text for text in told if text)
    )
    return [f"<h2>Words</h2>{rows}"]
