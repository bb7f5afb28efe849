"""Energy of bubbles: what GPUs draw within steps while they run no kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import perfatlas
from perfatlas.energy import board_energy
from perfatlas.engines import resolve_engine
from perfatlas.hardware import resolve_system
from perfatlas.verbs.estimate import estimate_table

ON_W = board_energy(resolve_system("h100_sxm").device).on_w
EACH = "energy_per_output_token_j"
PARTS = tuple(f"{part}_{EACH}" for part in ("prefill", "decode", "awake", "bubble"))
SMALL = "meta-llama/Llama-3.2-1B"
HOST_WAITS = "vllm@0.11"  # the host prepares a step after the one before it


def served(**fields: object) -> dict[str, Any]:
    asked: dict[str, Any] = {"model": SMALL, "system": "h100_sxm", "isl": 256, "osl": 17}
    return dict(perfatlas.estimate(**{**asked, "method": "formula", **fields}).results)


def staged(name: str, stages: tuple[int, ...], **fields: object) -> list[float]:
    """Return a result over the pipeline stages of a model of 80 layers."""
    asked: dict[str, Any] = {"model": "meta-llama/Llama-3.1-70B", "system": "h100_sxm", "tp": 4}
    asked |= {"isl": 512, "osl": 32, "mode": "static", "method": "formula", **fields}
    table = {key: [value] * len(stages) for key, value in asked.items()}
    found = estimate_table(table | {"pp": list(stages)}).columns
    assert not any(found["error_code"])
    return [float(value) for value in found[name]]


def test_one_sequence_leaves_all_stages_but_one_without_kernels() -> None:
    stages = (1, 2, 4, 8)
    awake_j, bubble_j = (staged(f"{part}_{EACH}", stages, batch=1) for part in ("awake", "bubble"))
    for number, kernels_j, waits_j in zip(stages, awake_j, bubble_j, strict=True):
        # of `number` stages one runs at a time
        assert waits_j == pytest.approx((number - 1) * kernels_j)


def test_micro_batches_of_all_stages_leave_no_bubble_in_decode_and_chunks_fill_prefill() -> None:
    few, many = (staged(f"bubble_{EACH}", (4,), batch=batch)[0] for batch in (1, 64))
    assert 0.0 < many < 0.02 * few
    decode = staged(f"bubble_{EACH}", (4,), batch=64, osl=2000, isl=16)[0]
    assert decode < 0.02 * staged(EACH, (4,), batch=64, osl=2000, isl=16)[0]


@pytest.mark.parametrize("batch", [1, 3, 16])
@pytest.mark.parametrize("mode", ["static", "aggregated"])
def test_bubbles_rise_with_the_stages(batch: int, mode: str) -> None:
    load = {"batch": batch} if mode == "static" else {"concurrency": batch}
    found = staged(f"bubble_{EACH}", (1, 2, 4, 8), mode=mode, **load)
    assert found[0] == 0.0
    assert (np.diff(found) > 0.0).all()


def test_a_prefill_pool_that_limits_the_rate_has_no_bubble_and_a_lone_prompt_has() -> None:
    asked: dict[str, Any] = {"model": "meta-llama/Llama-3.1-70B", "system": "h100_sxm"}
    asked |= {"isl": 4096, "osl": 32, "mode": "disaggregated", "method": "formula"}
    asked |= {"engine": "sglang", "prefill_tp": 2, "prefill_pp": 2, "decode_tp": 4}
    one, many = (perfatlas.estimate(**asked, concurrency=requests).results for requests in (1, 64))
    # alone, one of two stages runs: a bubble of half of the passes of one prompt
    prompt_s = one[f"bubble_{EACH}"] * asked["osl"] / (ON_W * asked["prefill_tp"])
    assert 0.8 * one["ttft_s"] < prompt_s < one["ttft_s"]
    assert many[f"bubble_{EACH}"] < 0.1 * one[f"bubble_{EACH}"]


def test_the_wait_for_the_host_by_hand() -> None:
    host = resolve_engine(HOST_WAITS).host
    assert not host.overlapped
    found = served(engine=HOST_WAITS, batch=1, isl=64, osl=100001)  # almost only decode steps
    host_s = host.step_s + host.per_sequence_s
    assert found[f"bubble_{EACH}"] == pytest.approx(ON_W * host_s, rel=1e-3)
    kernels_s = found["tpot_s"] - host_s
    assert found[f"awake_{EACH}"] == pytest.approx(ON_W * kernels_s, rel=1e-3)


@pytest.mark.parametrize(
    "fields",
    [
        {"batch": 4},
        {"mode": "aggregated", "concurrency": 16},
        {"mode": "disaggregated", "prefill_tp": 1, "decode_tp": 2, "decode_batch": 16},
        {"mode": "aggregated", "concurrency": 8, "tp": 2, "model": "Qwen/Qwen3-30B-A3B"},
    ],
    ids=("static", "aggregated", "disaggregated", "experts"),
)
def test_parts_sum_to_the_total_and_an_engine_that_hides_its_host_has_no_bubble(
    fields: dict[str, Any],
) -> None:
    waits, hides = (served(engine=engine, **fields) for engine in (HOST_WAITS, "ideal"))
    for one in (waits, hides):
        assert sum(one[name] for name in PARTS) == pytest.approx(one[EACH])
        assert one[EACH] * one["output_tokens_per_s_per_gpu"] == pytest.approx(one["power_w"])
    assert hides[f"bubble_{EACH}"] == 0.0
    assert 0.0 < waits[f"bubble_{EACH}"] < waits[f"awake_{EACH}"] + waits[f"bubble_{EACH}"]


def test_simulated_waits_for_the_host_agree_with_the_closed_form() -> None:
    load: dict[str, Any] = {"engine": HOST_WAITS, "isl": 256, "osl": 64, "concurrency": 16}
    equal: dict[str, Any] = {"num_requests": 160, "length_distribution": "fixed"}
    run = perfatlas.simulate(model=SMALL, system="h100_sxm", **equal, **load)
    found = dict(run.answer.results)
    parts = ("prefill_energy_j", "decode_energy_j", "bubble_energy_j", "idle_energy_j")
    assert sum(found[name] for name in parts) == pytest.approx(found["energy_j"])
    assert all(found[name] > 0.0 for name in parts)
    waits_s = found["bubble_energy_j"] / ON_W
    host = resolve_engine(HOST_WAITS).host
    assert waits_s >= found["steps"] * host.step_s
    assert found[f"bubble_{EACH}"] == pytest.approx(found["bubble_energy_j"] / (160 * 64))
    formula = served(mode="aggregated", **load)
    assert found[f"bubble_{EACH}"] == pytest.approx(formula[f"bubble_{EACH}"], rel=0.1)
