"""What a schedule shows: GPU time by category, waiting times, policies."""

from __future__ import annotations

from itertools import starmap
from typing import TYPE_CHECKING, Any, Final

from perfatlas.declarations import without_defaults
from perfatlas.quantities import HOUR_S, counted
from perfatlas.report import charts, pages, text
from perfatlas.scenario.cluster_schedules import PARTS
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.scenario.cluster_schedules import SitePower

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
    "held": "nodes held out by a cap",
    "idle_jobs_queued": "idle, jobs queued",
    "idle_no_jobs": "idle, no job waits",
    "under_way": "work in running jobs",
}
ONE_RUN: Final = "one simulation, without an interval"
SEEDED: Final = "; --seed selects other random draws"
MAX_CLASSES: Final = 12
FEW_IGNORED: Final = 3  # of a brief answer
FEW_COMPARED: Final = 5
OMITTED_FIELDS: Final = ("num_jobs", "nodes", "gpus_per_node", "seed", "compare")
SITE: Final = (
    *("site_mean_power_w", "site_peak_power_w", "site_least_power_w", "site_ramp_w_per_s"),
    *("site_above_limit_share", "site_above_cap_share", "site_energy_j", "site_pue", "site_gco2"),
    "site_electricity_usd",
)
SHOWN_OF_SITE: Final = ("site_peak_power_w", "site_above_limit_share", "site_above_cap_share")

SITE_LINES: Final = {"facility_power_w": "facility", "it_power_w": "nodes", "cap_w": "cap"}
MAX_POINTS: Final = 2000  # of a picture
ENERGIES: Final = ("cluster_energy_j", *PARTS)
RESULTS: Final = (
    *("duration_s", "load", "allocated_share", "fragmented_share", "stranded_share", "backfilled"),
    *("failures", "restarts", "preemptions", "lost_gpu_hours"),
    *("single_domain_share", "domains_per_job"),
    *(*ENERGIES, "cluster_electricity_usd", "lost_work_electricity_usd"),
    *SITE,
)
COUNTS: Final = ("failures", "restarts", "preemptions", "lost_gpu_hours")  # shown if not 0
# omitted in a brief answer
DETAILS: Final = (
    *("load", "stranded_share", "fragmented_share", "backfilled", "restarts"),
    *(name for name in SITE if name not in SHOWN_OF_SITE),
)
STATISTICS: Final = ("mean", "p50", "p90")
WAITS: Final = ("wait_s", "slowdown")
GROWS: Final = "grows"  # in place of statistics that have no steady value
ENDING: Final = {"response", "max_restarts", "patience_s", "detection_s", "preemption"}
CLASS_COLUMNS: Final = {
    "class": "kind",
    "jobs": "jobs",
    "wait, mean": "wait_s.mean",
    "p90": "wait_s.p90",
    "slowdown": "slowdown.mean",
    "restarts": "restarts",
    "GPU-hours lost": "lost_gpu_hours",
}
SHARES: Final = {
    "useful": "productive_share",
    "one domain": "single_domain_share",
    "under way": "under_way_share",
    "unfinished": "unfinished_share",
    "held": "allocated_share",
}
TERMS: Final = {
    "p50, p90": "50% and 90% of jobs have at most this waiting time or slowdown",
    "node draining": "idle GPUs on draining nodes",
}
GLOSSARY: Final = {
    **{text.label_of(name): name for name in ("slowdown", "fragmented_share", "restarts")},
    **SHARES,
}


def schedule_page(
    answer: Answered, *, reproduce: str, power: SitePower | None = None
) -> pages.Page:
    """Return an answer of `fleet schedule`.

    Args:
        power: Power of the site over time, which only the command has.
    """
    results = answer["results"]
    values = {
        text.label_of("allocated_share"): text.format_value(
            "allocated_share", results["allocated_share"]
        ),
        "useful GPU time": text.share_text(answer["breakdown"][0]["share"]),
        "waiting time, mean": text.format_value("wait_s", results["wait_s"]["mean"]),
        "waiting time, p90": text.format_value("wait_s", results["wait_s"]["p90"]),
        "slowdown, mean": text.format_value("slowdown", results["slowdown"]["mean"]),
        "jobs completed": f"{results['states'].get('completed', 0):,}",
    }
    terms = TERMS | {title: METRICS[name].description for title, name in GLOSSARY.items()}
    glossary = pages.Table(head=("term", "meaning"), rows=list(terms.items()), text_columns=(0, 1))
    return pages.answer_page(
        answer,
        [
            pages.Section(blocks=_results(results, brief=True), on="brief"),
            pages.Section(blocks=_results(results), on="terminal", is_detail=True),
            pages.Section(title="Results", blocks=_results(results), on="page"),
            *_sections(answer),
            *_site_chart(power),
            pages.Section(title="Glossary", blocks=[glossary], on="page"),
        ],
        title=schedule_headline(answer),
        lines=(),
        values=list(starmap(text.Value, values.items())),
        reproduce=reproduce,
        method=text.METHODS[answer["evidence"]["tier"]],
        covered=ONE_RUN + (SEEDED if "seed" in answer["scenario"] else ""),
    )


def schedule_headline(answer: Answered) -> str:
    """Return the scenario in one line.

    Example:
        >>> from perfatlas.verbs.schedule.blocks import schedule_headline
        >>> schedule_headline({"scenario": {"num_jobs": 9, "seed": 3, "order": "priority"},
        ...     "results": {"jobs": 9, "nodes": 2, "gpus": 16}})
        'fleet schedule of 9 jobs on 16 GPUs in 2 nodes: order priority'
    """
    results = answer["results"]
    scenario = without_defaults("fleet schedule", answer["scenario"])
    words = [
        text.job_field(name, value)
        for name, value in scenario.items()
        if name not in OMITTED_FIELDS
    ]
    before = results.get("jobs_at_start") or 0
    at_start = f" and {before:,} of the steady state at the start" if before else ""
    of = (
        f"fleet schedule of {counted(results['jobs'], 'job')}{at_start}"
        f" on {counted(results['gpus'], 'GPU')} in {counted(results['nodes'], 'node')}"
    )
    return f"{of}: {', '.join(words)}" if words else of


def _results(results: Answered, *, brief: bool = False) -> list[pages.Block]:
    """Return the results, then the statistics of waiting."""
    states = METRICS["states"].parts
    lines = []
    if "stability" in results:
        load, most = (
            text.format_value(name, results[name]) for name in ("load", "sustainable_load")
        )
        lines.append((results["stability"], f"load {load}, sustainable {most}"))
    lines += [(f"jobs {states[name]}", f"{n:,}") for name, n in results["states"].items()]
    shown = {name: results.get(name) for name in RESULTS if not (brief and name in DETAILS)}
    lines += [
        (text.label_of(name), text.job_value(name, value))
        for name, value in shown.items()
        if value or (value is not None and name not in (COUNTS + ENERGIES * brief))
    ]
    if trace := results.get("trace"):
        if not brief:
            lines.append(
                (text.label_of("rows_read"), text.format_value("rows_read", results["rows_read"]))
            )
        lines += [
            (f"rows ignored: {row['reason']}, first at {row['first']}", f"{row['rows']:,}")
            for row in trace["ignored"][: FEW_IGNORED if brief else None]
        ]
    grows = results.get("stability") == "overloaded"
    waits = [
        (
            text.label_of(name),
            *(
                GROWS if grows else text.format_value(name, results[name][statistic])
                for statistic in STATISTICS
            ),
        )
        for name in WAITS
    ]
    return [
        pages.Table(head=("", "value"), rows=lines),
        pages.Table(head=("", *STATISTICS), rows=waits),
    ]


def _sections(answer: Answered) -> list[pages.Section]:
    rows, compared = answer["breakdown"], answer["results"].get("compared")
    shares = [text.share_text(row["share"]) for row in rows]
    most = text.MAX_BUCKETS - bool(compared)
    figure = charts.Waterfall(rows, SCHEDULE_BUCKETS, shares)
    sections = [pages.Section.charted("Where the GPU time goes", figure, most=most)]
    if len(classes := answer["results"]["classes"]) > 1:
        table = _table(class_rows(classes))
        sections.append(
            pages.Section(
                title=text.label_of("classes").capitalize(), blocks=[table], is_detail=True
            )
        )
    if compared:
        table = _table(compared_rows(compared), len(compared[0]["changes"]))
        sections.append(
            pages.Section(
                title=text.label_of("compared").capitalize(), blocks=[table], most=FEW_COMPARED
            )
        )
    return sections


def _site_chart(power: SitePower | None) -> list[pages.Section]:
    """Return the power of the site over time as a picture, empty without one."""
    if power is None:
        return []
    hour, lines = power.columns["time_s"] / HOUR_S, []
    for (name, label), colour in zip(SITE_LINES.items(), charts.COLOURS, strict=False):
        if (watts := power.columns.get(name)) is not None:
            x, y = charts.highest_points(hour, watts, MAX_POINTS)
            lines.append(charts.Line(label, x.tolist(), y.tolist(), colour, "step"))
    figure = charts.LineChart(lines, charts.Axis("time [h]"), charts.Axis("power", "W"))
    return [pages.Section.charted("Power of the site", figure, on="page")]


def _table(rows: Sequence[Mapping[str, str]], texts: int = 1) -> pages.Table:
    """Return cells as a table, of which the first columns are texts."""
    cells = [tuple(row.values()) for row in rows]
    return pages.Table(head=tuple(rows[0]), rows=cells, text_columns=range(texts))


def class_rows(classes: Sequence[Answered]) -> list[dict[str, str]]:
    """Return classes of jobs as cells, largest first; those beyond a dozen are merged.

    Args:
        classes: The `classes` of an answer.
    """
    ordered = sorted(classes, key=lambda row: -row["jobs"])
    rows = text.cells_of(ordered[:MAX_CLASSES], CLASS_COLUMNS)
    if left := ordered[MAX_CLASSES:]:
        jobs = sum(row["jobs"] for row in left)
        merged = {"class": f"{len(left)} more", "jobs": f"{jobs:,}"}
        rows.append(dict.fromkeys(CLASS_COLUMNS, "") | merged)
    return rows


def compared_rows(compared: Sequence[Answered]) -> list[dict[str, str]]:
    """Return compared schedules as cells: changed fields and results.

    Time and completed jobs are shown where they differ, completed jobs first where jobs may fail,
    as failed jobs reduce waiting. Jobs that never started and work of incomplete jobs are shown
    where present.

    Args:
        compared: The `compared` of an answer.
    """
    changes = [
        {
            text.job_field_label(name): text.job_value(name, value)
            for name, value in row["changes"].items()
        }
        for row in compared
    ]
    differing = {
        title: name
        for title, name in (("time", "duration_s"), ("completed", "completed"))
        if len({text.format_value(name, row[name]) for row in compared}) > 1
    }
    ending = any(ENDING & set(row["changes"]) for row in compared)
    first = {n: differing.pop(n) for n in ("completed",) if ending and n in differing}
    domains = {row.get("single_domain_share") for row in compared}
    left_out = {
        *(
            title
            for title in ("under way", "unfinished")
            if not any(row[SHARES[title]] for row in compared)
        ),
        *(["one domain"] if None in domains or len(domains) < 2 else []),
    }
    columns = {
        **first,
        "wait, mean": "wait_s.mean",
        "p90": "wait_s.p90",
        **({"no start": "never_started"} if any(row["never_started"] for row in compared) else {}),
        "slowdown": "slowdown.mean",
        **{title: name for title, name in SHARES.items() if title not in left_out},
        **differing,
    }
    rows = text.cells_of(compared, columns)
    return [before | cells for before, cells in zip(changes, rows, strict=True)]
