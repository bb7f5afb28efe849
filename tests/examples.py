"""Number of examples of a property, in proportion to that of the hypothesis profile."""

from __future__ import annotations

from hypothesis import settings


def scaled_examples(share: float) -> int:
    """Return a number of examples.

    Args:
        share: Its ratio to the number that the loaded profile draws.
    """
    return max(1, round(share * settings().max_examples))
