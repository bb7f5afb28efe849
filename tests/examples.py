"""Examples of a property and cases of a test: how many run, and how many are studies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from hypothesis import settings


def scaled_examples(share: float) -> int:
    """Return a number of examples.

    Args:
        share: Its ratio to the number that the loaded profile draws.
    """
    return max(1, round(share * settings().max_examples))


def few(values: Iterable[Any], every: int) -> list[ParameterSet]:
    """Return cases of which the first and every later one of some are tests, the others studies.

    Args:
        values: The cases; tuples are the values of several parameters.
        every: How many cases there are to each test.
    """
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=[pytest.mark.study] * (place % every > 0),
        )
        for place, value in enumerate(values)
    ]
