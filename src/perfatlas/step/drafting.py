"""What speculative decoding adds to a step: more tokens to verify, and the passes that draft.

A decode step computes 1 + `drafts` tokens of every sequence. Queries of one sequence read its cache
together: they are more query heads to the kernel, as kernels pack the heads of a group. After it
the drafter passes once over the same tokens and once over one token of a sequence for each further
draft. It also passes over every prompt, for its cache.

Source: vllm-project/vllm, vllm/v1/spec_decode/eagle.py, propose(): one pass over all tokens of the
    step, then one of a token per sequence for each further draft; Dao-AILab/flash-attention,
    pack_gqa.
Limits: host work of the drafting passes is not counted, nor what drafts for a prompt that ended.
    Scheduled drafts are all computed; none is cut at the end of an output.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.models import StepTokens, draft_operators
from perfatlas.operators import Attention, KeyScores, KeySelection, LatentAttention, Phase
from perfatlas.step.local import run_locally
from perfatlas.step.tokens import padded_batch

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray, Operator
    from perfatlas.step.context import StepContext

FIRST: Final = "draft_"  # names of the pass over all tokens of a step,
LATER: Final = "draft_again_"  # and of the others
# what a pass over a prompt leaves out: its first draft comes with the next decode step
HEAD: Final = ("final_norm", "lm_head", "sampling")


def verified(operator: Operator, batch: FloatArray, queries: int) -> Operator:
    """Return an operator as it reads the caches of sequences, each with some queries.

    Args:
        operator: Of a decode step with one query of each row.
        batch: Sequences (C,).
        queries: Tokens of each in the step.

    Limits: every query sees all keys of the step, up to `queries` - 1 too many. Where a query
        chooses its keys, each reads its own.
    """
    match operator:
        case Attention():
            return replace(operator, batch=batch, num_heads=operator.num_heads * queries)
        case LatentAttention() if queries > 1 and np.any(operator.selected > 0):
            return replace(operator, batch=batch * queries)
        case LatentAttention() | KeyScores():
            return replace(operator, batch=batch, num_heads=operator.num_heads * queries)
        case KeySelection():
            return replace(operator, batch=batch * queries)
        case _:
            return operator


def drafting_passes(
    context: StepContext, batch: FloatArray, kv_len: FloatArray
) -> tuple[Operator, ...]:
    """Return what one rank runs to draft after a decode step, collectives included.

    Args:
        context: Model, engine, systems and plan; at least one draft.
        batch: Sequences on one attention-DP rank (C,).
        kv_len: Keys per sequence, the new tokens included (C,).
    """
    sizes = context.profile.scheduler.graph_sizes
    tokens = 1 + context.drafts
    first = _pass(context, padded_batch(batch * tokens, sizes), batch, kv_len)
    operators = [_renamed(verified(op, batch, tokens), FIRST, 1.0) for op in first]
    if context.drafts > 1:
        later = _pass(context, padded_batch(batch, sizes), batch, kv_len)
        again = context.drafts - 1.0
        operators += [_renamed(verified(op, batch, 1), LATER, again) for op in later]
    return tuple(operators)


def prompt_pass(context: StepContext, phase: Phase, tokens: StepTokens) -> tuple[Operator, ...]:
    """Return what one rank runs to take the tokens of a step into the cache of the drafter.

    Args:
        context: Model, engine, systems and plan; at least one draft.
        phase: Prefill.
        tokens: The tokens of the step on one attention-DP rank.
    """
    whole = _local_draft(context, phase, tokens)
    return tuple(_renamed(op, FIRST, 1.0) for op in whole if not op.name.startswith(HEAD))


def _pass(
    context: StepContext, rows: FloatArray, batch: FloatArray, kv_len: FloatArray
) -> tuple[Operator, ...]:
    one = np.ones_like(batch)
    tokens = StepTokens(batch=rows, q_len=one, kv_len=kv_len, logits_rows=batch)
    return _local_draft(context, Phase.DECODE, tokens)


def _local_draft(context: StepContext, phase: Phase, tokens: StepTokens) -> tuple[Operator, ...]:
    divided = replace(tokens, head_ranks=context.plan.tp)
    whole = draft_operators(context.architecture, context.formats, phase, divided)
    return run_locally(whole, context)


def _renamed(operator: Operator, prefix: str, times: float) -> Operator:
    return replace(operator, name=f"{prefix}{operator.name}", count=operator.count * times)
