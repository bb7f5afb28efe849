"""Operators on a second stream: what they add, and steps of two batches against two streams."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfatlas.engines import resolve_engine, with_launch_settings
from perfatlas.networks import StepTokens
from perfatlas.operators import Collective, Phase
from perfatlas.serving.prices.parts import step_parts
from perfatlas.step import (
    StepContext,
    StepCost,
    decode_step,
    gather_steps,
    prefill_step,
    prefill_work,
)
from perfatlas.step.composition import compose_streams, exposed_share
from perfatlas.step.contention import deepep, kernel_times_s
from perfatlas.step.cost import PricedStep
from perfatlas.step.overlap import Streams, exposed_communication
from perfatlas.step.two_batches import part_of
from tests.laws.support import question_of, table_of

DEEPSEEK = "deepseek-ai/DeepSeek-V3"
ONE = np.ones(1)


def asked(**fields: Any) -> StepContext:  # noqa: ANN401 - names of the vocabulary
    """Return DeepSeek-V3 over 16 H200 with DeepEP."""
    given = {"engine": "sglang", "expert_exchange": "deepep", **fields}
    question = question_of(
        model=DEEPSEEK, system="h200_sxm", attention_dp=16, ep=16, batch=16, **given
    )
    return question.context()


def prompts(context: StepContext, tokens: float = 8192.0) -> StepCost:
    return prefill_step(
        context, StepTokens(batch=ONE * tokens / 1024, q_len=ONE * 1024, kv_len=ONE * 1024)
    )


def busy(cost: StepCost, label: str, *, hidden: bool = False) -> float:
    """Return the time of an exchange over a step, exposed or hidden."""
    times_CO = cost.hidden_s_CO if hidden else cost.prices.time_s_CO
    return sum(
        float(cost.count_CO[0, i] * times_CO[0, i])
        for i, op in enumerate(cost.operators)
        if op.name == f"experts_{label}"
    )


def exchange_s(cost: StepCost, *, hidden: bool = False) -> float:
    return sum(busy(cost, label, hidden=hidden) for label in ("dispatch", "combine"))


def priced(times: dict[str, float], tokens: float) -> tuple[PricedStep, np.ndarray[Any, Any]]:
    """Return a decode step on one H200 whose operators of these names take these times."""
    context = question_of(model=DEEPSEEK, system="h200_sxm", tp=8, batch=4, tier="bound").context()
    from perfatlas.step import decode_work

    work = decode_work(context, ONE * tokens, ONE * 512.0)
    (step,) = gather_steps([work], context).full()
    busy_CO = np.zeros_like(step.count_CO)
    for name, time_s in times.items():
        busy_CO[0, [op.name for op in step.operators].index(name)] = time_s
    return step, busy_CO


@pytest.mark.parametrize(
    ("times", "tokens", "share"),
    [
        ((10.0, 3.0, 2.0), 64.0, 0.0),  # 5 hides behind 10
        ((4.0, 3.0, 5.0), 64.0, 0.5),  # 8 against 4: half of it shows
        ((10.0, 3.0, 2.0), 257.0, 1.0),  # vLLM overlaps up to 256 tokens
    ],
)
def test_shared_experts_cost_what_exceeds_the_routed_ones(
    times: tuple[float, float, float], tokens: float, share: float
) -> None:
    names = ("experts", "shared_expert_gate_up_projection", "shared_expert_down_projection")
    step, busy_CO = priced(dict(zip(names, times, strict=True)), tokens)
    found = exposed_share(step, busy_CO, resolve_engine("vllm"))
    shared = [op.name.startswith("shared_expert_") for op in step.operators]
    assert np.unique(found[0, shared]).tolist() == [share]
    assert found[0, ~np.array(shared)].min() == 1.0


def test_an_engine_without_overlaps_exposes_everything() -> None:
    step, busy_CO = priced({"experts": 1.0}, 64.0)
    serial = replace(resolve_engine("vllm"), overlaps=())
    assert exposed_share(step, busy_CO, serial).min() == 1.0


def test_streams_side_by_side_share_memory_bandwidth_and_arithmetic() -> None:
    # both read at full bandwidth alone: together they take as long as one after the other
    context = asked(expert_exchange="all_gather_reduce_scatter")
    work = prefill_work(context, StepTokens(batch=ONE, q_len=ONE * 128, kv_len=ONE * 128))
    (step,) = gather_steps([work], context).full()
    prices = replace(step.prices, time_s_CO=step.prices.bound_s_CO)
    step = replace(step, prices=prices)
    busy_CO = step.count_CO * prices.time_s_CO
    shared = [i for i, op in enumerate(step.operators) if op.name.startswith("shared_expert_")]
    share_CO = exposed_share(step, busy_CO, context.profile)
    assert share_CO[0, shared].min() > 0.8
    assert exposed_share(replace(step, contends=False), busy_CO, context.profile)[
        0, shared
    ].max() == pytest.approx(0.0)


def test_two_batches_equal_the_streams_of_their_windows() -> None:
    # 58 layers of DeepSeek-V3, written out as windows and transfers of both batches
    context = asked(batch_overlap="two_batch")
    tokens = StepTokens(batch=8 * ONE, q_len=1024 * ONE, kv_len=1024 * ONE)
    (step,) = gather_steps([prefill_work(context, tokens)], context).full()
    step = replace(step, contends=False)
    cost = compose_streams(step, context.profile)
    seconds = dict.fromkeys(("attention", "dispatch", "experts", "shared", "combine"), 0.0)
    for i, op in enumerate(step.operators):
        time_s = float(step.count_CO[0, i] * step.prices.time_s_CO[0, i]) / (2 * 58)
        if float(np.max(op.count)) in (0.0, 116.0):
            kind = op.name.removeprefix("experts_")
            kind = "shared" if kind.startswith("shared_expert_") else kind
            seconds[kind if kind in seconds else "attention"] += time_s
    windows, transfers, ready, needed = [], [], [], []
    for layer in range(58):
        first = 6 * layer
        shared = seconds["shared"] if layer else 0.0
        windows += [seconds["attention"], shared, seconds["attention"]]
        windows += [seconds["experts"], seconds["experts"], seconds["shared"]]
        transfers += [seconds["dispatch"]] * 2 + [seconds["combine"]] * 2
        ready += [first, first + 2, first + 3, first + 4]
        needed += [first + 3, first + 4, min(first + 6, 999), min(first + 8, 999)]
    needed = [one if one < 6 * 58 else 999 for one in needed]
    windows.append(seconds["shared"])
    streams = Streams(
        window_s_CL=np.array([windows]),
        transfer_s_CK=np.array([transfers]),
        ready_after_CK=np.array([ready]),
        needed_by_CK=np.array([needed]),
        compute_rate_CL=np.ones((1, len(windows))),
        transfer_rate_C=ONE,
    )
    assert exchange_s(cost) == pytest.approx(exposed_communication(streams).exposed_s_C[0])


def test_overlap_hides_time_and_no_work() -> None:
    # FLOP as in one batch, weights read twice; exposed and hidden time add up to the exchange alone
    one, two = (prompts(asked(batch_overlap=name)) for name in ("none", "two_batch"))
    assert two.total("flop_CO") == pytest.approx(one.total("flop_CO"))
    assert two.total("link_bytes_CO") == pytest.approx(one.total("link_bytes_CO"))
    assert two.total("memory_bytes_CO") > one.total("memory_bytes_CO")
    assert exchange_s(one, hidden=True) == 0.0
    assert exchange_s(two, hidden=True) > 0.9 * exchange_s(two)
    whole = exchange_s(two) + exchange_s(two, hidden=True)
    assert whole >= exchange_s(one)
    assert two.total_s() < one.total_s()


def test_kernels_of_the_exchange_take_sms() -> None:
    # with 20 of 132 SMs taken in prefill, computation beside the exchange slows
    context = asked(batch_overlap="two_batch")
    hidden, shown = (exchange_s(prompts(context), hidden=hides) for hides in (True, False))
    assert shown > 0.1 * hidden


def test_send_and_receive_of_the_low_latency_mode_stay_exposed() -> None:
    # 128 sequences of 16 ranks, in batches of 64: kernels of 18.1 us + s/byte x 64 x 6.523 rows
    cost = decode_step(asked(batch_overlap="two_batch"), 128 * ONE, 2048 * ONE)
    kernels = deepep()["low_latency"]["kernels"]
    rows = 64 * kernels["measured"]["copies"]
    expected_s = 116 * (
        2 * kernels["fixed_s"]
        + rows * 7168 * (kernels["dispatch_s_per_byte"] + 2 * kernels["combine_s_per_byte"])
    )
    assert exchange_s(cost) == pytest.approx(expected_s, rel=0.15)
    assert exchange_s(cost) >= expected_s


def test_kernel_times_fit_the_measured_ones() -> None:
    # 19.1 to 35.7 us of a dispatch, 40.8 us of a combine
    kernels = deepep()["low_latency"]["kernels"]
    measured = kernels["measured"]
    sent, received = (np.array(measured[f"dispatch_{name}_us"]) for name in ("send", "receive"))
    found = {}
    for label, tokens in (("dispatch", "dispatch_tokens"), ("combine", "combine_tokens")):
        rows = np.array(measured[tokens]) * measured["copies"]
        size = rows * measured[f"{label}_row_bytes"]
        operator = Collective(
            name=label,
            phase=Phase.DECODE,
            count=np.ones_like(size),
            op=label,
            bytes=size,
            ranks=16 * np.ones_like(size),
            stride=np.ones_like(size),
        )
        found[label] = 1e6 * np.array(kernel_times_s(operator, label))
    assert found["dispatch"].sum(axis=0) == pytest.approx(sent + received, rel=0.1)
    assert found["dispatch"][0] == pytest.approx(sent, rel=0.15)
    assert found["combine"].sum(axis=0) == pytest.approx(measured["combine_both_us"], rel=0.01)


def test_small_steps_are_not_split() -> None:
    # vLLM splits decodes above 32 tokens and prompts above 512
    context = asked(engine="vllm", batch_overlap="two_batch")
    steps = [decode_step(context, size * ONE, 512 * ONE) for size in (32.0, 33.0)]
    assert [exchange_s(cost, hidden=True) > 0.0 for cost in steps] == [False, True]
    prefills = [
        prefill_step(context, StepTokens(batch=ONE, q_len=size * ONE, kv_len=size * ONE))
        for size in (512.0, 513.0)
    ]
    assert [exchange_s(cost, hidden=True) > 0.0 for cost in prefills] == [False, True]


def test_the_shared_expert_hides_the_dispatch_of_its_own_batch() -> None:
    for system, hides in (("h200_sxm", "dispatch"), ("b200_sxm", "combine")):
        fields = {"model": DEEPSEEK, "system": system, "attention_dp": 16, "ep": 16, "batch": 16}
        launch = {"engine": "sglang", "expert_exchange": "deepep", "batch_overlap": "single_batch"}
        cost = decode_step(question_of(**fields, **launch).context(), 64 * ONE, 2048 * ONE)
        found = {label: busy(cost, label, hidden=True) for label in ("dispatch", "combine")}
        assert [label for label, hidden_s in found.items() if hidden_s > 0.0] == [hides]


@pytest.mark.parametrize(("batch", "queries"), [(6.0, 100.0), (1.0, 4096.0)])
def test_two_batches_have_the_pairs_of_one(batch: float, queries: float) -> None:
    # queries x (keys - (queries - 1)/2) per sequence; halves differ by a quarter of a query
    whole = StepTokens(batch=batch * ONE, q_len=queries * ONE, kv_len=(queries + 50) * ONE)
    part = part_of(whole, 2 * ONE)
    pairs = [t.batch * t.q_len * (t.kv_len - t.q_len / 2) for t in (whole, part)]
    assert 2 * pairs[1] == pytest.approx(pairs[0])
    assert 2 * part.new_tokens == pytest.approx(whole.new_tokens)


def test_tables_of_the_simulator_are_the_step() -> None:
    # the linear part and attention of a step of two batches add up to it
    context = asked(batch_overlap="two_batch")
    parts = step_parts(context, ("time_s_CO",))
    batch, keys = 96 * ONE, 3000 * ONE
    linear, apart = parts.decode(batch)
    found = linear.whole_NR + apart + parts.decode_keyed(batch, keys) + parts.head(batch)
    whole = decode_step(context, batch, keys)
    assert found[0] == pytest.approx(whole.total("time_s_CO"), rel=1e-3)
    mixed = parts.mixed(8192 * ONE).whole_NR
    chunk = mixed + parts.chunk(8 * ONE, 1024 * ONE, 0 * ONE) + parts.head(8 * ONE)
    assert chunk[0] == pytest.approx(prompts(context).total("time_s_CO"), rel=1e-3)


def test_a_refused_overlap_leaves_the_other_rows_of_a_table() -> None:
    rows = [{"batch_overlap": name} for name in ("none", "two_batch")]
    shared = {
        "model": DEEPSEEK,
        "system": "h200_sxm",
        "attention_dp": 16,
        "ep": 16,
        "tier": "bound",
    }
    answered = table_of(rows, **shared)
    assert [bool(error) for error in answered["error"]] == [False, True]


def test_defaults_are_no_overlap() -> None:
    for name in ("vllm", "sglang", "trtllm", "ideal"):
        profile = resolve_engine(name)
        assert profile.batch_overlap.value == "none"
        assert with_launch_settings(profile, None, None) is profile
