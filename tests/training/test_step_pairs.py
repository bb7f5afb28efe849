"""Pairs of passes inside a step, the published trace, launches by the host, and dispatchers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.training.profiles import resolve_training_engine
from perfatlas.training.step import scale_error, training_steps
from tests.training.asked import layouts, question
from validation.training import fit_to_trace, trace_comparison
from validation.training.trace import production_run, published_trace

MODEL = "Qwen/Qwen3-30B-A3B"
HYBRID = "nvidia/Nemotron-H-8B-Base-8K"


def test_the_production_run_follows_from_its_trace() -> None:
    """Efficiencies are set by three sums of the trace; span, hidden share and run are predicted."""
    engine = resolve_training_engine(published_trace()["engine"])
    assert fit_to_trace() == {name: getattr(engine, name) for name in fit_to_trace()}
    errors = {row["figure"]: row["error"] for row in trace_comparison()}
    assert abs(errors["span of the pair [ms]"]) < 0.10
    assert abs(errors["communication that is hidden"]) < 0.10
    assert abs(errors["GPU-hours per trillion tokens"]) < 0.15


def test_pairs_hide_transfers_and_no_more_than_them() -> None:
    run = production_run(resolve_training_engine("hai_llm"))
    paired = training_steps(run)
    serial = training_steps(replace(run, schedule="1f1b"))
    hidden_s = serial.waterfall["exposed_ep"] - paired.waterfall["exposed_ep"]
    assert 0.5 * serial.waterfall["exposed_ep"] < hidden_s
    assert paired.waterfall["exposed_ep"] > 0.0
    assert sum(paired.waterfall.values()) == pytest.approx(paired.step_s_C)
    # without SMs for the dispatcher nothing slows down beside it but what memory bounds
    free = replace(run.engine, dispatcher_sms=0)
    assert training_steps(replace(run, engine=free)).step_s_C < paired.step_s_C


def test_candidates_with_pairs_do_not_change_each_other() -> None:
    sizes = layouts(pp=[4, 8, 4], dp=8, ep=[8, 4, 8], recompute=[0, 2, 2], global_batch=256)
    asked: dict[str, Any] = {"model": MODEL, "engine": "megatron", "schedule": "dualpipe"}
    together = training_steps(question(sizes, **asked)).step_s_C
    for at, (pp, ep, level) in enumerate(((4, 8, 0), (8, 4, 2), (4, 8, 2))):
        alone = layouts(pp=pp, dp=8, ep=ep, recompute=level, global_batch=256)
        assert training_steps(question(alone, **asked)).step_s_C[0] == together[at]


def test_expert_overlap_hides_all_but_the_first_micro_batch() -> None:
    engine = replace(resolve_training_engine("ideal"), dispatcher_sms=0)
    sizes = layouts(dp=8, ep=8, global_batch=[8, 80], micro_batch=1)
    asked = question(sizes, model=MODEL, engine=engine, tier="bound")
    serial_C = training_steps(asked).waterfall["exposed_ep"]
    paired_C = training_steps(replace(asked, expert_overlap=True)).waterfall["exposed_ep"]
    # one micro-batch has nothing to run beside; of ten, nine backward passes have a forward one
    assert paired_C[0] == serial_C[0]
    assert paired_C[1] >= serial_C[1] / 10.0 * (1.0 - 1e-9)
    assert paired_C[1] < serial_C[1] / 5.0


def test_short_kernels_wait_for_the_host() -> None:
    # by hand: 48 MoE layers of 1 s of launches, 2 micro-batches: 96 s; kernels are far shorter
    engine = replace(resolve_training_engine("ideal"), host_s_per_moe_layer=1.0)
    asked = question(layouts(global_batch=2), model=MODEL, engine=engine, cuda_graphs="none")
    steps = training_steps(asked)
    rest_s = steps.step_s_C - steps.waterfall["host"]
    assert steps.waterfall["host"][0] > 0.0
    once_s = steps.waterfall["optimizer"]
    assert steps.step_s_C[0] - once_s[0] == pytest.approx(96.0)
    half = training_steps(replace(asked, cuda_graphs="attention"))
    assert half.step_s_C[0] - once_s[0] == pytest.approx(48.0)
    full = training_steps(replace(asked, cuda_graphs="full"))
    assert full.step_s_C == pytest.approx(rest_s)


def test_layers_of_dense_models_wait_for_their_launches_too() -> None:
    # by hand: 32 layers of 1 s of launches, 3 micro-batches: 96 s
    engine = replace(resolve_training_engine("ideal"), host_s_per_dense_layer=1.0)
    asked = question(layouts(global_batch=3), engine=engine, cuda_graphs="none")
    steps = training_steps(asked)
    assert steps.step_s_C[0] - steps.waterfall["optimizer"][0] == pytest.approx(96.0)
    # a law: launches that are shorter than the kernels of a pass cost nothing
    short = replace(asked, engine=replace(engine, host_s_per_dense_layer=1e-5))
    assert training_steps(short).waterfall["host"][0] == 0.0


def test_one_copy_per_node_or_one_per_expert() -> None:
    sizes = layouts(dp=16, ep=16, global_batch=16)
    asked = question(sizes, model=MODEL, engine="ideal")
    copies = {}
    for dispatcher in ("alltoall", "deepep"):
        steps = training_steps(replace(asked, dispatcher=dispatcher))
        sent = next(one for one in steps.costs.exchanges if one.op == "combine")
        copies[dispatcher] = sent.bytes_C[0] / (4096 * 2048 * 2.0)
        ranks = {"alltoall": 16.0, "deepep": 2.0}
        assert sent.ranks_C[0] == ranks[dispatcher]
    assert copies["alltoall"] == 8.0
    # 128 experts on 2 nodes, 8 per token: 2 (1 - 64/128 x 63/127 x ... x 57/121)
    missed = np.prod([(64.0 - draw) / (128.0 - draw) for draw in range(8)])
    assert copies["deepep"] == pytest.approx(2.0 * (1.0 - missed))


@pytest.mark.parametrize(("model", "drift"), [(MODEL, 1.8), ("meta-llama/Llama-3.1-8B", 1.0)])
def test_a_kind_of_model_without_runs_on_a_generation_has_a_wider_interval(
    model: str, drift: float
) -> None:
    """Megatron's MoE runs were on Hopper and Blackwell, its dense ones on Ampere too."""
    ends = {}
    for system in ("h100_sxm", "a100_sxm"):
        sizes = layouts(dp=16, global_batch=16, recompute=2)
        steps = training_steps(question(sizes, model=model, engine="megatron", system=system))
        ends[system] = (steps.low_s_C[0] / steps.step_s_C[0], steps.high_s_C[0] / steps.step_s_C[0])
    (low, high), (wider_low, wider_high) = ends["h100_sxm"], ends["a100_sxm"]
    assert wider_low == pytest.approx(low / drift)
    assert wider_high == pytest.approx(high * drift)


def test_a_release_without_runs_may_be_faster() -> None:
    known, later = (resolve_training_engine(one) for one in ("megatron", "Megatron@27.02"))
    assert later.id == "megatron@27.02"
    later_low, later_high = later.errors("hopper", moe=True)
    low, high = known.errors("hopper", moe=True)
    assert (later_low, later_high) == (low - np.log(1.8), high)
    assert later.errors("hopper", moe=False)[1] == known.errors("hopper", moe=False)[1]
    with pytest.raises(InvalidSpecError, match="training engines: "):
        resolve_training_engine("megatron@25.13")


def test_an_older_release_may_be_slower_the_more_the_older_it_is() -> None:
    """25.03 is half a year before 25.09, whose numbers it has: ln 1.1 / 2 of dense models."""
    known, older = (resolve_training_engine(f"megatron@{one}") for one in ("25.09", "25.03"))
    assert older.id == "megatron@25.03"
    assert older.speed_dense == known.speed_dense
    low, high = known.errors("hopper", moe=False)
    assert older.errors("hopper", moe=False) == pytest.approx((low, high + np.log(1.1) / 2.0))
    ends = [
        resolve_training_engine(f"megatron@{one}").errors("hopper", moe=True)[1]
        for one in ("23.01", "24.07", "25.02", "25.09")
    ]
    assert ends == sorted(ends, reverse=True)
    with pytest.raises(InvalidSpecError, match="training engines: "):
        resolve_training_engine("megatron@21.01")  # older than every known release


def test_a_dense_model_with_recurrent_layers_has_the_interval_of_moe_models() -> None:
    asked = question(layouts(dp=8, global_batch=8), model=HYBRID, engine="megatron")
    steps = training_steps(asked)
    low, high = asked.engine.errors("hopper", moe=True)
    assert steps.low_s_C[0] / steps.step_s_C[0] == pytest.approx(np.exp(low))
    assert steps.high_s_C[0] / steps.step_s_C[0] == pytest.approx(np.exp(high))


def test_the_slow_end_of_jobs_beyond_the_largest_fitted_one_grows_with_scale() -> None:
    """Four times 1,024 GPUs are two octaves: exp(2 x 0.06) = 1.127."""
    asked = question(layouts(dp=[512, 1024, 4096, 32768], global_batch=32768), engine="megatron")
    steps = training_steps(asked)
    high_C = steps.high_s_C / steps.step_s_C
    assert high_C[2] / high_C[1] == pytest.approx(1.127, abs=1e-3)
    assert high_C[0] == pytest.approx(high_C[1])
    assert high_C[3] > high_C[2]
    low_C = steps.low_s_C / steps.step_s_C
    assert low_C == pytest.approx(low_C[0])
    ideal = scale_error(replace(asked, engine=resolve_training_engine("ideal")))
    assert not ideal.any()


def test_no_interval_reaches_past_the_peak() -> None:
    """A later release on another generation is wider than what the tensor cores leave."""
    sizes = layouts(dp=8, ep=8, global_batch=64)
    model = "mistralai/Mixtral-8x7B-v0.1"
    asked = question(sizes, model=model, engine="megatron@27.02", system="a100_sxm")
    steps = training_steps(asked)
    low = np.exp(resolve_training_engine("megatron@27.02").errors("ampere", moe=True)[0])
    least_s = steps.hardware_flop_C[0] / (8 * steps.peak_flop_per_s_C[0])
    assert steps.step_s_C[0] * low < least_s
    assert steps.low_s_C[0] == pytest.approx(least_s)
