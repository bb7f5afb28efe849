"""Pricing rate of distinct matrix products by tier physics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from timing import Row, Timing, timed

from perfatlas.formats import get_format
from perfatlas.hardware import resolve_system
from perfatlas.machines import DeviceColumns, price_operators
from perfatlas.machines.gpu.devices import silicon_row
from perfatlas.machines.gpu.kernels.gemm import GemmParameters, GemmShape, gemm_time_s
from perfatlas.machines.gpu.shapes import shape_columns
from perfatlas.measurements.calibrations import find_calibration
from perfatlas.operators import Gemm, Phase

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray

SYSTEM: Final = "h200_sxm"
FAMILY: Final = "vllm"
FORMAT: Final = "fp8_dynamic"
GOAL_PER_S: Final = 200_000.0


def distinct_gemms(shapes: int, seed: int) -> FloatArray:
    """Return distinct rows of (m, n, k) (shapes, 3).

    Args:
        shapes: Number of rows.
        seed: Random seed.
    """
    random = np.random.default_rng(seed)
    rows = np.empty((0, 3))
    while rows.shape[0] < shapes:
        m = np.floor(2.0 ** random.uniform(0.0, 15.0, shapes))
        n, k = 64.0 * random.integers(2, 512, (2, shapes))
        # np.unique sorts; shuffle again so that caches do not benefit
        rows = np.unique(np.concatenate([rows, np.stack([m, n, k], axis=1)]), axis=0)
    return random.permutation(rows)[:shapes]


def gemm_operator(rows_R3: FloatArray) -> Gemm:
    """Return the matrix products of rows of (m, n, k) as candidates of one operator."""
    number_format = get_format(FORMAT)
    return Gemm(
        name="product",
        phase=Phase.DECODE,
        count=np.ones(rows_R3.shape[0]),
        m=rows_R3[:, 0].copy(),
        n=rows_R3[:, 1].copy(),
        k=rows_R3[:, 2].copy(),
        format=FORMAT,
        weight_bytes_per_element=number_format.weight_bytes,
        input_bytes_per_element=number_format.activation_bytes,
    )


def gemm_rates(shapes: int, *, runs: int, seed: int) -> list[Row]:
    """Return the rate of the public pricing function, and of the underlying compiled model.

    Args:
        shapes: Distinct shapes priced in one call.
        runs: Calls of the median.
        seed: Random seed.

    Raises:
        RuntimeError: A shape was not priced, or came from the cache.
    """
    rows_R3 = distinct_gemms(shapes, seed)
    operator = gemm_operator(rows_R3)
    device = resolve_system(SYSTEM).device
    devices = DeviceColumns(devices=(device,), index_C=np.zeros(shapes, np.int64))
    public, priced = timed(
        lambda: price_operators([operator], devices, family=FAMILY, tier="physics"), runs=runs
    )
    if priced.distinct != shapes:
        raise RuntimeError(f"{priced.distinct} of {shapes} distinct shapes were priced by physics")
    inner = timed_model(rows_R3, runs=runs)
    text = f"{shapes:,} distinct (m, n, k) in one call, {SYSTEM}, {FORMAT}, tier physics"
    return [
        rate_row("price_operators, total", public, shapes, f"{text}, with bound and interval"),
        rate_row("compiled model alone", inner, shapes, "the same shapes, gemm_time_s"),
    ]


def timed_model(rows_R3: FloatArray, *, runs: int) -> Timing:
    """Return the time of the compiled model on rows of (m, n, k).

    Raises:
        RuntimeError: There is no calibration.
    """
    device = resolve_system(SYSTEM).device
    match = find_calibration(device, "gemm", FAMILY, FORMAT)
    if match is None:
        raise RuntimeError(f"no gemm calibration of {SYSTEM} in {FORMAT}")
    known = match.calibration.parameters
    shapes = rows_R3.shape[0]
    given = shape_columns(gemm_operator(rows_R3))
    shape_UD = np.empty((shapes, len(GemmShape._fields)))
    for column, name in enumerate(GemmShape._fields):
        shape_UD[:, column] = given[name]
    silicon_US = np.tile(silicon_row(device, FORMAT), (shapes, 1))
    row_P = np.array([known.get(name, np.nan) for name in GemmParameters._fields])
    parameters_UP = np.tile(row_P, (shapes, 1))
    return timed(lambda: gemm_time_s(shape_UD, silicon_US, parameters_UP), runs=runs)[0]


def rate_row(name: str, timing: Timing, shapes: int, note: str) -> Row:
    """Return a rate against the goal."""
    rate = shapes / timing.wall_s
    return Row(
        section="GEMM pricing",
        name=name,
        value=rate,
        cpu_value=shapes / timing.cpu_s,
        unit="1/s",
        goal=f">= {GOAL_PER_S:,.0f}",
        met=rate >= GOAL_PER_S,
        runs=timing.runs,
        note=note,
    )
