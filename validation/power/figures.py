"""Published figures of clocks, locks and racks beside predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.energy import (
    StepEnergy,
    board_energy,
    node_power,
    power_columns,
    sustained_clock,
    voltage,
)
from perfatlas.hardware import resolve_system
from perfatlas.machines import DeviceColumns
from perfatlas.verbs.estimate import estimate, estimate_table
from perfatlas.verbs.kernel import kernel_gemm
from validation.scoring import data_path

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray

    Row = dict[str, Any]

PRODUCT: Final = {"m": 8192, "n": 8192, "k": 8192}
DECODE: Final = {
    "model": "Qwen/Qwen3-4B",
    "system": "h200_sxm",
    "isl": 512,
    "osl": 2048,
}
BATCHES: Final = (1, 8, 32)
LOCKED_HZ: Final = 0.78e9
USELESS_HZ: Final = (1.83e9, 1.59e9)  # between which published decodes become no faster
SLOPE: Final = 1.10  # power over that range: published are 1.07 to 1.13
CLOCKS: Final = tuple(float(one) for one in np.arange(1.0, 0.25, -0.05).round(2))
RACK_GPUS: Final = 72
# Served by vLLM, of the Serial Alice benchmark: model, system, sequences, result and its value.
SERVED: Final = (
    ("mistralai/Mistral-7B-v0.1", "h100_sxm", 1, "energy_per_output_token_j", 2.635),
    ("mistralai/Mistral-7B-v0.1", "h100_sxm", 128, "energy_per_output_token_j", 0.0497),
    ("microsoft/Phi-3-mini-4k-instruct", "h200_sxm", 128, "power_w", 516.9),
    ("microsoft/Phi-3-mini-4k-instruct", "b200_sxm", 128, "power_w", 606.0),
)
LENGTHS: Final = {"isl": 128, "osl": 256}  # assumed: that publication states none


def clock_figures() -> list[tuple[str, float, float]]:
    """Return published figures of clocks, locks and racks: name, published value, prediction.

    Source: reference of each figure in validation/pages/power.md.

    Limits: The published decodes are those of four models with some 4B parameters in bf16, 1 to 32
        sequences; Qwen3-4B stands for them.
    """
    product = kernel_gemm(system="h200_sxm", **PRODUCT).results["flop_per_s"] / 1e12
    fp8 = (
        kernel_gemm(system="h200_sxm", format="fp8_static", **PRODUCT).results["flop_per_s"] / 1e12
    )
    zeros = kernel_gemm(system="h200_sxm", input_distribution="zeros", **PRODUCT)
    zeros = zeros.results["flop_per_s"] / 1e12
    watts = estimate(**DECODE, batch=1).results["power_w"]
    waiting = estimate(**DECODE, batch=1, engine=str(data_path("vllm_eager.toml"))).results[
        "power_w"
    ]
    return [
        ("H200 product in bf16, random values: TFLOP/s", 788.0, product),
        ("H200 product in bf16, zeros: TFLOP/s", 894.0, zeros),
        ("H200 product in bf16, zeros over random values", 894.0 / 788.0, zeros / product),
        ("H200 in fp8 over bf16, served (here a product): rate", 1.68, fp8 / product),
        ("H800 clock under large products: GHz (as an H100)", 1.6, _product_clock_hz() / 1e9),
        ("H200 decode of one sequence: W, at most", 300.0, watts),
        ("the same if its host needs 16.6 ms for a step: W, at most", 300.0, waiting),
        ("H200 decode, energy that a locked clock saves, at most", 0.32, _saved()),
        (
            "H200 decode at 137 W: W that a lock at 780 MHz saves",
            47.0,
            137.0 - _locked_w(137.0, LOCKED_HZ),
        ),
        (
            "H200 decode at 300 W: W that a lock at 780 MHz saves",
            90.0,
            300.0 - _locked_w(300.0, LOCKED_HZ),
        ),
        ("H200 decode at 137 W: power at 1.83 over 1.59 GHz", SLOPE, _slope(137.0)),
        ("H200 decode at 300 W: power at 1.83 over 1.59 GHz", SLOPE, _slope(300.0)),
        ("GB300 NVL72 rack, GPUs at their TDP: kW", 120.0, _rack_w("gb300") / 1e3),
        *_served(),
    ]


def _served() -> list[tuple[str, float, float]]:
    """Return published power and energy of models that run with one engine on one GPU."""
    return [
        (
            f"{model.partition('/')[2]}, {system}, {batch} sequences: {result}",
            published,
            estimate(model=model, system=system, batch=batch, **LENGTHS).results[result],
        )
        for model, system, batch, result, published in SERVED
    ]


def _rack_w(system: str) -> float:
    found = resolve_system(system)
    own = node_power(found.node)
    return RACK_GPUS / own.devices * own.node_w(found.device.tdp_w)


def _product_clock_hz() -> float:
    """Return the clock that an H100 sustains in a large bf16 product under its TDP."""
    device = resolve_system("h100_sxm").device
    found = kernel_gemm(system="h100_sxm", **PRODUCT)
    board, results = board_energy(device), found.results
    chip_j = results["flop"] * board.flop_j["bf16"]
    chip_j += (results["cold_bytes"] + results["activation_bytes"]) * board.sram_j_per_byte

    def column(value: float) -> FloatArray:
        return np.array([value])

    energy = StepEnergy(
        column(results["time_s"]),
        column(results["time_s"]),
        column(results["bound_time_s"]),
        column(chip_j),
        column(results["cold_bytes"] * board.memory_j_per_byte),
    )
    power = power_columns(DeviceColumns(devices=(device,), index_C=np.zeros(1, np.int64)))
    return float(sustained_clock(energy, power)[0]) * device.boost_clock_hz


def _slope(draw_w: float) -> float:
    """Return the power of reads at a clock of 1.83 GHz over that at 1.59 GHz."""
    fast_w, slow_w = (_locked_w(draw_w, clock_hz) for clock_hz in USELESS_HZ)
    return fast_w / slow_w


def _locked_w(draw_w: float, clock_hz: float) -> float:
    """Return the power of reads of memory at a locked clock that does not slow them down [W].

    Args:
        draw_w: Power without the lock, which determines the rate of the reads [W].
        clock_hz: The clock [Hz].
    """
    device = resolve_system("h200_sxm").device
    board = board_energy(device)
    columns = DeviceColumns(devices=(device,), index_C=np.zeros(1, np.int64))
    clock = np.array([clock_hz / device.boost_clock_hz])
    locked = power_columns(columns, None, clock)
    relative = voltage(clock, locked.voltage_slope, locked.voltage_floor)
    rate = (draw_w - board.on_w) / (board.sram_j_per_byte + board.memory_j_per_byte)
    chip_w = board.sram_j_per_byte * rate * (1.0 - relative**2)
    return draw_w - float((locked.sustained_on_w - locked.on_w + chip_w)[0])


def _saved() -> float:
    """Return the largest share of energy per token that a locked clock saves in decodes."""
    points = [(batch, clock) for batch in BATCHES for clock in CLOCKS]
    table: dict[str, list[Any]] = {name: [value] * len(points) for name, value in DECODE.items()}
    table["batch"] = [batch for batch, _ in points]
    table["clock_ratio"] = [clock for _, clock in points]
    joules = np.array(estimate_table(table).columns["energy_per_output_token_j"])
    joules = joules.reshape(len(BATCHES), len(CLOCKS))
    return float((1.0 - joules.min(axis=1) / joules[:, 0]).max())
