from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from perfatlas.operators import FloatArray
from perfatlas.pricing import PricedOperators, columns_of
from perfatlas.quantities import InvalidSpecError
from perfatlas.serving.prices import PriceTable, StepLoads, TableLimits, price_table, step_s
from perfatlas.serving.prices.parts import step_parts
from perfatlas.serving.requests import TICKS_PER_SECOND, whole_ticks
from perfatlas.step import StepContext, decode_step
from tests.serving import price_support as support

LLAMA_70B = "meta-llama/Llama-3.1-70B-Instruct"
V3, V32 = "deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V3.2"
CASES: dict[str, dict[str, object]] = {
    "dense on a workstation card": {"system": "rtx_pro_6000_server"},
    "dense": {},
    "experts over two ranks": {
        "model": "Qwen/Qwen3-30B-A3B",
        "system": "rtx_pro_6000_server",
        "attention_dp": 2,
        "ep": 2,
    },
    "prompts apart": {"model": LLAMA_70B, "tp": 4, "format": "fp8", "engine": "sglang"},
    "few graphs": {"model": LLAMA_70B, "tp": 4, "format": "fp8", "engine": "trtllm"},
    "latent attention": {"model": V3, "tp": 8},
    "latent attention, experts over eight ranks": {
        "model": V3,
        "engine": "sglang",
        "attention_dp": 8,
        "ep": 8,
    },
    "sparse attention": {"model": V32, "engine": "sglang", "tp": 8},
    "gated delta net": {"model": "Qwen/Qwen3-Next-80B-A3B-Instruct", "tp": 2},
    "windows": {"model": "openai/gpt-oss-120b"},
    "context parallel": {"cp": 2},
    "ideal": {"model": "Qwen/Qwen3-32B", "system": "b200_sxm", "engine": "ideal", "tp": 2},
    "bound": {"tier": "bound"},
    "a draft": {"speculative_depth": 1, "speculative_acceptance": 0.7},
    "drafts of latent attention": {
        "model": V3,
        "tp": 8,
        "speculative_depth": 3,
        "speculative_acceptance": 0.7,
    },
}

# whose parts are those of other cases
SIMPLER = (
    "dense on a workstation card",
    "experts over two ranks",
    "few graphs",
    "latent attention",
)
NAMES = [pytest.param(name, marks=[pytest.mark.study] * (name in SIMPLER)) for name in CASES]


@cache
def case(name: str) -> tuple[StepContext, PriceTable]:
    one = support.context(**CASES[name])
    return one, support.table(one)


def misses(predicted_s: FloatArray, direct_s: FloatArray) -> FloatArray:
    miss_R: FloatArray = np.abs(predicted_s / direct_s - 1.0)
    return miss_R


@pytest.mark.parametrize("name", NAMES)
def test_decode_steps_are_those_of_the_closed_form(name: str) -> None:
    one, table = case(name)
    steps = support.random_steps(400, drafts=one.drafts)
    read_s = step_s(table.prices, steps.decode_loads(1 + one.drafts))
    miss = misses(read_s, support.direct_decode_s(one, steps))
    assert np.quantile(miss, 0.99) < 0.01
    assert miss.max() < 0.04
    assert miss.mean() < 0.001


@pytest.mark.parametrize("name", NAMES)
def test_steps_with_a_chunk_are_those_of_the_closed_form(name: str) -> None:
    one, table = case(name)
    steps = support.random_steps(400, drafts=one.drafts)
    read_s = step_s(table.prices, steps.mixed_loads(1 + one.drafts))
    direct_s = support.direct_mixed_s(one, steps)
    miss = misses(read_s, direct_s)
    assert np.quantile(miss, 0.99) < 0.01
    assert miss.max() < 0.04


@pytest.mark.parametrize("name", NAMES)
def test_chunks_that_share_a_step_share_the_device(name: str) -> None:
    one, table = case(name)
    steps = support.random_steps(400, most_chunks=32, drafts=one.drafts)
    direct_s = support.direct_mixed_s(one, steps)
    miss = misses(step_s(table.prices, steps.mixed_loads(1 + one.drafts)), direct_s)
    assert np.median(miss) < 0.02
    assert miss.mean() < 0.03  # 0.36 were each alone on the device


@pytest.mark.parametrize("name", NAMES)
def test_the_linear_part_is_that_of_every_number_of_tokens(name: str) -> None:
    one, table = case(name)
    tokens_T = np.arange(1.0, support.LIMITS.max_num_batched_tokens + 1.0)
    parts, shortest = step_parts(one), np.ones(1)
    direct_s = parts.mixed(tokens_T).whole_NR[0]
    start = whole_ticks(parts.chunk(shortest, shortest, 0.0 * shortest)[0])
    ticks_T = table.prices.mixed_linear_T[1:] - start
    miss = misses(ticks_T / TICKS_PER_SECOND, direct_s)
    assert np.quantile(miss, 0.99) < 0.007
    assert miss.max() < 0.028


def test_a_decode_step_by_hand() -> None:
    # two sequences of 1024 keys: weights, 2 x 1023 cached tokens, 65 norms, 2 embedding rows
    linear = 32 * ((4096 + 2 * 1024) * 4096 + 4096 * 4096 + 3 * 4096 * 14336)
    row = 32 * 2 * 8 * 128 * 2
    cold = (linear + 128256 * 4096) * 2 + 2 * 1023 * row + 65 * 4096 * 2 + 2 * 4096 * 2
    prices = support.table(support.context(engine="ideal", tier="bound")).prices
    two = np.full(1, 2)
    loads = StepLoads(two, 1024 * two, two, support.NONE, support.NONE, support.NONE)
    assert step_s(prices, loads)[0] == pytest.approx(cold / 4.8e12, rel=3e-4)  # and norms in L2
    # a key more of each of them: 2 rows of the cache
    slope = prices.decode_slope_BK[2, -1] / TICKS_PER_SECOND
    assert slope == pytest.approx(row / 4.8e12, rel=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_decode_attention_is_continuous_and_linear_parts_cost(name: str) -> None:
    prices = case(name)[1].prices
    batch_B = np.arange(prices.decode_base_BK.shape[0])
    width_BK = batch_B[:, None] * np.diff(prices.context_K)
    end_BK = prices.decode_base_BK[:, :-1] + prices.decode_slope_BK[:, :-1] * width_BK
    # a slope is rounded to a picosecond per key
    assert np.all(np.abs(end_BK - prices.decode_base_BK[:, 1:]) <= width_BK / 2 + 1)
    assert np.all(prices.decode_base_BK[0] == 0)
    assert np.all(prices.decode_base_BK[1:, 2:] > 0)
    assert np.all(prices.decode_base_BK >= 0)
    for table in (prices.decode_linear_B, prices.mixed_linear_T[1:], prices.head_B):
        assert np.all(table[1:] > 0)
    assert prices.decode_linear_B[0] == prices.head_B[0] == 0
    assert np.all(prices.prefill_added_QP >= 0)
    assert np.all(prices.prefill_added_QP[0] == 0)
    for borders in (prices.context_K, prices.queries_Q, prices.before_P):
        assert borders[0] == 0
        assert np.all(np.diff(borders) > 0)


def test_tables_of_the_bound_rise() -> None:
    # direct pricing at the bound rises with every size, so the tables do
    prices = case("bound")[1].prices
    for table in (prices.mixed_linear_T, prices.head_B):
        assert np.all(np.diff(table) >= 0)
    assert np.all(np.diff(prices.decode_base_BK, axis=0) >= 0)
    assert np.all(np.diff(prices.decode_base_BK, axis=1)[1:, 1:] > 0)
    assert np.all(prices.decode_slope_BK[1:, 1:] > 0)
    alone_QP = (prices.prefill_added_QP + prices.prefill_last_QP)[1:]
    assert np.all(np.diff(alone_QP, axis=0) >= -2)  # two parts, each rounded
    assert np.all(np.diff(alone_QP, axis=1) >= -2)


def test_corners_that_no_chunk_reaches_are_not_priced() -> None:
    # prompts of up to 8,192 tokens in one chunk each
    whole = TableLimits(max_num_seqs=4, max_num_batched_tokens=8192, longest_context=8192)
    prices = price_table(support.context(), whole).prices
    begin_Q, begin_P = (np.append(0, sizes[:-1]) for sizes in (prices.queries_Q, prices.before_P))
    read_QP = begin_Q[:, None] + begin_P <= 8192
    read_QP[0] = False  # no tokens
    assert (prices.prefill_added_QP[read_QP] > 0).all()
    assert (~read_QP[1:]).any()
    assert not prices.prefill_added_QP[~read_QP].any()


def test_many_steps_at_once_are_the_steps_one_by_one() -> None:
    prices = case("dense")[1].prices
    n, cell = 17, 3
    first = n * int(prices.context_K[cell])
    number = (int(prices.context_K[cell + 1]) - int(prices.context_K[cell])) // 2
    keys = first + n * np.arange(number)
    batch = np.full(number, n)
    loads = StepLoads(batch, keys, batch, support.NONE, support.NONE, support.NONE)
    one_by_one = np.rint(step_s(prices, loads) * TICKS_PER_SECOND).astype(np.int64).sum()
    fixed = prices.decode_linear_B[n] + prices.head_B[n] + prices.decode_base_BK[n, cell]
    slope = int(prices.decode_slope_BK[n, cell])
    at_once = number * int(fixed) + slope * (n * number * (number - 1) // 2)
    assert one_by_one == at_once


def test_host_work_shows_where_it_is_longer() -> None:
    one = support.context(system="h200_sxm{device.memory.bandwidth=1 PB/s}", tier="bound")
    host, prices = one.profile.host, support.table(one).prices
    none = np.zeros(1, np.int64)
    loads = StepLoads(none + 3, none + 3, none + 4, none, none + 1, none)
    work_s = host.step_s + 4 * host.per_sequence_s  # tier bound counts no launches
    hidden_s = step_s(prices, loads)[0]
    assert hidden_s > work_s
    added = prices._replace(host_overlapped=False)
    assert step_s(added, loads)[0] == pytest.approx(hidden_s + work_s)
    longer = prices._replace(host_step=prices.host_step + 10**10)  # 10 ms
    assert step_s(longer, loads)[0] == pytest.approx(work_s + 0.01)
    assert case("ideal")[1].prices.host_step == 0


def test_a_table_has_its_evidence() -> None:
    _, table = case("experts over two ranks")
    names = {match.calibration.operator for match in table.decodes.cost.prices.matches}
    assert {"gemm", "decode_attention", "moe"} <= names
    assert table.decodes.cost.bound_share()[0] < 0.01
    bound = case("bound")[1]
    assert bound.prefills.cost.prices.matches == ()
    assert bound.prefills.cost.bound_share()[0] == pytest.approx(1.0, abs=0.1)


def test_prices_of_prompts_are_those_of_a_table_for_other_numbers_of_sequences() -> None:
    one, large = case("dense")
    few = replace(support.LIMITS, max_num_seqs=24)
    reused, alone = price_table(one, few, reuse=large), price_table(one, few)
    assert reused.tables["time_s_CO"].prefill_added_QP is large.tables["time_s_CO"].prefill_added_QP
    for quantity, tables in alone.tables.items():
        for ours, theirs in zip(reused.tables[quantity], tables, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_small_tables() -> None:
    one = support.context(tier="bound")
    least = TableLimits(max_num_seqs=1, max_num_batched_tokens=1, longest_context=1)
    prices = price_table(one, least).prices
    none = np.zeros(1, np.int64)
    loads = StepLoads(none + 1, none + 1, none + 1, support.NONE, support.NONE, support.NONE)
    large = case("bound")[1].prices
    assert step_s(prices, loads)[0] == pytest.approx(step_s(large, loads)[0], rel=1e-6)


def test_a_pipeline_adds_its_transfers_and_divides_the_energy_of_a_replica() -> None:
    plain, staged = (support.table(support.context(pp=pp)) for pp in (1, 2))
    assert (staged.prices.mixed_linear_T[1:] > plain.prices.mixed_linear_T[1:]).all()
    assert (staged.prices.decode_base_BK == plain.prices.decode_base_BK).all()
    assert staged.energy is not None
    assert plain.energy is not None
    assert staged.energy.rank_gpus == plain.energy.rank_gpus  # of twice as many GPUs


def test_several_candidates_are_refused() -> None:
    with pytest.raises(InvalidSpecError, match="2 candidates"):
        support.table(support.repeated(support.context(), 2))


def test_clocks_are_kept() -> None:
    one = support.context(model="Qwen/Qwen3-8B")
    slow = replace(one, placement=replace(one.placement, clock_ratio_C=np.full(1, 0.5)))
    fast_T, slow_T = (support.table(each).prices.mixed_linear_T for each in (one, slow))
    assert slow_T[8000] > 1.5 * fast_T[8000]


@pytest.mark.parametrize("name", ["bound", "dense"])
def test_tables_hold_every_quantity_that_is_asked_for(name: str) -> None:
    one, table = case(name)
    assert tuple(table.tables) == ("time_s_CO", "chip_energy_j_CO", "memory_energy_j_CO")
    work = ("flop_CO", "memory_bytes_CO")
    tables = price_table(one, support.LIMITS, ("time_s_CO", *work)).tables
    # a further quantity leaves the tables of time as they are
    for alone, among in zip(table.tables["time_s_CO"], tables["time_s_CO"], strict=True):
        np.testing.assert_array_equal(alone, among)
    # 40 sequences decode at a mean of 300 keys: the work of that step, priced directly
    none = np.zeros(0, np.int64)
    decodes = StepLoads(
        decodes_R=np.array([40]),
        keys_R=np.array([40 * 300]),
        sampled_R=np.array([40]),
        step_M=none,
        queries_M=none,
        before_M=none,
    )
    direct = decode_step(one, np.full(1, 40.0), np.full(1, 300.0))
    for quantity in work:
        ticks = step_s(tables[quantity], decodes)[0] * TICKS_PER_SECOND
        assert ticks == pytest.approx(direct.total(quantity)[0], rel=0.02), quantity


def test_tables_of_energy_are_those_of_directly_priced_steps() -> None:
    one, table = case("dense")
    energy, power = table.energy, one.placement.power()
    assert energy is not None
    assert energy.on_power == pytest.approx(1e-3 * power.on_w[0])
    assert energy.dynamic_power == pytest.approx(1e-3 * (power.cap_w - power.on_w)[0])
    # 40 sequences decode at a mean of 300 keys, well below the limit
    direct = decode_step(one, np.full(1, 40.0), np.full(1, 300.0))
    k = int(np.searchsorted(table.prices.context_K, 300, side="right")) - 1
    spent_nj = (
        energy.tables.decode_linear_B[40]
        + energy.tables.head_B[40]
        + energy.tables.decode_base_BK[40, k]
        + energy.tables.decode_slope_BK[40, k] * 40 * (300 - table.prices.context_K[k])
    )
    assert spent_nj * 1e-9 == pytest.approx(direct.energy_j()[0], rel=0.005)
    assert direct.clock.energy_share[0] == 1.0


def test_a_device_without_energies_has_no_tables_of_them() -> None:
    table = support.table(
        support.context(system="h200_sxm{device.architecture=other}", tier="bound")
    )
    assert table.energy is None
    assert tuple(table.tables) == ("time_s_CO",)


def test_what_the_record_tabulates_starts_with_time_at_the_clock_of_the_simulators() -> None:
    declared = columns_of(PricedOperators)
    assert next(name for name, column in declared.items() if column.tabulated) == "time_s_CO"
    assert declared["time_s_CO"].ticks_per_unit == TICKS_PER_SECOND
