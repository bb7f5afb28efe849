"""A failure history as an HTML page, in plain language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import counted
from perfatlas.report.pages import Page, Section, Table, Value
from perfatlas.verbs.fleet.glossary import glossary, in_words, spelled_time
from perfatlas.verbs.fleet.page import days_of
from perfatlas.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    Facts = Mapping[str, Any]

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
