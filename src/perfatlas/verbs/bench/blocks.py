"""What `bench run` shows: records beside their predictions, and the cases that did not run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.charts import BLUE, ORANGE, Axis, Bar, BarChart
from perfatlas.report.pages import Page, Section, Table
from perfatlas.report.text import Value, format_value
from perfatlas.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.lab.harness import Bench

    Records = Sequence[Mapping[str, Any]]

MAX_BARS: Final = 40
TEXTS: Final = ("case", "remark", "bound", "reason")


def bench_page(results: Mapping[str, Any], bench: Bench, *, reproduce: str) -> Page:
    """Return the records of a run.

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
        lines=[
            bench.machine.stack,
            f"predictions: {bench.ceilings.origin}",
            *(f"not measured: {one}" for one in missing),
        ],
        values=[
            Value("measured", f"{len(measured):,}"),
            Value("not measured", f"{len(failed):,}"),
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
    columns: dict[str, Any] = {
        "case": case_text,
        "time": "time_s",
        "±90%": lambda one: f"{(one['time_s_high'] - one['time_s_low']) / 2.0 / one['time_s']:.1%}",
        "achieved": _achieved,
        "predicted": "predicted_s",
        "remark": _remark,
        "residual": lambda one: _residual(one) or "-",
        "bound": lambda one: str(one["bound"]),
    }
    section = Section(title="Records", blocks=[Table.of(records, columns, texts=TEXTS)])
    known = [record for record in records if record["residual"] is not None]
    largest = sorted(known, key=lambda row: -abs(row["residual"]))[:MAX_BARS]
    if not largest:
        return [section]
    bars = [
        Bar(
            case_text(row),
            row["residual"],
            _residual(row),
            ORANGE if row["residual"] > 0.0 else BLUE,
        )
        for row in largest
    ]
    axis = Axis("measured over predicted time, less 1", unit="%")
    return [Section.charted("Largest residuals", BarChart(bars, axis)), section]


def _remark(record: Mapping[str, Any]) -> str:
    """Return the state, unless it is steady, what explains the time, and the kernel design."""
    state = "" if record["state"] == "steady" else record["state"]
    return "; ".join(filter(None, (state, record["why"], _designed(record))))


def _designed(record: Mapping[str, Any]) -> str:
    """Return what `kernel design` predicts; "" where it does not answer."""
    time_s = record["designed_s"]
    return "" if time_s is None else f"kernel design: {format_value('time_s', time_s)}"


def _achieved(record: Mapping[str, Any]) -> str:
    """Return the rate of what bounds a record."""
    if record["bound"] == "compute":
        return format_value("flop_per_s", record["flop_per_s"])
    return format_value("bytes_per_s", record["bytes_per_s"])


def _residual(record: Mapping[str, Any]) -> str:
    return "" if record["residual"] is None else f"{record['residual']:+.1%}"


def _failed(records: Records) -> list[Section]:
    """Return the cases that were not measured, with their reason; empty for none."""
    columns = {
        "case": case_text,
        "reason": lambda one: "; ".join(filter(None, (str(one["error"]), _designed(one)))),
    }
    table = Table.of(records, columns, texts=TEXTS)
    return [Section(title="Not measured", blocks=[table])] if records else []


def case_text(record: Mapping[str, Any]) -> str:
    """Return operator, sizes, format, temperature and implementation in a few words."""
    from perfatlas.lab.harness import SHAPES

    sizes = "x".join(str(record[name]) for name in SHAPES if record[name] is not None)
    words = (record["name"], sizes, record["format"], record["data"], record["kernel"])
    return " ".join(filter(None, words))
