"""Steps of attention-data-parallel ranks: experts compute the tokens of all, and all wait."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from perfatlas.engines import resolve_engine
from perfatlas.quantities import InvalidSpecError
from perfatlas.serving.config import Control, Replicas, SchedulerLimits
from perfatlas.serving.prices import StepPrices
from perfatlas.serving.run.simulate import run
from tests.serving.price_support import context, table
from tests.serving.serving_support import flat_prices, requests_of

LIMITS = SchedulerLimits(8, 64, 4, 100)
MOE: dict[str, object] = {"model": "Qwen/Qwen3-30B-A3B", "attention_dp": 4, "ep": 4}
ALONE: dict[str, object] = {"attention_dp": 1, "tp": 4, "ep": 4}


def shared_prices(padded: int = 0) -> StepPrices:
    """Prices of 100 + 3 ps per token, of which experts take 40 + 2; of 10 + 4 per decode, 6 + 1."""
    prices = flat_prices(0, 100, tokens=64, per_token=3)
    batch_B = np.arange(prices.decode_linear_B.size)
    return prices._replace(
        mixed_experts_T=40 + 2 * np.arange(65),
        decode_linear_B=10 + 4 * batch_B,
        decode_experts_B=6 + batch_B,
        padded_decode=padded,
        padded_mixed=padded,
    )


def finished(rows: list[tuple[int, int, int]], prices: StepPrices, ranks: int) -> list[int]:
    outcome = run(requests_of(rows), prices, LIMITS, Replicas(ranks=ranks))
    single = run(
        requests_of(rows), prices, LIMITS, Replicas(ranks=ranks), control=Control(coalesce=False)
    )
    assert outcome.finished_N.tolist() == single.finished_N.tolist()
    return [int(end) for end in outcome.finished_N]


def test_a_prompt_beside_idle_ranks_by_hand() -> None:
    # 8 tokens: 124 ps, of which experts take 56; of the 8 + 3 tokens of 4 ranks, 2.75 of each:
    # 40 + 2 x 2.75 rounded down. Then a decode: 14 ps, with 1 token on each rank as priced.
    assert finished([(0, 8, 2)], shared_prices(), 4) == [124 - 56 + 45 + 14]
    assert finished([(0, 8, 2)], shared_prices(padded=8), 4) == [124 + 14]


def test_decodes_of_other_ranks_wait_for_a_prompt() -> None:
    # the first request decodes in the step of the second one's prompt, on another rank
    first, second = finished([(0, 8, 9), (150, 32, 1)], shared_prices(), 2)
    alone = finished([(0, 8, 9)], shared_prices(), 2)[0]
    prompt = 100 + 3 * 32 - (40 + 2 * 32) + (40 + 33)
    assert first == alone - 14 + prompt
    assert second <= first


@pytest.mark.parametrize("ranks", [2, 5])
def test_equal_ranks_take_the_time_of_one(ranks: int) -> None:
    rows = [(0, 13, 7), (50, 30, 20), (400, 5, 3)]
    each = [row for row in rows for _ in range(ranks)]
    for padded in (0, 8, 64):
        prices = shared_prices(padded)
        assert finished(each, prices, ranks)[::ranks] == finished(rows, prices, 1)


def test_more_imbalance_never_speeds_up() -> None:
    ends = [finished([(0, 32 + k, 4), (0, 32 - k, 4)], shared_prices(), 2)[0] for k in range(32)]
    assert all(later >= end for end, later in pairwise(ends))
    padded = [finished([(0, 32 + k, 4), (0, 32 - k, 4)], shared_prices(64), 2)[0] for k in (0, 31)]
    assert padded[0] == ends[0]
    assert padded[1] > ends[31] > ends[0]


def test_experts_must_be_a_part_of_the_linear_layers() -> None:
    prices = shared_prices()
    wrong = prices._replace(mixed_experts_T=prices.mixed_linear_T + 1)
    with pytest.raises(InvalidSpecError, match=r"mixed_experts_T\[0\] is 101"):
        finished([(0, 8, 2)], wrong, 2)


@pytest.mark.parametrize(
    ("engine", "decode", "mixed"),
    [
        ("vllm@0.11", np.inf, np.inf),
        ("vllm@0.14", np.inf, np.inf),
        ("vllm@0.24", 512, 512),
        ("sglang@0.5.9", 512, 0),
        ("trtllm@1.3", 2048, 0),
        ("ideal", 0, 0),
    ],
)
def test_steps_that_pad_ranks_to_the_busiest(engine: str, decode: float, mixed: float) -> None:
    assert resolve_engine(engine).scheduler.padded_tokens == (decode, mixed)


def test_experts_are_priced_apart_only_where_ranks_share_them() -> None:
    sharing, alone = (table(context(**{**MOE, **changes})).prices for changes in ({}, ALONE))
    assert (sharing.mixed_experts_T[1:] > 0).all()
    assert (sharing.mixed_experts_T <= sharing.mixed_linear_T).all()
    assert (sharing.decode_experts_B[1:] > 0).all()
    assert not alone.mixed_experts_T.any()
    assert not alone.decode_experts_B.any()


@pytest.mark.parametrize(("iters", "together"), [(0, False), (3, False), (60, True)])
@pytest.mark.parametrize("coalesce", [True, False])
def test_prompts_wait_for_those_of_other_ranks(
    iters: int, *, together: bool, coalesce: bool
) -> None:
    # two requests decode on two ranks; the prompts after them come 100 ps apart
    rows = [(0, 8, 90), (0, 8, 90), (600, 16, 4), (700, 16, 4)]
    limits = LIMITS._replace(rules="trtllm_guaranteed_no_evict", rank_balance_iters=iters)
    outcome = run(
        requests_of(rows),
        shared_prices(),
        limits,
        Replicas(ranks=2),
        control=Control(coalesce=coalesce),
    )
    *_, third, fourth = (int(time) for time in outcome.scheduled_N)
    assert (third == fourth) is together
    if together:
        assert third >= 700
    elif iters == 0:
        assert third < 600 + 2 * 18  # the next step
    assert (outcome.finished_N > 0).all()


def test_only_tensorrt_llm_holds_prompts_for_other_ranks() -> None:
    assert resolve_engine("trtllm").scheduler.rank_balance_iters == 60
    assert not any(resolve_engine(name).scheduler.rank_balance_iters for name in ("vllm", "sglang"))
