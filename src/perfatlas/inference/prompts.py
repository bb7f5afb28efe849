"""Prompts that an engine does not split over steps: which are rejected, and what others wait for.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.quantities import InfeasibleError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray
    from perfatlas.step import Candidates


def rejects_prompts(question: Candidates) -> NDArray[np.bool_]:
    """Return whether the engine rejects the prompts, which exceed a step and are not split (C,)."""
    whole_C: NDArray[np.bool_] = question.load.isl > question.limits.max_num_batched_tokens
    return whole_C & (not question.profile.scheduler.chunked_prefill)


def prompt_rejection(question: Candidates, candidate: int = 0) -> InfeasibleError:
    """Return the error of a candidate whose prompts are rejected.

    Args:
        candidate: Index of one that `rejects_prompts`.
    """
    isl, limits = question.load.isl[candidate], question.limits
    enough = isl + limits.max_num_seqs[candidate]
    return InfeasibleError(
        f"{question.profile.id} rejects prompts of {isl:,g} tokens: a step holds at most"
        f" {limits.max_num_batched_tokens[candidate]:,g} (max_num_batched_tokens), and chunked"
        " prefill is off by default",
        advice=(
            "leave max_num_batched_tokens out",
            f"set max_num_batched_tokens = {enough:g}, the prompt and max_num_seqs",
        ),
    )


def beside_prompt(question: Candidates) -> FloatArray:
    """Return the sequences of a rank that may run when a prompt starts, and it itself (C,).

    A prompt that is not split starts only in a step that holds it whole beside the decodes.
    """
    if question.profile.scheduler.chunked_prefill:
        return np.full(question.load.isl.shape, np.inf)
    new_C = question.load.isl - question.load.prefix
    left_C = (question.limits.max_num_batched_tokens - new_C) / (1.0 + question.drafts)
    running_C: FloatArray = 1.0 + np.maximum(np.floor(left_C), 0.0)
    return running_C


def prompt_room(question: Candidates, left: FloatArray) -> FloatArray:
    """Return the tokens of prompts that a full step computes (C,).

    A step of an engine that does not split prompts has room for one in any case, as the padding of
    its decodes does not count against the limit; those of a static batch hold whole prompts alone.

    Args:
        left: Tokens of a step that its decodes leave (C,).

    Limits: With continuous batching, steps of any engine hold a mean number of prompts, which need
        not be whole.
    """
    if question.profile.scheduler.chunked_prefill:
        return left
    new_C = question.load.isl - question.load.prefix
    whole_C = np.maximum(np.floor(left / new_C), 1.0) * new_C
    room_C: FloatArray = np.where(question.aggregated_C, np.maximum(left, new_C), whole_C)
    return room_C
