"""Energies of machines with weights in SRAM."""

from __future__ import annotations

import math
from typing import Any

import pytest

import perfatlas
from perfatlas.energy import board_energy
from perfatlas.hardware import resolve_system
from validation.machines.schedules import POWERS, full_load_w

STEP: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "engine": "ideal",
    "isl": 256,
    "osl": 64,
}
GROQ: dict[str, Any] = STEP | {"system": "groq_tsp_v1", "tp": 8, "pp": 8, "format": "int8_wo"}


def test_full_load_of_a_groq_chip_by_hand() -> None:
    """60 W idle, 750e12 x 0.075 pJ = 56 W, 64 streams of 320 B at 0.9 GHz x 12.6 pJ = 232 W."""
    device = resolve_system("groq_tsp_v1").device
    watts = 60.0 + 750e12 * 0.075e-12 + 64 * 320 * 0.9e9 * 12.6e-12
    assert full_load_w(device, "int8") == pytest.approx(watts) == pytest.approx(348.5, abs=0.1)


@pytest.mark.parametrize("name", POWERS)
def test_published_power_is_inside_the_interval_of_full_load(name: str) -> None:
    device = resolve_system(name).device
    number_format, least_w, most_w = POWERS[name]
    found_w, board = full_load_w(device, number_format), board_energy(device)
    assert board.low * found_w <= least_w <= most_w <= board.high * found_w
    assert abs(math.log(found_w / most_w)) < math.log(1.5)


def test_more_sequences_draw_more_and_cost_less() -> None:
    one, eight = (perfatlas.estimate(**GROQ, batch=batch).results for batch in (1, 8))
    assert one["power_w"] < eight["power_w"] < resolve_system("groq_tsp_v1").device.tdp_w
    assert one["energy_per_output_token_j"] > eight["energy_per_output_token_j"]
    assert one["power_w_high"] > 185.0  # published as average
    for found in (one, eight):
        chips, rate = 64, found["output_tokens_per_s_per_gpu"]
        joules = found["energy_per_output_token_j"]
        assert joules * rate * chips == pytest.approx(found["power_w"] * chips, rel=0.01)


def test_devices_whose_power_is_not_published_have_wide_intervals_that_say_so() -> None:
    asked = STEP | {"system": "groq_3_lpu", "tp": 8, "pp": 8, "format": "fp8"}
    found = perfatlas.estimate(**asked)
    results = found.results
    # without a lower end of its rate, a chip may wait, and draws its idle power
    board = board_energy(resolve_system("groq_3_lpu").device)
    assert results["power_w_low"] == board.idle_w > board.low * board.on_w
    assert results["power_w_high"] == board.cap_w
    told = [text for text in found.evidence.assumptions if text.startswith("power of ")]
    assert "never compared with measured watts" in told[0]
    assert "no AC power of such a node was compared" in told[1]
