"""What answers about the time of jobs share: how they are found, and the bars of a waterfall."""

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
SHORT: Final = {"gpu": "GPU", "gpus": "GPUs", "mfu": "MFU", "mtbf": "MTBF", "mtti": "MTTI"}
BAR: Final = 28
FEW_HOURS: Final = 100.0  # GPU-hours of a job, below which whole ones say too little


def print_waterfall(
    console: Console, rows: Sequence[Mapping[str, Any]], labels: Mapping[str, str]
) -> None:
    """Write the time from all of it down to what is useful, a bar per bucket.

    Args:
        console: From `open_terminal`.
        rows: Buckets with name, share and gpu_hours, the productive one first.
        labels: Names of buckets as people say them.
    """
    from rich.text import Text

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
        hours = f"  {row['gpu_hours']:>11{digits}} GPU-h" if "gpu_hours" in row else ""
        text.append(f"  {name:<{widest}}  {format_share(row['share']):>6}  {bar}{hours}\n")
    text.rstrip()
    print_plain(console, text, wrap=False)
