"""Titles of the charts that the page of each verb may have.

A title that ends in an ellipsis goes on with a value of the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

REST: Final = "…"
DESIGN: Final = ("One iteration of the main loop", "What if: speedup")
OPERATOR: Final = ("Roofline", f"Time by {REST}")
CHART_TITLES: Final[Mapping[str, tuple[str, ...]]] = {
    "accuracy": (f"Change of {REST}", "Quantization noise"),
    "collective": ("Time by message size", "Bus bandwidth by message size"),
    "compare": (
        "output tokens/s per GPU by scenario",
        "cost per million output tokens by scenario",
        "energy per output token by scenario",
        "Prefill by what bounds its operators",
        "Decode step by what bounds its operators",
        f"Prefill of {REST}",
        f"Decode step of {REST}",
    ),
    "estimate": (
        "output tokens/s per GPU over output tokens/s per user",
        "Energy over time per output token (TPOT)",
        "Energy over clock ratio",
        "Power over clock ratio",
        "Energy over power cap",
        "Power over power cap",
        f"What {REST}",
        "Prefill by operator",
        "Decode step by operator",
        "Pass by operator",
        "Roofline",
        f"Memory of a {REST}",
    ),
    "fleet schedule": ("Where the GPU time goes", "Power of the site"),
    "goodput": (
        "Where the time goes",
        "Distribution of the time to finish",
        "Distribution of the goodput",
        "Goodput decomposition",
        "Gain from single changes",
        "Recovery strategies",
    ),
    **{
        f"kernel {text}": OPERATOR
        for text in (
            *("attention", "gemm", "moe"),
            *("op elementwise", "op embedding", "op norm", "op softmax"),
        )
    },
    "kernel design attention": DESIGN,
    "kernel design gemm": DESIGN,
    "goodput spares": ("Waiting time by spares",),
    "search training": ("Best layouts",),
    "search": (f"Frontier of throughput and speed: {REST}", f"Frontier of the objectives: {REST}"),
    "simulate": (
        "Latency distributions",
        "Time to first token by arrival",
        "Requests in the engines",
        "KV cache in use",
        "Serving replicas",
        "Power",
        f"Slowest request by {REST}",
        f"Slowest 1% by {REST}",
    ),
    "train": (
        "Where the time goes",
        "Where the energy goes",
        "Memory of the fullest GPU",
        f"Memory over the step, pipeline rank {REST}",
        "Passes of the pipeline",
        "Passes of the pipeline, beginning of the step",
        "Passes of the pipeline, end of the step",
        "Power over the first steps",
        "Power over time",
    ),
}


def may_be_title(wanted: str, title: str) -> bool:
    """Return whether a text may be, or be part of, the title of a chart.

    Args:
        wanted: The text, in any case.
        title: The title, with an ellipsis for its end where that is a value.

    Example:
        >>> from perfatlas.commands.flags.chart_titles import may_be_title
        >>> [may_be_title(word, "Slowest 1% by …") for word in ("slowest", "1% by TTFT", "pie")]
        [True, True, False]
    """
    word, start = wanted.casefold(), title.removesuffix(REST).casefold()
    if word in start or not title.endswith(REST):
        return word in start
    return any(word.startswith(start[index:]) for index in range(len(start)))
