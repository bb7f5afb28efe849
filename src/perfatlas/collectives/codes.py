"""Names of collective operations."""

from __future__ import annotations

from typing import Final

from perfatlas.quantities import UsageError, did_you_mean

REDUCTIONS: Final = ("all_reduce", "reduce_scatter")
EXPERT_EXCHANGES: Final = ("dispatch", "combine")
EXCHANGES: Final = ("all_to_all", *EXPERT_EXCHANGES)
OPS: Final = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "dispatch",
    "combine",
    "send_recv",
)


def check_op(op: str) -> str:
    """Return the name of a collective operation after checking it."""
    if op not in OPS:
        raise UsageError(
            f"unknown collective op {op!r}; known: {', '.join(OPS)}{did_you_mean(op, OPS)}"
        )
    return op
