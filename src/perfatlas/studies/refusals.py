"""Candidates that rules refuse, counted by rule.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray


def refused_by_rule(
    rules: Iterable[tuple[str, NDArray[np.bool_]]], size: int, each: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Return the candidates that no rule refuses (C,), and the number refused by each rule.

    A candidate that several rules refuse is counted for the first one, so that kept and refused
    candidates add up.

    Args:
        rules: Name of each rule and the candidates that it refuses (C,).
        each: How many candidates each of them stands for (C,), 1 by default.

    Example:
        >>> import numpy as np
        >>> from perfatlas.studies.refusals import refused_by_rule
        >>> rules = {"odd": np.array([True, False, True]), "large": np.array([False, False, True])}
        >>> kept, counts = refused_by_rule(rules.items(), 3)
        >>> kept.tolist(), counts
        ([False, True, False], {'odd': 2})
    """
    allowed = np.ones(size, np.bool_)
    counts: dict[str, int] = {}
    for name, broken in rules:
        now = allowed & broken
        refused = int(np.count_nonzero(now) if each is None else each[now].sum())
        if refused:
            counts[name] = counts.get(name, 0) + refused
        allowed &= ~broken
    return allowed, counts


def rejected_counts(rejected: Mapping[str, int]) -> dict[str, int]:
    """Return the rules that refuse candidates with their numbers, the largest first."""
    return {n: count for n, count in sorted(rejected.items(), key=lambda pair: -pair[1]) if count}


def rejected_text(
    rejected: Mapping[str, int], labels: Mapping[str, Any], most: int | None = None
) -> str:
    """Return the rules that refuse candidates with their numbers, the largest first.

    Args:
        most: Number of rules that are named, all by default.

    Example:
        >>> from perfatlas.studies import rejected_text
        >>> rejected_text({"odd": 20, "large": 3000, "small": 7}, {"large": "too large"}, 2)
        'too large (3,000), odd (20), other reasons (7)'
    """
    counts = list(rejected_counts(rejected).items())
    words = [f"{labels.get(rule, rule)} ({count:,})" for rule, count in counts[:most]]
    if others := sum(count for _, count in counts[len(words) :]):
        words.append(f"other reasons ({others:,})")
    return ", ".join(words)
