"""A schedule of many jobs as an HTML page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.charts import Waterfall
from perfatlas.report.pages import (
    Section,
    Table,
    Value,
    answer_page,
)
from perfatlas.report.text import format_value, label_of, share_text
from perfatlas.verbs.schedule.text import (
    SCHEDULE_BUCKETS,
    SHOWN,
    WAITS,
    class_rows,
    compared_rows,
    schedule_headline,
    schedule_lines,
    statistics,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.report.pages import Page

    Answered = Mapping[str, Any]


TERMS: Final = (
    ("p50, p90", "50% and 90% of jobs have at most this waiting time or slowdown"),
    ("slowdown", "time from submission to end over the run time, of at least 10 s"),
    (
        "fragmentation",
        "idle GPUs lost to fragmentation: enough for the next job, but not on usable nodes",
    ),
    ("node draining", "idle GPUs on draining nodes"),
    ("restarts", "restarts of the work, including in place; each takes the restart time"),
    ("useful", "GPU time of work in completed jobs"),
    ("under way", "GPU time of work in jobs still running"),
    ("unfinished", "GPU time of work in jobs that failed, timed out or were cancelled"),
    ("held", "GPU time allocated to jobs, useful or not"),
)


def schedule_page(answer: Answered, *, reproduce: str) -> Page:
    """Return a schedule as an HTML page."""
    return answer_page(
        answer,
        title=schedule_headline(answer),
        values=_values(answer),
        sections=_sections(answer),
        reproduce=reproduce,
    )


def _values(answer: Answered) -> list[Value]:
    results = answer["results"]
    wait, _, p90 = statistics("wait_s", results["wait_s"])
    slowdown, *_ = statistics("slowdown", results["slowdown"])
    values = [
        (label_of("allocated_share"), format_value("allocated_share", results["allocated_share"])),
        ("useful GPU time", share_text(answer["breakdown"][0]["share"])),
        ("waiting time, mean", wait),
        ("waiting time, p90", p90),
        ("slowdown, mean", slowdown),
        ("jobs completed", f"{results['states'].get('completed', 0):,}"),
    ]
    return [Value(label=label, value=value) for label, value in values]


def _sections(answer: Answered) -> list[Section]:
    results, rows = answer["results"], answer["breakdown"]
    waits = [(label_of(name), *statistics(name, results[name])) for name in WAITS]
    blocks = [
        Table(head=("", "value"), rows=schedule_lines(results)),
        Table(head=("", *SHOWN), rows=waits),
    ]
    title = "Where the GPU time goes"
    figure = Waterfall(rows, SCHEDULE_BUCKETS, [share_text(row["share"]) for row in rows])
    sections = [
        Section(title="Results", blocks=blocks),
        Section.charted(title, figure),
    ]
    if classes := results["classes"]:
        sections.append(Section(title="Classes of jobs", blocks=[_table(class_rows(classes))]))
    if compared := results.get("compared"):
        blocks = [_table(compared_rows(compared))]
        sections.append(Section(title="Policies compared", blocks=blocks))
    return [*sections, Section(title="Glossary", blocks=[_glossary()])]


def _table(rows: Sequence[Mapping[str, str]]) -> Table:
    return Table(head=tuple(rows[0]), rows=[tuple(row.values()) for row in rows])


def _glossary() -> Table:
    return Table(head=("term", "meaning"), rows=TERMS, text_columns=(0, 1))
