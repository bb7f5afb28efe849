"""Loads of candidates that run alike, each once.

Limits that never act change nothing that runs: a budget of 8,192 or 16,384 tokens gives a step with
one prompt of 4,000 tokens the same work.

Shape legend: C candidates, U loads that run differently.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.operators import unique_rows
from perfatlas.parallelism import MemoryColumns
from perfatlas.step import PrefillChunks, take_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfatlas.inference.running_load import RunningLoad
    from perfatlas.networks import StepTokens
    from perfatlas.operators import FloatArray, IntArray

# Read only to divide prompts into the chunks of a `RunningLoad`.
BUDGET: Final = "max_num_batched_tokens"
UNKNOWN: Final = -1.0  # stands for NaN, which equals nothing


def distinct_loads(loaded: RunningLoad) -> tuple[IntArray, IntArray]:
    """Return the first candidate of each load that runs differently (U,), and each one's load (C,).

    Candidates of one load have the same steps, times and energies. Memory may differ.

    Args:
        loaded: What runs at the same time.
    """
    differing = [one for one in _columns(loaded) if np.any(one != one[0])]
    known = [np.where(np.isnan(one), UNKNOWN, one) for one in differing]  # NaN differs from itself
    varying = [one for one in known if np.any(one != one[0])]
    if not varying:
        return np.zeros(1, np.int64), np.zeros(loaded.served.size, np.int64)
    return unique_rows(np.column_stack(varying))


def _columns(loaded: RunningLoad) -> Iterator[NDArray[Any]]:
    """Yield everything that times and energies of candidates depend on, each (C,)."""
    question, chunks = loaded.question, loaded.chunks
    limits = {name: one for name, one in vars(question.limits).items() if name != BUDGET}
    tokens, last = _known(chunks.tokens), _known(chunks.last_tokens)
    runs_last = chunks.last_count > 0.0
    last = {name: np.where(runs_last, one, 0.0) for name, one in last.items()}
    own = {name: getattr(loaded, name) for name in _own(loaded)}
    named = (vars(question.plan), vars(question.load), limits, tokens, last, own)
    yield from (one for columns in named for one in columns.values())
    yield from (chunks.count, chunks.last_count, question.aggregated_C)
    placed = vars(question.placement).values()
    yield from (one for one in placed if isinstance(one, np.ndarray))


def _own(loaded: RunningLoad) -> list[str]:
    """Return the names of the columns of a load."""
    return [name for name, one in vars(loaded).items() if isinstance(one, np.ndarray)]


def _known(tokens: StepTokens) -> dict[str, FloatArray]:
    return {name: one for name, one in vars(tokens).items() if one is not None}


def take_loads(loaded: RunningLoad, index: IntArray) -> RunningLoad:
    """Return the loads of the candidates at the given positions.

    Args:
        loaded: What runs at the same time.
        index: Positions.
    """
    own: dict[str, Any] = {name: getattr(loaded, name)[index] for name in _own(loaded)}
    return replace(
        loaded,
        question=loaded.question.take(index),
        memory=MemoryColumns(**take_columns(loaded.memory, index)),
        chunks=take_chunks(loaded.chunks, index),
        **own,
    )


def take_chunks(chunks: PrefillChunks, index: IntArray) -> PrefillChunks:
    """Return the chunks of the candidates at the given positions.

    Args:
        chunks: Prefill chunks.
        index: Positions.
    """
    return PrefillChunks(
        count=chunks.count[index],
        tokens=take_tokens(chunks.tokens, index),
        last_count=chunks.last_count[index],
        last_tokens=take_tokens(chunks.last_tokens, index),
    )


def take_tokens(tokens: StepTokens, index: IntArray) -> StepTokens:
    """Return the tokens of the steps at the given positions.

    Args:
        tokens: Tokens of steps.
        index: Positions.
    """
    return replace(tokens, **{name: one[index] for name, one in _known(tokens).items()})
