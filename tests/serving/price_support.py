"""Directly priced steps, to compare with price tables."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perfatlas.networks import StepTokens
from perfatlas.operators import FloatArray
from perfatlas.scenario.fields import Scenario
from perfatlas.scenario.resolution import resolve_scenarios
from perfatlas.serving.prices import PriceTable, StepLoads, TableLimits, price_table
from perfatlas.step import StepContext, StepCost, decode_step, prefill_step, take_columns

Counts = NDArray[np.int64]
LIMITS = TableLimits(max_num_seqs=512, max_num_batched_tokens=8192, longest_context=65536)
NONE = np.zeros(0, np.int64)


def context(**fields: object) -> StepContext:
    given = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm", "engine": "vllm"}
    question, problems = resolve_scenarios([Scenario.read({**given, **fields})])
    assert question is not None, problems
    return question.context()


def repeated(one: StepContext, rows: int) -> StepContext:
    index = np.zeros(rows, np.int64)
    return replace(
        one,
        plan=replace(one.plan, **take_columns(one.plan, index)),
        placement=replace(one.placement, index_C=one.placement.index_C[index]),
    )


def table(one: StepContext) -> PriceTable:
    return price_table(one, LIMITS)


@dataclass(frozen=True)
class RandomSteps:
    """Return steps with sizes spread evenly over octaves (R,)."""

    decodes_R: Counts
    context_R: Counts
    chunks_R: Counts
    queries_R: Counts
    before_R: Counts

    def decode_loads(self, tokens: int = 1) -> StepLoads:
        keys_R = self.decodes_R * self.context_R
        return StepLoads(self.decodes_R, keys_R, self.decodes_R * tokens, NONE, NONE, NONE)

    def mixed_loads(self, tokens: int = 1) -> StepLoads:
        return StepLoads(
            decodes_R=self.decodes_R,
            keys_R=self.decodes_R * self.context_R,
            sampled_R=self.decodes_R * tokens + self.chunks_R,
            step_M=np.repeat(np.arange(self.decodes_R.size), self.chunks_R),
            queries_M=np.repeat(self.queries_R, self.chunks_R),
            before_M=np.repeat(self.before_R, self.chunks_R),
        )


def random_steps(rows: int, most_chunks: int = 1, drafts: int = 0) -> RandomSteps:
    generator = np.random.default_rng(5)

    def octaves(least: float, most: float) -> FloatArray:
        sizes_R: FloatArray = np.rint(np.exp(generator.uniform(np.log(least), np.log(most), rows)))
        return sizes_R

    tokens = LIMITS.max_num_batched_tokens - LIMITS.max_num_seqs * (1 + drafts)
    chunks_R = generator.integers(1, most_chunks + 1, rows)
    queries_R = np.maximum(octaves(1, tokens) // chunks_R, 1)
    before_R = octaves(1, LIMITS.longest_context - tokens) * (generator.random(rows) < 0.6)
    return RandomSteps(
        decodes_R=octaves(1, LIMITS.max_num_seqs - most_chunks).astype(np.int64),
        context_R=octaves(16, LIMITS.longest_context).astype(np.int64),
        chunks_R=chunks_R,
        queries_R=queries_R.astype(np.int64),
        before_R=before_R.astype(np.int64),
    )


def _floats(counts_R: Counts) -> FloatArray:
    return counts_R.astype(np.float64)


def busy_s(cost: StepCost) -> FloatArray:
    total_R: FloatArray = (cost.count_CO * cost.prices.time_s_CO).sum(axis=1)
    return total_R


def direct_decode_s(one: StepContext, steps: RandomSteps) -> FloatArray:
    rows = repeated(one, steps.decodes_R.size)
    return decode_step(rows, _floats(steps.decodes_R), _floats(steps.context_R)).total_s()


def direct_mixed_s(one: StepContext, steps: RandomSteps) -> FloatArray:
    """Return a prefill with decode tokens, and the separate operators of the decodes."""
    rows, decodes_R = repeated(one, steps.decodes_R.size), _floats(steps.decodes_R)
    tokens = StepTokens(
        batch=_floats(steps.chunks_R),
        q_len=_floats(steps.queries_R),
        kv_len=_floats(steps.before_R + steps.queries_R),
        decodes=decodes_R * (1 + one.drafts),
    )
    prefill = prefill_step(rows, tokens)
    decode = decode_step(rows, decodes_R, _floats(steps.context_R))
    shared = {op.name for op in prefill.operators if not op.per_sequence}
    alone = [i for i, op in enumerate(decode.operators) if op.name not in shared]
    gpu_s_R = busy_s(prefill) + (decode.count_CO * decode.prices.time_s_CO)[:, alone].sum(axis=1)
    host, layers = one.profile.host, one.network.num_layers
    sequences_R = decodes_R + steps.chunks_R
    host_s_R = host.step_s + sequences_R * host.per_sequence_s + layers * host.per_layer_prefill_s
    total_R: FloatArray = np.maximum(gpu_s_R, host_s_R)
    return total_R if host.overlapped else gpu_s_R + host_s_R
