"""Exchanges of tokens with skewed routing wait for the rank that most tokens reach."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.networks import StepTokens
from perfatlas.operators import Collective, GroupedGemm, Phase, busiest_rank, with_fields
from perfatlas.parallelism import expert_groups_reached, shard_operators
from perfatlas.verbs.estimate import estimate
from tests.parallelism.examples import BF16, SMALL_MOE, column, plan_of

PLAN = plan_of(attention_dp=4, ep=4)


def exchanged(distribution: str, batch: float = 2.0) -> tuple[dict[str, float], GroupedGemm]:
    """Return the bytes of dispatch and combine, and the experts of one rank."""
    tokens = StepTokens(
        batch=column(batch), q_len=column(128), kv_len=column(128), head_ranks=PLAN.tp
    )
    whole = [
        with_fields(one, distribution=distribution) if isinstance(one, GroupedGemm) else one
        for one in SMALL_MOE.step_operators(BF16, Phase.PREFILL, tokens)
    ]
    found = shard_operators(tuple(whole), PLAN, SMALL_MOE, expert_exchange="all_to_all")
    sizes = {one.op: float(one.bytes[0]) for one in found if isinstance(one, Collective)}
    experts = next(one for one in found if isinstance(one, GroupedGemm))
    return {name: sizes[name] for name in ("dispatch", "combine")}, experts


def test_the_busiest_rank_by_hand() -> None:
    mean, experts = exchanged("uniform")
    # 16 experts on 4 ranks, top 2: a token reaches 1.8 of 4 ranks, 0.45 of them
    assert expert_groups_reached(experts)[0] == pytest.approx(1.8)
    skewed, random = (
        busiest_rank(name, np.array([1024.0]), 16.0, 2.0, np.array([4.0]))[0]
        for name in ("power_law_1.2", "uniform")
    )
    share = (1.0 - 0.55 ** (skewed / random)) / 0.45
    assert 1.5 < share < 1 / 0.45
    found, _ = exchanged("power_law_1.2")
    for name, size in mean.items():
        assert found[name] == pytest.approx(share * size)
    assert exchanged("balanced")[0] == mean


@given(exponent=st.floats(0.1, 2.0), batch=st.integers(1, 64))
def test_no_rank_receives_more_than_all_tokens(exponent: float, batch: int) -> None:
    mean, _ = exchanged("uniform", batch)
    found, _ = exchanged(f"power_law_{exponent:.2f}", batch)
    for name, size in mean.items():
        assert size * (1 - 1e-12) <= found[name] <= size / 0.45 * (1 + 1e-12)


def test_wide_expert_parallelism_is_slower_with_skewed_experts() -> None:
    """A load balancer gained 2.54 times in decode, 1.49 in prefill (lmsys.org, 2025-05-05)."""
    times = [
        estimate(
            model="deepseek-ai/DeepSeek-V3", system="h100_sxm", engine="sglang", mode="static",
            isl=2000, osl=20, attention_dp=64, ep=64, batch=16384, expert_exchange="deepep",
            batch_overlap="two_batch", expert_distribution=name,
        ).results["tpot_s"]
        for name in ("balanced", "uniform", "power_law_0.6", "power_law_1.2")
    ]  # fmt: skip
    assert np.all(np.diff(times) > 0.0)
    assert times[-1] / times[0] > 1.9
