"""The interval of the voltage curve: power at locked clocks, time under power limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import perfatlas
from perfatlas.energy import StepEnergy, capped_clock_ratio, energy_width, power_columns
from perfatlas.hardware import resolve_system
from perfatlas.machines import DeviceColumns
from perfatlas.operators import FloatArray

LLAMA = "meta-llama/Llama-3.1-8B"
H100 = DeviceColumns(devices=(resolve_system("h100_sxm").device,), index_C=np.zeros(1, np.int64))
SERVED: dict[str, Any] = {"model": LLAMA, "system": "h100_sxm", "isl": 2048, "osl": 16}
VERBS: dict[str, Callable[..., Any]] = {
    "request_latency_s": partial(perfatlas.estimate, **SERVED, batch=16),
    "ttft_s": partial(perfatlas.simulate, **SERVED, num_requests=40, request_rate=2),
    "step_time_s": partial(
        perfatlas.train, model=LLAMA, system="h100_sxm", gpus=8, global_batch=16
    ),
    "time_s": partial(perfatlas.kernel_gemm, system="h100_sxm", m=8192, n=8192, k=8192),
}


def test_the_width_of_the_energy_by_hand() -> None:
    one = np.ones(1)
    quiet = StepEnergy(one, one, 0.0 * one, 100.0 * one, 0.0 * one)  # no limit binds
    # voltage at half of the clock: 1 - 0.695 / 2, and 1 - 0.9 / 2 by the steepest curve
    width = 2.0 * math.log((1.0 - 0.695 / 2.0) / (1.0 - 0.9 / 2.0))
    assert energy_width(quiet, 0.5 * one, power_columns(H100)) == pytest.approx(width)
    assert energy_width(quiet, one, power_columns(H100)).tolist() == [0.0]


def test_the_width_of_the_time_under_a_limit_by_hand() -> None:
    # compute-bound: 1 s and 400 J in the chip at the sustained clock, limit 300 W
    one = np.ones(1)

    def at(ratio: FloatArray) -> StepEnergy:
        return StepEnergy(one / ratio, one / ratio, 0.0 * one, 400.0 * one, 0.0 * one)

    def clock(slope: float, floor: float) -> float:
        """Return the clock at which 70 W, and 452.2 W that follow f V^2, are 300 W."""
        ratios = np.linspace(0.2, 1.0, 800_001)
        volts = np.maximum(1.0 - slope * (1.0 - ratios), floor)
        return float(ratios[70.0 + 452.2 * ratios * volts**2 <= 300.0].max())

    found = capped_clock_ratio(at, at(one), power_columns(H100, np.array([300.0])))
    own, steep, flat = clock(0.695, 0.6), clock(0.9, 0.5), clock(0.5, 0.75)
    width = max(abs(math.log(own / steep)), abs(math.log(own / flat)))
    assert found.time_width == pytest.approx(width, rel=0.01)
    free = capped_clock_ratio(at, at(one), power_columns(H100, np.array([650.0])))
    assert free.time_width.tolist() == [0.0]


def results(ask: Callable[..., Any], **fields: float) -> dict[str, Any]:
    found = ask(**fields)
    shown = dict(found.answer.results if hasattr(found, "answer") else found.results)
    means = {
        name: one["mean"] for name, one in shown.items() if isinstance(one, dict) and "mean" in one
    }
    return shown | means


@pytest.mark.parametrize(
    "time", [pytest.param(one, marks=[pytest.mark.study] * (one == "ttft_s")) for one in VERBS]
)
def test_a_lock_widens_power_and_a_limit_widens_times(time: str) -> None:
    full = results(VERBS[time])
    locked = results(VERBS[time], clock_ratio=0.5)
    lock_width, full_width = (one["power_w_high"] / one["power_w_low"] for one in (locked, full))
    assert lock_width > full_width
    assert locked["power_w_high"] > 1.4 * locked["power_w"]
    limited = results(VERBS[time], power_cap_w=330.0)
    wide, narrow = (one[f"{time}_high"] / one[f"{time}_low"] for one in (limited, full))
    assert wide > narrow
