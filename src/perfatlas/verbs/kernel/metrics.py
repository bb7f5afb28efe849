"""Metrics of `kernel design`."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.metrics import Metric, declare_metrics

DESIGNS: Final = ("kernel design attention", "kernel design gemm")

declare_metrics(
    Metric(
        name="limiting_unit",
        label="limiting unit",
        holds="text",
        verbs=DESIGNS,
        description=(
            "What limits the kernel: the busiest unit of an SM, the device memory, the launch, or"
            " latency where every unit waits most of the time."
        ),
    ),
    Metric(
        name="kernel_time_s",
        label="time of measured kernels",
        short="measured kernels",
        unit="s",
        shown="scaled",
        has_interval=True,
        verbs=DESIGNS,
        description=(
            "Time of `kernel attention` or `kernel gemm`, fitted to measured kernels; a roofline"
            " has no interval."
        ),
    ),
    *(
        Metric(name=name, label=label, holds="count", verbs=DESIGNS, description=text)
        for name, label, text in (
            ("tile_m", "tile rows", "Rows of the tile of a thread block."),
            ("tile_n", "tile columns", "Columns of the tile of a thread block."),
            ("tile_k", "tile depth", "Depth of a block of the main loop."),
            ("stages", "stages", "Buffers of the main loop in shared memory."),
            ("warpgroups", "warpgroups", "Warpgroups that compute."),
            ("ctas_per_mma", "CTAs per MMA", "Thread blocks that share an MMA instruction."),
            ("tiles", "tiles", "Tiles of the kernel."),
        )
    ),
    Metric(
        name="tile_cycles",
        label="cycles of a tile",
        unit="cycles",
        verbs=DESIGNS,
        description="Mean cycles of a tile on its SM.",
    ),
    Metric(
        name="units",
        label="units",
        holds="rows",
        verbs=DESIGNS,
        description="Units of an SM and the device memory, with their mean work for a tile.",
    ),
    Metric(
        name="units.unit",
        label="unit",
        holds="text",
        verbs=DESIGNS,
        description="The unit; exponentials occupy a part of the issue slots.",
    ),
    Metric(
        name="units.cycles",
        label="cycles",
        unit="cycles",
        verbs=DESIGNS,
        description="Cycles in which it works for a tile.",
    ),
    Metric(
        name="units.share",
        label="share",
        unit="1",
        shown="share",
        verbs=DESIGNS,
        description="These cycles over those of the tile.",
    ),
    Metric(
        name="what_if",
        label="what if",
        holds="rows",
        verbs=DESIGNS,
        description="The kernel with one change.",
    ),
    Metric(
        name="what_if.change",
        label="change",
        holds="text",
        verbs=DESIGNS,
        description="The change of the tile or of the device.",
    ),
    Metric(
        name="what_if.time_s",
        label="time",
        unit="s",
        shown="scaled",
        better="lower",
        verbs=DESIGNS,
        description="Time with the change; null if it is impossible.",
    ),
    Metric(
        name="what_if.speedup",
        label="speedup",
        unit="1",
        better="higher",
        verbs=DESIGNS,
        description="Time without the change over the time with it.",
    ),
    Metric(
        name="what_if.limiting_unit",
        label="limiting unit",
        holds="text",
        verbs=DESIGNS,
        description="What limits the kernel then.",
    ),
    Metric(
        name="what_if.reason",
        label="reason",
        holds="text",
        verbs=DESIGNS,
        description="Why the change is impossible.",
    ),
)
