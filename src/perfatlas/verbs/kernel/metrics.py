"""Metrics of `kernel design`."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.metrics import Metric, declare_metrics

DESIGNS: Final = ("kernel design attention", "kernel design gemm")
# field and result of each size of a tile
TILE: Final = {
    "m": "tile_m",
    "n": "tile_n",
    "k": "tile_k",
    "stages": "stages",
    "warpgroups": "warpgroups",
}

declare_metrics(
    Metric(
        name="inner_dimension",
        label="inner dimension",
        holds="text",
        description=(
            "How blocks cover the inner dimension, or the keys in decode: whole, split in parts"
            " that a second kernel adds, or stream-K (equal shares for all SMs)."
        ),
    ),
    Metric(
        name="kernel_time_s",
        label="time of measured kernels",
        short="measured kernels",
        has_interval=True,
        description=(
            "Time of `kernel attention` or `kernel gemm`, fitted to measured kernels; a roofline"
            " has no interval."
        ),
    ),
    *(
        Metric(name=name, label=label, holds="count", description=text)
        for name, label, text in (
            ("tile_m", "tile rows", "Rows of the tile of a thread block."),
            ("tile_n", "tile columns", "Columns of the tile of a thread block."),
            ("tile_k", "tile depth", "Depth of a block of the main loop."),
            ("stages", "stages", "Buffers of the main loop in shared memory."),
            ("warpgroups", "warpgroups", "Warpgroups that compute."),
            ("ctas_per_mma", "CTAs per MMA", "Thread blocks that share an MMA instruction."),
            ("tiles", "tiles", "Tiles of the kernel."),
            ("timeline.block", "block", "Block of the main loop."),
            ("timeline.warpgroup", "warpgroup", "Its warpgroup; null for a copy."),
        )
    ),
    *(
        Metric(name=name, label=label, holds="rows", description=text)
        for name, label, text in (
            ("units", "units", "Units of an SM and the device memory, with their mean work."),
            ("what_if", "what if", "The kernel with one change."),
            ("timeline", "timeline", "When units work in one iteration of the main loop."),
        )
    ),
    *(
        Metric(name=name, label=label, holds="text", description=text)
        for name, label, text in (
            ("units.unit", "unit", "The unit; exponentials occupy a part of the vector units."),
            ("timeline.unit", "unit", "The unit."),
            ("timeline.work", "work", "The product, copy or softmax that it works for."),
            ("what_if.change", "change", "The change of the tile or of the device."),
            ("what_if.limiting_unit", "limiting unit", "What limits the kernel then."),
            ("what_if.reason", "reason", "Why the change is impossible."),
        )
    ),
    Metric(
        name="iteration_cycles",
        label="cycles of an iteration",
        short="iteration",
        unit="cycles",
        description="Cycles of the timeline: one iteration of the main loop.",
    ),
    *(
        Metric(name=name, label=label, unit=unit, description=text)
        for name, label, unit, text in (
            ("tile_cycles", "cycles of a tile", "cycles", "Mean cycles of a tile on its SM."),
            ("timeline.start_cycles", "start", "cycles", "Start, from that of the iteration."),
            ("timeline.end_cycles", "end", "cycles", "End, from the start of the iteration."),
            ("units.cycles", "cycles", "cycles", "Mean cycles of its work for a tile."),
            ("what_if.speedup", "speedup", "1", "Time without the change over time with it."),
        )
    ),
    Metric(
        name="units.share",
        label="share",
        shown="share",
        description="Share of the kernel's time in which the unit works, mean of all SMs.",
    ),
    Metric(
        name="what_if.time_s",
        label="time",
        description="Time with the change; null if it is impossible.",
    ),
    verbs=DESIGNS,
)
