"""Candidates that rules refuse, counted by rule.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


def refused_by_rule(
    rules: Mapping[str, NDArray[np.bool_]], size: int, each: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Return the candidates that no rule refuses (C,), and the number refused by each rule.

    A candidate that several rules refuse is counted for the first one, so that kept and refused
    candidates add up.

    Args:
        rules: The candidates that each rule refuses (C,), by its name.
        size: Number of candidates C.
        each: How many candidates each of them stands for (C,), 1 by default.

    Example:
        >>> import numpy as np
        >>> from perfatlas.studies import refused_by_rule
        >>> rules = {"odd": np.array([True, False, True]), "large": np.array([False, False, True])}
        >>> kept, counts = refused_by_rule(rules, 3)
        >>> kept.tolist(), counts
        ([False, True, False], {'odd': 2})
    """
    kept = np.ones(size, np.bool_)
    counts: dict[str, int] = {}
    for name, broken in rules.items():
        now = kept & broken
        found = int(np.count_nonzero(now) if each is None else each[now].sum())
        if found:
            counts[name] = found
        kept &= ~broken
    return kept, counts
