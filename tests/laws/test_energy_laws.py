"""Laws of power and energy, on random tables of scenarios."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from perfatlas.operators import FloatArray
from perfatlas.verbs.estimate import estimate, estimate_table

ROWS: Final = 40
MODELS: Final = ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-70B", "Qwen/Qwen3-30B-A3B")
SYSTEMS: Final = ("h100_sxm", "h200_sxm", "b200_sxm")
TIMES: Final = ("ttft_s", "tpot_s", "request_latency_s")
ROUNDING: Final = 1e-9
EACH: Final = "energy_per_output_token_j"
PARTS: Final = tuple(f"{part}_{EACH}" for part in ("prefill", "decode", "awake", "bubble"))


def drawn(seed: int) -> dict[str, list[Any]]:
    rng = np.random.default_rng(seed)
    return {
        "model": rng.choice(MODELS, ROWS).tolist(),
        "system": rng.choice(SYSTEMS, ROWS).tolist(),
        "tp": [4] * ROWS,
        "isl": rng.integers(16, 4000, ROWS).tolist(),
        "osl": rng.integers(2, 600, ROWS).tolist(),
        "batch": rng.integers(1, 64, ROWS).tolist(),
    }


def numbers(table: dict[str, list[Any]], *names: str) -> list[FloatArray]:
    found = estimate_table(table).columns
    return [np.array(found[name], np.float64) for name in (*names, "power_w")]


@pytest.mark.parametrize("seed", [1])
def test_a_limit_speeds_nothing_up_and_is_kept(seed: int) -> None:
    table = drawn(seed)
    *free, free_w = numbers(table, *TIMES)
    caps = np.random.default_rng(seed).uniform(0.5, 1.1, ROWS) * free_w
    *capped, capped_w = numbers(table | {"power_cap_w": caps.tolist()}, *TIMES)
    kept = np.isfinite(capped_w)  # others cannot keep their limit
    assert kept.sum() > ROWS / 2
    assert (capped_w[kept] <= caps[kept] * (1.0 + ROUNDING)).all()
    for slow, fast in zip(capped, free, strict=True):
        assert (slow[kept] >= fast[kept] * (1.0 - ROUNDING)).all()
    *loose, loose_w = numbers(table | {"power_cap_w": [2000.0] * ROWS}, *TIMES)
    assert np.array_equal([*loose, loose_w], [*free, free_w])  # above all TDPs


@pytest.mark.parametrize("seed", [2])
def test_a_lower_limit_is_never_faster_than_a_higher_one(seed: int) -> None:
    table = drawn(seed)
    (free_w,) = numbers(table)
    low, high = ({"power_cap_w": (share * free_w).tolist()} for share in (0.7, 0.9))
    *slow, slow_w = numbers(table | low, *TIMES)
    *fast, fast_w = numbers(table | high, *TIMES)
    both = np.isfinite(slow_w) & np.isfinite(fast_w)
    assert both.sum() > ROWS / 2
    assert (slow_w[both] <= fast_w[both] * (1.0 + ROUNDING)).all()
    for low_s, high_s in zip(slow, fast, strict=True):
        assert (low_s[both] >= high_s[both] * (1.0 - 1e-3)).all()  # limits are kept within 0.1%


@pytest.mark.parametrize("seed", [3])
def test_a_larger_batch_of_a_memory_bound_decode_takes_less_energy_per_token(seed: int) -> None:
    table = drawn(seed) | {"isl": [64] * ROWS, "osl": [512] * ROWS, "model": [MODELS[0]] * ROWS}
    table["batch"] = np.random.default_rng(seed).integers(1, 16, ROWS).tolist()
    more = table | {"batch": [2 * one for one in table["batch"]]}
    name = "energy_per_output_token_j"
    (few_j, _), (more_j, _) = numbers(table, name), numbers(more, name)
    assert (more_j < few_j).all()


@pytest.mark.parametrize("model", [MODELS[0], MODELS[2]])
@pytest.mark.parametrize("load", ["concurrency", "decode_batch"])
def test_so_do_more_requests_in_flight_of_one_pool_or_two(model: str, load: str) -> None:
    sizes = [1, 2, 4, 8, 16]
    mode: dict[str, Any] = {"mode": "aggregated", "tp": 2}
    if load == "decode_batch":
        mode = {"mode": "disaggregated", "prefill_tp": 2, "decode_tp": 2}
    asked = {"model": model, "system": "h200_sxm", "isl": 64, "osl": 512, "method": "formula"}
    table = {name: [value] * len(sizes) for name, value in (asked | mode).items()}
    (token_j, _) = numbers(table | {load: list(sizes)}, EACH)
    assert (np.diff(token_j) < 0.0).all()


@pytest.mark.parametrize("seed", [4])
def test_energy_per_token_is_power_over_rate(seed: int) -> None:
    names = ("energy_per_output_token_j", "energy_per_request_j", "output_tokens_per_s_per_gpu")
    table = drawn(seed)
    token_j, request_j, rate, watts = numbers(table, *names)
    assert token_j * rate == pytest.approx(watts)
    assert request_j == pytest.approx(token_j * np.array(table["osl"]))


def test_the_parts_of_the_energy_per_token_sum_to_it() -> None:
    table = drawn(5) | {"pp": [1, 2] * (ROWS // 2)}
    *found, token_j, _ = numbers(table, *PARTS, EACH)
    known = np.isfinite(token_j)
    assert known.any()
    assert np.sum(found, axis=0)[known] == pytest.approx(token_j[known])
    *kernels, bubbles = found
    assert all((one[known] > 0.0).all() for one in kernels)
    staged = np.array(table["pp"]) == 2
    assert (bubbles[known & ~staged] == 0.0).all()
    assert (bubbles[known & staged] > 0.0).all()


@pytest.mark.parametrize("changes", [{}, {"requests_per_client": 3, "osl": 1}])
def test_the_parts_sum_where_prompts_queue_and_rates_are_simulated(changes: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"model": MODELS[0], "system": "h100_sxm", "mode": "aggregated"}
    asked |= {"isl": 1024, "osl": 32, "concurrency": 64, "method": "simulate"} | changes
    found = estimate(**asked).results
    row = estimate_table({name: [value] for name, value in asked.items()}).columns
    assert sum(found[name] for name in PARTS) == pytest.approx(found[EACH])
    for name in (*PARTS, EACH):
        assert found[name] == pytest.approx(float(row[name][0]), rel=ROUNDING)


def test_a_lower_locked_clock_takes_less_energy_for_prompts_that_share_steps() -> None:
    locked = [1.0, 0.95, 0.9, 0.8, 0.7, 0.6]
    asked: dict[str, Any] = {
        "model": MODELS[0],
        "system": "h100_sxm",
        "mode": "aggregated",
        "method": "formula",
        "isl": 1024,
        "osl": 64,
        "concurrency": 32,
    }
    table = {name: [value] * len(locked) for name, value in asked.items()}
    table["clock_ratio"] = list(locked)
    prompts_j, all_j, power_w = numbers(
        table, "prefill_energy_per_output_token_j", "energy_per_output_token_j"
    )
    assert (np.diff(prompts_j) < 0.0).all()
    assert (np.diff(all_j) < 0.0).all()
    assert (np.diff(power_w) < 0.0).all()
