"""Operators that speculative decoding adds: verification of more tokens, and drafting passes.

A decode step computes 1 + `drafts` tokens of every sequence. The queries of a sequence read its KV
cache together, so the kernel sees them as more query heads, as kernels pack the heads of a group.
The drafter then runs one pass over the same tokens, and for each further draft one pass over one
token per sequence. It also runs over every prompt to fill its own KV cache.

Source: vllm-project/vllm, vllm/v1/spec_decode/eagle.py, propose(): one pass over all tokens of the
    step, then one pass of a token per sequence for each further draft;
    Dao-AILab/flash-attention, pack_gqa.
Limits: Neglects the host time of drafting passes and the drafting after a prompt ends. All
    scheduled drafts are computed; none is truncated at the end of an output.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.networks import StepTokens
from perfatlas.operators import KeyReader, Phase, with_fields
from perfatlas.step.local import run_locally
from perfatlas.step.tokens import padded_batch

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray, Operator
    from perfatlas.step.context import StepContext

FIRST: Final = "draft_"  # prefix of the pass over all tokens of a step
LATER: Final = "draft_again_"  # prefix of the other passes
# operators omitted from a pass over a prompt, whose first draft comes with the next decode step
HEAD: Final = ("final_norm", "lm_head", "sampling")


def verification_operator(operator: Operator, batch: FloatArray, queries: int) -> Operator:
    """Return an operator of a decode step that verifies several tokens per sequence.

    Args:
        batch: Sequences (C,).

    Limits: Every query sees all keys of the step, up to `queries` - 1 too many. With key selection,
        each query reads its own keys.
    """
    return operator.verifying(batch, queries) if isinstance(operator, KeyReader) else operator


def drafting_passes(
    context: StepContext, batch: FloatArray, kv_len: FloatArray
) -> tuple[Operator, ...]:
    """Return the operators of one rank that draft after a decode step, with collectives.

    Args:
        batch: Sequences on one attention-DP rank (C,).
        kv_len: Keys per sequence, including the new tokens (C,).
    """
    sizes = context.profile.scheduler.graph_sizes
    tokens = 1 + context.drafts
    first = _pass(context, padded_batch(batch * tokens, sizes), batch, kv_len)
    operators = [_renamed(verification_operator(op, batch, tokens), FIRST, 1.0) for op in first]
    if context.drafts > 1:
        later = _pass(context, padded_batch(batch, sizes), batch, kv_len)
        again = context.drafts - 1.0
        operators += [_renamed(verification_operator(op, batch, 1), LATER, again) for op in later]
    return tuple(operators)


def prompt_pass(context: StepContext, phase: Phase, tokens: StepTokens) -> tuple[Operator, ...]:
    """Return the operators of one rank that add a step's tokens to the drafter's KV cache."""
    whole = _local_draft(context, phase, tokens)
    return tuple(_renamed(op, FIRST, 1.0) for op in whole if not op.name.startswith(HEAD))


def _pass(
    context: StepContext, rows: FloatArray, batch: FloatArray, kv_len: FloatArray
) -> tuple[Operator, ...]:
    column = np.ones_like(batch)
    tokens = StepTokens(batch=rows, q_len=column, kv_len=kv_len, logits_rows=batch)
    return _local_draft(context, Phase.DECODE, tokens)


def _local_draft(context: StepContext, phase: Phase, tokens: StepTokens) -> tuple[Operator, ...]:
    divided = replace(tokens, head_ranks=context.plan.tp)
    whole = context.network.draft_operators(context.formats, phase, divided)
    return run_locally(whole, context)


def _renamed(operator: Operator, prefix: str, times: float) -> Operator:
    return with_fields(operator, name=f"{prefix}{operator.name}", count=operator.count * times)
