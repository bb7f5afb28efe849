"""Metrics of `kernel tune`: of an answer, of its designs, and of the shapes of several."""

from __future__ import annotations

from typing import Any, Final

from perfatlas.vocabulary.metrics import Metric, declare_metrics

KERNELS: Final = tuple(
    f"kernel tune {name}" for name in ("gemm", "grouped_gemm", "attention", "norm", "all_reduce")
)
# Names of answers for those of designs
NAMES: Final = {"bm": "tile_m", "bn": "tile_n", "bk": "tile_k"}
TEXT: Final[dict[str, Any]] = {"holds": "text"}
COUNT: Final[dict[str, Any]] = {"holds": "count"}
TIME: Final[dict[str, Any]] = {"unit": "s"}
RATIO: Final[dict[str, Any]] = {"unit": "1"}
SHARE: Final[dict[str, Any]] = {"shown": "share"}
FLAG: Final[dict[str, Any]] = {"holds": "flag"}
# Name, where it is (a: answers, m: also of models, d: designs, s: shapes), kind, label, text
ROWS: Final = (
    ("shape", "ds", TEXT, "shape", "The sizes in which shapes differ, or the operator of a model."),
    ("kernel", "as", TEXT, "kernel", "The kernel that is tuned."),
    ("default_from", "as", TEXT, "default from", "Who takes the default."),
    (
        *("default_design", "as", TEXT, "default"),
        "What the framework takes without tuning; null if it cannot be launched.",
    ),
    ("default_time_s", "ms", TIME, "default time", "Its predicted time."),
    (
        *("library_time_s", "as", TIME, "library time"),
        "Time of the kernels of engines, fitted to measured ones; null where none was measured.",
    ),
    ("design", "as", TEXT, "first design", "The design that is expected to be the fastest."),
    ("time_s", "ds", {**TIME, "has_interval": True}, "time", "Predicted time."),
    (
        *("measured_s", "ads", TIME, "measured time"),
        "Time on the GPU of this machine; null if it was not measured.",
    ),
    (
        *("gain", "ms", {**RATIO, "has_interval": True}, "gain over default"),
        "Time of the default over that of the first design.",
    ),
    (
        *("gain_if_measured", "as", RATIO, "gain of 8 measured"),
        "Expected time of the default over that of the best of the first 8 designs, if measured.",
    ),
    ("limiting_unit", "ds", TEXT, "limiting unit", "What limits the design."),
    ("next_unit", "ads", TEXT, "next unit", "What would limit the design next."),
    (
        *("speedup_if_twice_as_fast", "ads", RATIO, "unit twice as fast"),
        "Time of the design over its time if the limiting unit were twice as fast.",
    ),
    ("legal_designs", "as", COUNT, "legal designs", "Designs that can be launched."),
    ("near_share", "as", SHARE, "designs within 5%", "Legal designs within 5% of the first."),
    (
        *("expected_regret", "as", SHARE, "expected regret"),
        "Expected time of the first design over that of the best of all, minus 1.",
    ),
    ("regret_of_8", "as", SHARE, "regret of 8", "That of the first 8."),
    ("regret_of_16", "as", SHARE, "regret of 16", "That of the first 16."),
    (
        *("best_kept", "as", SHARE, "P(best tile kept)"),
        "Probability that the best tile is among those kept.",
    ),
    ("tuning_advice", "as", TEXT, "advice", "Whether tuning is worth it, and what to measure."),
    ("count", "s", COUNT, "count", "Executions in a step."),
    ("rank", "d", COUNT, "rank", "Rank, the fastest first."),
    ("tile_m", "d", COUNT, "tile rows", "Rows of a tile."),
    ("tile_n", "d", COUNT, "tile columns", "Columns of a tile."),
    ("tile_k", "d", COUNT, "tile depth", "Depth of a step."),
    ("group", "d", COUNT, "group", "Tiles of rows that a band of tiles shares."),
    ("splits", "d", COUNT, "splits", "Parts of the inner dimension, or of the keys."),
    ("programs", "d", COUNT, "programs", "Thread blocks."),
    ("roles", "d", COUNT, "roles", "Whether, and how, warps have roles: to copy or to multiply."),
    ("warps", "d", COUNT, "warps", "Warps of a block."),
    ("stages", "d", COUNT, "stages", "Buffers of the main loop."),
    ("default", "d", FLAG, "default", "Whether it is the default."),
    ("blocks_per_sm", "d", COUNT, "blocks per SM", "Blocks that an SM holds."),
    ("registers", "d", COUNT, "registers", "Registers of a thread; null if it is not compiled."),
    (
        *("compiled_time_s", "d", TIME, "time as compiled"),
        "Predicted time from its instructions; null if it is not compiled, or nvdisasm is missing.",
    ),
    (
        *("compiler_loss", "d", RATIO, "compiler loss"),
        "Time as compiled over that of the design, before it is compiled.",
    ),
    (
        *("compiler_loss_from", "d", TEXT, "compiler loss from"),
        "What the compiler made slower; null where nothing alone costs 2%.",
    ),
    ("problem", "d", TEXT, "problem", "Why its measurement failed; null if it did not."),
)
HOLDERS: Final = {"a": "", "m": "", "d": "designs.", "s": "shapes."}
VERBS: Final = {
    "a": KERNELS,
    "m": ("kernel tune", *KERNELS),
    "d": ("kernel tune", *KERNELS),
    "s": ("kernel tune",),
}

for place, holder in HOLDERS.items():
    declare_metrics(
        *(
            Metric(name=f"{holder}{name}", label=label, description=text, **kind)
            for name, places, kind, label, text in ROWS
            if place in places
        ),
        verbs=VERBS[place],
    )
declare_metrics(
    Metric(
        name="designs", label="designs", holds="rows", description="Designs, the fastest first."
    ),
    Metric(
        name="rejected_designs",
        label="rejected designs",
        holds="rows",
        description="Designs of the search space that cannot be launched.",
    ),
    Metric(name="rejected_designs.reason", label="reason", holds="text", description="The rule."),
    Metric(
        name="rejected_designs.designs",
        label="designs",
        holds="count",
        description="Designs for which it is the first.",
    ),
    verbs=VERBS["d"],
)
declare_metrics(
    Metric(name="shapes", label="shapes", holds="rows", description="Each shape with its design."),
    verbs=VERBS["s"],
)
