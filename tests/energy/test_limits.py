"""Power limits and locked clocks of estimates and simulations: laws and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import perfatlas
from perfatlas.energy.boards import energy_data
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.scenario.fields import Scenario
from perfatlas.scenario.resolution import resolve_scenarios

LLAMA = "meta-llama/Llama-3.1-8B"


def served(**fields: object) -> dict[str, Any]:
    asked: dict[str, Any] = {"model": LLAMA, "system": "h100_sxm", "isl": 2048, "osl": 128}
    return dict(perfatlas.estimate(**{**asked, "method": "formula", **fields}).results)


def test_a_limit_that_binds_is_reached_within_a_tenth_of_a_percent() -> None:
    prefill = served(batch=64, osl=1, power_cap_w=450.0)
    assert 450.0 * (1.0 - 1e-3) <= prefill["power_w"] <= 450.0


def test_a_limit_and_the_clock_that_it_leaves_agree() -> None:
    limited = perfatlas.estimate(
        model=LLAMA, system="h100_sxm", isl=4096, osl=1, batch=8, power_cap_w=450.0
    )
    (note,) = (text for text in limited.evidence.assumptions if "a power limit of 450 W" in text)
    ratios = np.linspace(0.5, 1.0, 26)
    times = [served(isl=4096, osl=1, batch=8, clock_ratio=float(one))["ttft_s"] for one in ratios]
    ratio = float(np.interp(-limited.results["ttft_s"], -np.array(times), ratios))
    assert f"leaves prefill steps {ratio:.2f}" in note
    locked = served(isl=4096, osl=1, batch=8, clock_ratio=ratio)
    assert locked["power_w"] == pytest.approx(450.0, rel=5e-3)


def test_a_locked_clock_takes_the_voltage_that_the_tdp_sustains() -> None:
    # large products throttle at the TDP: a clock just below the sustained one draws just below it
    full, locked = served(osl=1, batch=64), served(osl=1, batch=64, clock_ratio=0.98)
    assert full["power_w"] == pytest.approx(700.0, rel=1e-6)
    assert 0.94 * 700.0 < locked["power_w"] < 700.0


def _left_clock(answer: perfatlas.Answer) -> float:
    (note,) = (text for text in answer.evidence.assumptions if "leaves prefill steps" in text)
    return float(note.partition("leaves prefill steps ")[2].split()[0])


def test_the_energies_of_the_parts_sum_to_that_of_the_whole() -> None:
    limits: tuple[dict[str, Any], ...] = ({}, {"power_cap_w": 450.0}, {"clock_ratio": 0.7})
    for fields in limits:
        answer = perfatlas.estimate(
            model=LLAMA, system="h100_sxm", isl=2048, osl=1, batch=4, **fields
        )
        prefill = [row for row in answer.breakdown if row["phase"] == "prefill"]
        parts_j = sum(row["energy_j"] for row in prefill)
        step_s = sum(row["time_s"] for row in prefill)
        clock = _left_clock(answer) if "power_cap_w" in fields else fields.get("clock_ratio", 1.0)
        on_w = 70.0 + 52.2 * clock * (1.0 - 0.695 * (1.0 - clock)) ** 2
        watts = on_w + parts_j / step_s
        assert watts == pytest.approx(answer.results["power_w"], rel=2e-3)  # clock of two digits


def test_idle_gpus_draw_the_power_of_a_board_without_kernels() -> None:
    alone, spare = (served(mode="aggregated", concurrency=1, dp=dp) for dp in (1, 4))
    idle_w = (4.0 * spare["power_w"] - alone["power_w"]) / 3.0
    assert idle_w == pytest.approx(122.2, rel=1e-6)


def simulated(**fields: object) -> dict[str, Any]:
    asked: dict[str, Any] = {"model": LLAMA, "system": "h100_sxm", "isl": 1024, "osl": 64}
    asked |= {"num_requests": 32, "concurrency": 16, "seed": 1, "length_distribution": "fixed"}
    return dict(perfatlas.simulate(**{**asked, **fields}).results)


def test_a_simulation_slows_down_under_a_limit_as_the_closed_form() -> None:
    spans = [simulated(power_cap_w=limit)["makespan_s"] for limit in (None, 700.0, 330.0)]
    assert spans[0] == spans[1] < spans[2]
    load = {"isl": 1024, "osl": 64, "mode": "aggregated", "concurrency": 16, "power_cap_w": 330.0}
    steady, formula = (served(**load, method=method) for method in ("simulate", "formula"))
    assert steady["tpot_s"] == pytest.approx(formula["tpot_s"], rel=0.03)


@pytest.mark.parametrize("limit", [None, 450.0])
def test_a_simulated_steady_state_draws_the_power_of_its_closed_form(limit: float | None) -> None:
    load = {"isl": 1024, "osl": 64, "concurrency": 16, "power_cap_w": limit}
    found = simulated(**load, num_requests=160)
    formula = served(**load, mode="aggregated")
    # the simulated loop is some 5% slower, as its prompts do not arrive evenly
    assert found["power_w"] == pytest.approx(formula["power_w"], rel=0.04)
    for name in ("power_w", "energy_per_output_token_j"):
        assert found[f"{name}_low"] <= found[name] <= found[f"{name}_high"]
    rate = found["output_tokens_per_s_per_gpu"]
    assert found["energy_per_output_token_j"] * rate == pytest.approx(found["power_w"])
    assert found["energy_per_request_j"] == pytest.approx(64 * found["energy_per_output_token_j"])


def test_simulated_gpus_without_work_draw_the_power_of_a_board_without_kernels() -> None:
    rare = {"concurrency": None, "request_rate": 1e-3, "num_requests": 10}
    assert simulated(**rare)["power_w"] == pytest.approx(122.2, rel=1e-2)
    alone, spare = (simulated(**rare | {"request_rate": 2.0}, dp=dp) for dp in (1, 4))
    assert 122.2 < spare["power_w"] < alone["power_w"]


@pytest.mark.parametrize("limit", ["power_cap_w", "node_power_cap_w"])
def test_a_limit_of_unknown_effect_is_refused_before_anything_is_priced(limit: str) -> None:
    scenario = Scenario.read(
        {"model": LLAMA, "system": "h200_sxm{device.architecture=other}", limit: 6000.0}
    )
    question, (problem,) = resolve_scenarios([scenario])
    assert question is None
    assert isinstance(problem, UnsupportedError)


def test_the_lowest_clock_is_data_with_its_kind_and_bounds_the_frontier() -> None:
    lowest = energy_data()["clock"]["lowest"]
    assert lowest["low"] < lowest["value"] < lowest["high"]
    assert lowest["kind"] == "assumed"
    with pytest.raises(InvalidSpecError, match=rf"lowest clock, {lowest['value']:g} of"):
        served(batch=64, power_cap_w=120.0)
