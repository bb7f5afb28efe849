"""Names of collective operations and the codes of what bounds them."""

from __future__ import annotations

from typing import Final

from perfatlas.quantities import UsageError, did_you_mean

# The same codes as perfatlas.kernels.silicon uses; the two rooms may not import each other.
BOUND_NETWORK: Final = 2
BOUND_LATENCY: Final = 3

REDUCTIONS: Final = ("all_reduce", "reduce_scatter")
EXCHANGES: Final = ("all_to_all", "dispatch", "combine")
OPS: Final = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "dispatch",
    "combine",
    "send_recv",
)
LIBRARY: Final = "nccl"
CUSTOM: Final = "custom"
# Names an engine profile may use. One- and two-shot are the two algorithms of the same kernel.
IMPLEMENTATIONS: Final = (LIBRARY, CUSTOM, "custom_one_shot", "custom_two_shot")


def check_op(op: str) -> str:
    """Return the operation's name.

    Args:
        op: What the user wrote.

    Raises:
        UsageError: There is no such operation.
    """
    if op not in OPS:
        raise UsageError(
            f"unknown collective op {op!r}; known: {', '.join(OPS)}{did_you_mean(op, OPS)}"
        )
    return op


def check_implementation(implementation: str) -> str:
    """Return the name of an implementation.

    Args:
        implementation: What the engine profile says.

    Raises:
        UsageError: There is no such implementation.
    """
    if implementation not in IMPLEMENTATIONS:
        raise UsageError(
            f"unknown collective implementation {implementation!r}; known:"
            f" {', '.join(IMPLEMENTATIONS)}{did_you_mean(implementation, IMPLEMENTATIONS)}"
        )
    return implementation
