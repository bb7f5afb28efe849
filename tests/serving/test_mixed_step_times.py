"""Mixed steps of the closed form take the time of the same steps of simulations."""

from __future__ import annotations

import numpy as np
import pytest

from perfatlas.inference.evaluation import alone_shares
from perfatlas.inference.mixed_steps import mixed_step
from perfatlas.inference.running_load import running_load
from perfatlas.scenario.fields import Scenario
from perfatlas.scenario.resolution import resolve_scenarios
from perfatlas.serving.prices import StepLoads, TableLimits, price_table
from perfatlas.serving.prices.lookup import step_s
from perfatlas.step import candidate_memory, decode_work, step_costs


@pytest.mark.parametrize("tier", ["bound", "physics"])
@pytest.mark.parametrize("model", ["Qwen/Qwen3-0.6B", "meta-llama/Llama-3.1-8B"])
def test_a_prompt_beside_decodes(model: str, tier: str) -> None:
    fields = {"model": model, "system": "h100_sxm", "engine": "vllm", "mode": "aggregated"}
    sizes = {"isl": 64, "osl": 256, "concurrency": 32}  # 32 sequences fill a captured graph
    scenario = Scenario.read({**fields, **sizes, "tier": tier, "method": "formula"})
    question, problems = resolve_scenarios([scenario])
    assert question is not None, problems
    context, load = question.context(), running_load(question, candidate_memory(question))
    steps = [decode_work(context, *load.decoding()), *load.prefills(context)]
    decode, chunk = step_costs(steps, context)[:2]
    found = mixed_step(load, chunk, decode, alone_shares(decode, chunk))
    limits = TableLimits(max_num_seqs=32, max_num_batched_tokens=128, longest_context=512)
    one = np.ones(1, np.int64)
    # the closed form reads the keys of all 32 sequences, of which one prefills
    loads = StepLoads(
        decodes_R=31 * one,
        keys_R=32 * 192 * one,
        sampled_R=32 * one,
        step_M=0 * one,
        queries_M=64 * one,
        before_M=0 * one,
    )
    simulated_s = step_s(price_table(context, limits).prices, loads)
    assert found.total_s()[0] == pytest.approx(simulated_s[0], rel=0.01)
    assert found.low_s()[0] <= found.total_s()[0] <= found.high_s()[0]
    assert found.least_s()[0] <= found.total_s()[0] * (1.0 + 1e-9)
