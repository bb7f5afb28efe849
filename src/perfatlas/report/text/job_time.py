"""Shared parts of answers about the time of jobs: methods, fields, and the waterfall chart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import HOUR_S, format_quantity
from perfatlas.report.text import quantities
from perfatlas.report.text.terminal import print_plain, speaks_unicode
from perfatlas.vocabulary.metrics import find_metric

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

SHORT_NAMES: Final = {
    "gpu": "GPU",
    "gpus": "GPUs",
    "mfu": "MFU",
    "mtbf": "MTBF",
    "mtti": "MTTI",
    "pue": "PUE",
}
PER_UNIT: Final = {"usd_per_gpu_hour": "GPU-hour", "usd_per_kwh": "kWh"}
WATTS: Final = {
    "power_w": "GPU power",
    "idle_power_w": "power of an idle GPU",
    "repair_power_w": "power of a GPU under repair",
    "site_cap_w": "cap of the site",
    "trace_limit_w": "limit of the site",
}
SHARES: Final = ("target", "mfu", "scheduling")  # fields
# told in Wh, as electricity is sold
ENERGIES: Final = frozenset((
    *("job_energy_j", "lost_energy_j", "lost_work_energy_j", "cluster_energy_j", "work_energy_j"),
    *("stalled_energy_j", "idle_gpu_energy_j", "repair_energy_j", "site_energy_j"),
))  # fmt: skip
BAR: Final = 24
OTHERS: Final = "others"
MAX_BUCKETS: Final = 5  # of a brief answer, beside the productive one
FEW_HOURS: Final = 100.0  # GPU-hours of a job, below which one decimal is shown


def job_value(name: str, value: Any) -> str:  # noqa: ANN401 - a field or result of any kind
    """Return a field or result of a job or of a cluster as text.

    Args:
        value: A number, text, mapping or None.

    Example:
        >>> from perfatlas.report.text import job_value
        >>> job_value("mtti_s", 7200.0), job_value("usd_per_gpu_hour", 2.5)
        ('2 h', '$2.50')
        >>> job_value("job_energy_j", 3.6e12)
        '1.00 GWh'
    """
    if name in ENERGIES and isinstance(value, int | float):
        return format_quantity(value / HOUR_S, "Wh", exact=False)
    if find_metric(name) or isinstance(value, bool) or not isinstance(value, int | float):
        return quantities.format_value(name, value)
    if "bytes" in name.split("_"):
        return format_quantity(value, "B/s" if name.endswith("_per_s") else "B", exact=False)
    if name in SHARES or name.endswith("_s"):
        return (quantities.share_text if name in SHARES else quantities.time_text)(value)
    if "usd" in name.split("_"):
        return f"${value:,.2f}" if abs(value) < 1000 else f"${value:,.0f}"
    return quantities.format_number(value)


def job_field(name: str, value: Any) -> str:  # noqa: ANN401 - a field of any kind
    """Return a field of a job or of a cluster with its value, as text.

    Example:
        >>> from perfatlas.report.text import job_field
        >>> job_field("power_w", 600.0), job_field("usd_per_kwh", 0.1), job_field("elastic", True)
        ('GPU power 600 W', '$0.10 per kWh', 'elastic')
    """
    if name in PER_UNIT:
        return f"{job_value(name, value)} per {PER_UNIT[name]}"
    if name in WATTS:
        return f"{WATTS[name]} {quantities.format_value('power_w', value)}"
    label = job_field_label(name)
    return label if value is True else f"{label} {job_value(name, value)}"


def job_field_label(name: str) -> str:
    """Return the name of a field as words, without its unit.

    Example:
        >>> from perfatlas.report.text import job_field_label
        >>> job_field_label("max_job_gpus"), job_field_label("checkpoint_write_s")
        ('max job GPUs', 'checkpoint write')
    """
    stem = name.removesuffix("_bytes_per_s" if name.endswith("_bytes_per_s") else "_s")
    return " ".join(SHORT_NAMES.get(word, word) for word in stem.split("_"))


def print_waterfall(
    console: Console,
    rows: Sequence[Mapping[str, Any]],
    labels: Mapping[str, str],
    *,
    most: int | None = None,
) -> None:
    """Write a waterfall from total to useful time, one bar per bucket.

    Args:
        rows: Buckets with name, share and gpu_hours, the productive one first.
        most: Buckets beside the productive one, the smaller ones in one row; by default all.
    """
    from rich.text import Text

    if most is not None:
        rows, labels = _largest(rows, labels, most)
    full, light = ("█", "·") if speaks_unicode(console) else ("#", ".")
    names = [labels[str(row["name"])] for row in rows]
    widest = max(len(name) for name in names)
    text = Text()
    digits = ",.0f" if sum(row.get("gpu_hours", 0.0) for row in rows) >= FEW_HOURS else ",.3g"
    start = 1.0
    for name, row in [*zip(names[1:], rows[1:], strict=True), (names[0], rows[0])]:
        start = start - row["share"] if name != names[0] else 0.0
        first, last = round(BAR * start), round(BAR * (start + row["share"]))
        first = min(first, BAR - 1)
        last = max(last, first + 1) if row["share"] else first
        bar = light * first + full * (last - first) + light * (BAR - last)
        hours = f"  {row['gpu_hours']:>11{digits}} GPU-hours" if "gpu_hours" in row else ""
        text.append(
            f"  {name:<{widest}}  {quantities.format_share(row['share']):>6}  {bar}{hours}\n"
        )
    text.rstrip()
    print_plain(console, text, wrap=False)


def _largest(
    rows: Sequence[Mapping[str, Any]], labels: Mapping[str, str], most: int
) -> tuple[list[Mapping[str, Any]], dict[str, str]]:
    """Return the largest buckets in their order, the others as one, and the labels of all."""
    first, *rest = [row for row in rows if row["share"] or row is rows[0]]
    by_share = sorted(rest, key=lambda row: -row["share"])
    largest = by_share if len(by_share) <= most else by_share[: most - 1]
    others = [row for row in rest if row not in largest]
    named = dict(labels)
    buckets: list[Mapping[str, Any]] = [first, *(row for row in rest if row in largest)]
    if others:
        sums = {"name": OTHERS, "share": sum(row["share"] for row in others)}
        if "gpu_hours" in first:
            sums["gpu_hours"] = sum(row["gpu_hours"] for row in others)
        buckets.append(sums)
        named[OTHERS] = f"{len(others)} others"
    return buckets, named
