"""GPU memory use as a bar with the length of the capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.text.quantities import format_value
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.text import Text

FREE: Final = "free_bytes"  # the remainder; not a metric
# key, block character, ASCII character, colour; an answer has some of them
PARTS: Final[tuple[tuple[str, str, str, str], ...]] = (
    ("weights_bytes", "█", "W", "blue"),
    ("gradients_bytes", "▞", "G", "cyan"),
    ("optimizer_bytes", "▚", "S", "red"),
    ("kv_bytes", "▓", "K", "green"),
    ("activation_bytes", "▒", "A", "yellow"),
    ("other_bytes", "░", "O", "magenta"),
    (FREE, "·", ".", "dim"),
)


def share_cells(amounts: Sequence[float], cells: int) -> list[int]:
    """Return whole cells per amount that sum to `cells`; non-zero amounts get at least one.

    Example:
        >>> from perfatlas.report.text.memory_use import share_cells
        >>> share_cells([70.0, 29.9, 0.1], 10)
        [7, 2, 1]
    """
    total = sum(amounts)
    exact = [cells * amount / total for amount in amounts]
    shared = [max(int(part), 1 if part > 0 else 0) for part in exact]
    while sum(shared) != cells:
        step = 1 if sum(shared) < cells else -1
        errors = [step * (part - have) for part, have in zip(exact, shared, strict=True)]
        movable = [i for i, have in enumerate(shared) if exact[i] > 0 and have + step >= 1]
        shared[max(movable, key=errors.__getitem__)] += step
    return shared


def memory_bar(memory: Mapping[str, Any], *, width: int, unicode: bool) -> Text:
    """Return the bar and its legend.

    Args:
        memory: The `memory` object of an answer: some of the keys of `PARTS`, and capacity_bytes.
        unicode: Whether to use block characters instead of letters.
    """
    from rich.text import Text

    parts = [part for part in PARTS if part[0] in memory or part[0] == FREE]
    amounts = [float(memory.get(key) or 0.0) for key, *_ in parts[:-1]]
    capacity = float(memory.get("capacity_bytes") or 0.0)
    amounts.append(max(0.0, capacity - sum(amounts)))
    text = Text()
    if sum(amounts) > 0:
        cells = share_cells(amounts, max(width - 4, len(parts)))
        text.append("  [")
        for (_, block, letter, style), count in zip(parts, cells, strict=True):
            text.append((block if unicode else letter) * count, style=style)
        text.append("]\n")
    text.append_text(_legend(parts, amounts, width=width, unicode=unicode))
    return text


def _legend(
    parts: Sequence[tuple[str, str, str, str]],
    amounts: Sequence[float],
    *,
    width: int,
    unicode: bool,
) -> Text:
    from rich.text import Text

    text, column = Text("  "), 2
    for (key, block, letter, style), amount in zip(parts, amounts, strict=True):
        name = "free" if key == FREE else METRICS[f"memory.{key}"].label
        words = f" {name} {format_value(key, amount)}"
        if column + len(words) + 1 > width:
            text.append("\n  ")
            column = 2
        text.append(block if unicode else letter, style=style)
        text.append(words)
        text.append("   ")
        column += len(words) + 4
    text.rstrip()
    return text


def memory_verdict(memory: Mapping[str, Any]) -> str:
    """Return one line: memory in use, and whether it fits or by how much it does not.

    Example:
        >>> from perfatlas.report.text.memory_use import memory_verdict
        >>> memory_verdict({"total_bytes": 9e10, "capacity_bytes": 8e10, "fits": False})
        '90.0 GB of 80.0 GB: DOES NOT FIT, 10.0 GB too much'
    """
    total, capacity = memory.get("total_bytes"), memory.get("capacity_bytes")
    used = f"{format_value('b_bytes', total)} of {format_value('b_bytes', capacity)}"
    if memory.get("fits") is False and total is not None and capacity is not None:
        return f"{used}: DOES NOT FIT, {format_value('b_bytes', total - capacity)} too much"
    tokens = memory.get("kv_capacity_tokens")
    cache = "" if tokens is None else f"; KV cache capacity {tokens:,.0f} tokens"
    return f"{used}: fits{cache}"
