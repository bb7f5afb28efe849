"""Shared parts of answers about the time of jobs: methods, and the waterfall chart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.text.quantities import format_share
from perfatlas.report.text.terminal import print_plain, speaks_unicode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

METHODS: Final = {
    "exact": "closed form, exact",
    "daly": "closed form of Daly",
    "young": "first-order estimate of Young",
    "saxena": "first-order estimate of Saxena et al.",
    "meta": "first-order estimate (expected ETTR)",
    "simulate": "simulated",
    "erlang_b": "closed form, exact",
    "birth_death": "closed form, exact",
    "simpler_fleet": "closed form of a simpler fleet",
    "binomial": "closed form, exact",
    "order_statistics": "closed form for normal noise",
}
SHORT_NAMES: Final = {
    "gpu": "GPU",
    "gpus": "GPUs",
    "mfu": "MFU",
    "mtbf": "MTBF",
    "mtti": "MTTI",
    "pue": "PUE",
}
BAR: Final = 24
OTHERS: Final = "others"
MOST_BUCKETS: Final = 5  # of a brief answer, beside the productive one
FEW_HOURS: Final = 100.0  # GPU-hours of a job, below which one decimal is shown


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
        text.append(f"  {name:<{widest}}  {format_share(row['share']):>6}  {bar}{hours}\n")
    text.rstrip()
    print_plain(console, text, wrap=False)


def _largest(
    rows: Sequence[Mapping[str, Any]], labels: Mapping[str, str], most: int
) -> tuple[list[Mapping[str, Any]], dict[str, str]]:
    """Return the largest buckets in their order, the others as one, and the labels of all."""
    first, *rest = [row for row in rows if row["share"] or row is rows[0]]
    by_share = sorted(rest, key=lambda row: -row["share"])
    kept = by_share if len(by_share) <= most else by_share[: most - 1]
    left = [row for row in rest if row not in kept]
    named = dict(labels)
    found: list[Mapping[str, Any]] = [first, *(row for row in rest if row in kept)]
    if left:
        sums = {"name": OTHERS, "share": sum(row["share"] for row in left)}
        if "gpu_hours" in first:
            sums["gpu_hours"] = sum(row["gpu_hours"] for row in left)
        found.append(sums)
        named[OTHERS] = f"{len(left)} others"
    return found, named
