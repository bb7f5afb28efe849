"""A schedule of many jobs as one HTML page."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, Final

from perfatlas.verbs.goodput import METHODS, charts_of, page_of, waterfall_of
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
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Answered = Mapping[str, Any]


WORDS: Final = (
    ("p50, p90", "half and nine tenths of the jobs wait, or are slowed down, no more than that"),
    ("slowdown", "time from submission to end over the run time, which counts as 10 s at least"),
    ("fragmentation", "GPUs free in a number the next job asks for, but not on nodes it can use"),
    ("node draining", "GPUs free on nodes that take no new job and wait for a repair"),
    ("restarts", "times work began anew, in place too; each takes what a restart takes"),
    ("useful", "GPU time that is work of jobs that completed"),
    ("under way", "GPU time that is work so far of jobs that had not ended"),
    ("unfinished", "GPU time that is work of jobs that failed for good, were killed or cancelled"),
    ("held", "GPU time that jobs had, useful or not"),
)


def schedule_page(answer: Answered, *, reproduce: str) -> str:
    """Return a schedule as an HTML page that needs no network.

    Args:
        answer: The `--json` object of `fleet schedule`.
        reproduce: The command line that gives it again.
    """
    results, evidence = answer["results"], answer["evidence"]
    waits = [(METRICS[name].label, *statistics(name, results[name])) for name in WAITS]
    parts = [
        f"<h1>{html.escape(schedule_headline(answer))}</h1>",
        _table(("", ""), schedule_lines(results)),
        _table(("", *SHOWN), waits),
        *(f"<p>warning: {html.escape(text)}</p>" for text in answer["warnings"]),
        "<h2>By class of jobs</h2>",
        _rows(class_rows(results["classes"])),
    ]
    if compared := results.get("compared"):
        parts += ["<h2>Side by side</h2>", _rows(compared_rows(compared))]
    figure = waterfall_of(answer["breakdown"], SCHEDULE_BUCKETS)
    parts += [
        *(f'<p class="note">{word}: {html.escape(meaning)}</p>' for word, meaning in WORDS),
        *charts_of([("Where the GPU time goes", figure)]),
        f"<h2>How sure: {METHODS[evidence['tier']]}</h2>",
        *(f'<p class="note">{html.escape(text)}</p>' for text in evidence["assumptions"]),
        *(f'<p class="note">source: {html.escape(text)}</p>' for text in evidence["sources"]),
        f"<p><code>{html.escape(reproduce)}</code></p>",
    ]
    return page_of("perfatlas fleet schedule", parts)


def _rows(rows: Sequence[Mapping[str, str]]) -> str:
    return _table(tuple(rows[0]), [tuple(row.values()) for row in rows]) if rows else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    names = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><tr>{names}</tr>{body}</table>"
