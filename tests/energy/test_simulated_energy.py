"""Energy of simulated deployments: parts, idle GPUs, limits, pools and autoscaling."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import perfatlas
from perfatlas.energy import board_energy
from perfatlas.hardware import resolve_system
from perfatlas.verbs.simulate import Simulation

PARTS = ("prefill_energy_j", "decode_energy_j", "bubble_energy_j", "idle_energy_j")
ON_W = board_energy(resolve_system("h100_sxm").device).on_w


@cache
def simulated(**fields: Any) -> Simulation:  # noqa: ANN401 - fields of simulate
    asked = {"model": "meta-llama/Llama-3.1-8B", "system": "h100_sxm", "isl": 400, "osl": 60}
    return perfatlas.simulate(**{**asked, "request_rate": 4, "num_requests": 60, **fields})


def results(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of simulate
    return dict(simulated(**fields).answer.results)


POOLS = {"mode": "disaggregated", "prefill_workers": 1, "decode_workers": 2}
SCALED = {"max_replicas": 3, "autoscale_target": 10, "request_rate": 20}
KINDS = [{"system": "h100_sxm", "dp": 1}, {"system": "h200_sxm", "dp": 1}]


@pytest.mark.parametrize("fields", [{}, POOLS, SCALED])
def test_parts_sum_to_the_energy_of_the_run_and_of_its_tokens(fields: dict[str, Any]) -> None:
    found = results(**fields)
    assert sum(found[name] for name in PARTS) == pytest.approx(found["energy_j"])
    assert all(found[name] > 0.0 for name in PARTS if name != "bubble_energy_j")
    assert found["bubble_energy_j"] == 0.0  # asynchronous scheduling hides the host
    assert found["energy_j"] == pytest.approx(60 * 60 * found["energy_per_output_token_j"])
    assert found["energy_j"] == pytest.approx(found["deployment_power_w"] * found["makespan_s"])
    assert found["energy_j_low"] < found["energy_j"] < found["energy_j_high"]


@pytest.mark.parametrize("fields", [{}, {"dp": 2}, POOLS, SCALED])
def test_energy_is_the_integral_of_power_over_the_run(fields: dict[str, Any]) -> None:
    run = simulated(**fields)
    energy, found = run.outcome.energy, run.answer.results
    series = run.series()
    ends = [*series["time_s"][1:], energy.time_W[-1] * 1e-12]
    integral_j = sum(
        watts * (end - start)
        for watts, start, end in zip(
            series["deployment_power_w"], series["time_s"], ends, strict=True
        )
    )
    # the client sees the last token some milliseconds after the last step
    assert integral_j == pytest.approx(found["energy_j"], rel=2e-3)
    binned = found["series"]
    part_j = sum(binned["deployment_power_w"]) * binned["bin_width_s"]
    assert part_j == pytest.approx(found["energy_j"], rel=0.01)
    assert max(binned["deployment_power_max_w"]) >= found["peak_deployment_power_w"] * 0.999
    peak_w, p95_w = found["peak_deployment_power_w"], found["p95_deployment_power_w"]
    assert found["deployment_power_w"] < p95_w <= peak_w


def test_an_idle_gpu_draws_its_idle_power() -> None:
    # a request per replica, and long gaps: two more replicas cost their idle power
    sparse: dict[str, Any] = {"request_rate": 0.2, "num_requests": 10, "routing": "least_loaded"}
    one, three = results(**sparse), results(**sparse, dp=3)
    makespan_s = three["makespan_s"]
    busy_s = simulated(**sparse, dp=3).outcome.busy_F.sum() * 1e-12
    assert three["idle_energy_j"] == pytest.approx(ON_W * (3 * makespan_s - busy_s))
    more_j = three["energy_j"] - one["energy_j"]
    assert more_j == pytest.approx(2 * ON_W * makespan_s, rel=0.02)
    assert min(three["series"]["deployment_power_w"]) == pytest.approx(3 * ON_W, rel=1e-3)


def test_gpus_that_an_autoscaler_has_released_draw_nothing() -> None:
    scaled, fixed = results(**SCALED), results(request_rate=20, dp=3)
    assert scaled["replica_time_s"] < 3 * scaled["makespan_s"]
    busy_s = simulated(**SCALED).outcome.busy_F.sum() * 1e-12
    assert scaled["idle_energy_j"] == pytest.approx(ON_W * (scaled["replica_time_s"] - busy_s))
    assert scaled["idle_energy_j"] < fixed["idle_energy_j"]
    assert scaled["power_w"] <= 700.0


def test_chunks_beside_many_decodes_draw_in_closed_form_what_they_draw_simulated() -> None:
    # a chunk alone would exceed the limit; with the attention of 255 decodes its step does not
    load = {"concurrency": 256, "max_num_seqs": 256, "isl": 300, "osl": 200}
    fields: dict[str, Any] = {"engine": "vllm", **load, "max_num_batched_tokens": 8192}
    run = results(request_rate=None, num_requests=768, **fields)
    asked: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B", "system": "h100_sxm"}
    asked |= {"mode": "aggregated", "method": "formula"}
    formula = perfatlas.estimate(**asked, **fields).results
    assert formula["power_w"] == pytest.approx(run["power_w"], rel=0.02)


def test_kinds_of_replicas_spend_by_their_own_devices() -> None:
    run = perfatlas.simulate(
        model="meta-llama/Llama-3.1-8B", request_rate=4, num_requests=60, replica_kinds=KINDS
    )
    found = run.answer.results
    assert sum(found[name] for name in PARTS) == pytest.approx(found["energy_j"])


def test_seeds_are_averaged() -> None:
    found = results(num_seeds=2)
    alone = [results(seed=seed) for seed in (0, 1)]
    joules, seconds = (sum(one[name] for one in alone) for name in ("energy_j", "makespan_s"))
    assert found["energy_j"] == pytest.approx(joules / 2)
    # one way for all: energy of both runs over their time
    assert found["deployment_power_w"] == pytest.approx(joules / seconds)
    assert found["energy_j_seed_half_width"] > 0.0


def test_a_replica_that_is_never_idle_spends_no_idle_energy() -> None:
    asked: dict[str, Any] = {"model": "resnet-50", "system": "h100_sxm", "num_requests": 2000}
    run = perfatlas.simulate(**asked, concurrency=64, max_num_seqs=64).answer.results
    assert run["idle_energy_j"] == 0.0
