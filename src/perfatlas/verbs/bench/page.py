"""HTML page of `bench run`: records beside their predictions, and the cases that did not run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.charts import BLUE, ORANGE, Axis, Bar, BarChart
from perfatlas.report.pages import Page, Section, Table, Value
from perfatlas.report.text import format_value, interval_text
from perfatlas.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.lab.harness import Bench

    Records = Sequence[Mapping[str, Any]]

MOST_BARS: Final = 40
TEXTS: Final = ("case", "bound", "why", "reason", "state")


def bench_page(results: Mapping[str, Any], bench: Bench, *, reproduce: str) -> Page:
    """Return the records of a run as an HTML page.

    Args:
        results: As of `--json`.
        bench: What was measured on.
        reproduce: The command line.
    """
    measured = [one for one in results["records"] if one["error"] is None]
    failed = [one for one in results["records"] if one["error"] is not None]
    missing = dict.fromkeys(filter(None, (one["unmeasured"] for one in measured)))
    return Page(
        command="bench run",
        title=f"{results['suite']} on {bench.machine.device}",
        subtitle=bench.machine.stack,
        summary=[
            f"predictions: {bench.ceilings.origin}",
            *(f"not measured: {one}" for one in missing),
        ],
        values=[
            Value(label="measured", value=f"{len(measured):,}"),
            Value(label="not measured", value=f"{len(failed):,}"),
        ],
        sections=[*_measured(measured), *_failed(failed)],
        warnings=["interrupted: later cases were not measured"] if results["interrupted"] else [],
        reproduce=reproduce,
        versions={"perfatlas": __version__},
    )


def _measured(records: Records) -> list[Section]:
    """Return the records with what was achieved, predicted and left, and the residuals as bars."""
    if not records:
        return []
    columns = {
        "case": case_text,
        "time": lambda one: format_value("time_s", one["time_s"]),
        "90% interval": lambda one: interval_text(one, "time_s"),
        "achieved": _achieved,
        "predicted": lambda one: format_value("time_s", one["predicted_s"]),
        "residual": lambda one: _residual(one) or "-",
        "bound": lambda one: str(one["bound"]),
        "state": lambda one: str(one["state"]),
        "why": lambda one: str(one["why"]),
    }
    table = Table.of(records, columns, texts=TEXTS)
    known = [one for one in records if one["residual"] is not None]
    largest = sorted(known, key=lambda one: -abs(one["residual"]))[:MOST_BARS]
    section = Section(title="Records", blocks=[table])
    if not largest:
        return [section]
    bars = [
        Bar(
            case_text(one),
            one["residual"],
            _residual(one),
            ORANGE if one["residual"] > 0.0 else BLUE,
        )
        for one in largest
    ]
    axis = Axis("measured over predicted time, less 1", unit="%")
    return [Section.charted("Largest residuals", BarChart(bars, axis)), section]


def _achieved(record: Mapping[str, Any]) -> str:
    """Return the rate of what bounds a record."""
    if record["bound"] == "compute":
        return format_value("flop_per_s", record["flop_per_s"])
    return format_value("bytes_per_s", record["bytes_per_s"])


def _residual(record: Mapping[str, Any]) -> str:
    return "" if record["residual"] is None else f"{record['residual']:+.1%}"


def _failed(records: Records) -> list[Section]:
    if not records:
        return []
    columns = {"case": case_text, "reason": lambda one: str(one["error"])}
    return [Section(title="Not measured", blocks=[Table.of(records, columns, texts=TEXTS)])]


def case_text(record: Mapping[str, Any]) -> str:
    """Return operator, sizes, format, temperature and implementation in a few words."""
    from perfatlas.lab.harness import SHAPES

    sizes = "x".join(str(record[name]) for name in SHAPES if record[name] is not None)
    words = (record["name"], sizes, record["format"], record["data"], record["kernel"])
    return " ".join(filter(None, words))
