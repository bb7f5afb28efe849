"""Times of main loops: values by hand, laws, and shared memory of compiled kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.formats import get_format
from perfatlas.hardware import resolve_system
from perfatlas.lab.tune import Chip, chip_of, constants, expert_layer, price_designs
from perfatlas.lab.tune.designs import Designs
from perfatlas.lab.tune.loop import L2, LATENCY, MEMORY, SHARED, TENSOR, VECTOR, Demand, times_of
from perfatlas.lab.tune.products import Product, row_tiles

H100 = resolve_system("h100_sxm").device
NAMES = ("bm", "bn", "bk", "group", "warps", "stages")


def _designs(*rows: tuple[int, ...]) -> Designs:
    return Designs(
        columns={
            name: np.array(c, float) for name, c in zip(NAMES, zip(*rows, strict=True), strict=True)
        }
    )


def _product(**changed: float) -> Product:
    sizes: dict[str, Any] = {"rows": 4096.0, "groups": 1, "n": 4096, "k": 4096}
    return Product(**{**sizes, "element_bytes": 2.0, **changed})


def _time_s(chip: Chip, **changed: float) -> float:
    part = _product(**changed)
    demand = part.demand(_designs((128, 128, 64, 8, 8, 4)), chip)
    return float(times_of(demand, chip).time_s_D[0])


def test_a_loop_by_hand() -> None:
    """132 tiles on 132 SMs: one each, of 10 steps of 1,000 cycles, 500 outside; no memory."""
    ones = np.ones(1)
    loop = constants() | {"latency_s": 0.0, "store_bytes_per_cycle": 1.0, "overlap_power": 2.0}
    chip = replace(chip_of(H100, get_format("bf16"), loop), clock_hz=1e9)
    units = {TENSOR: 900 * ones, SHARED: 0 * ones, VECTOR: 0 * ones, L2: 0 * ones}
    demand = Demand(
        tiles_D=132 * ones,
        steps_D=10 * ones,
        unit_cycles_D=units,
        chain_cycles_D=1000 * ones,
        ahead_D=2 * ones,
        tile_cycles_D=500 * ones,
        store_bytes_D=0 * ones,
        memory_bytes_D=0 * ones,
        threads_D=128 * ones,
        registers_D=64 * ones,
        shared_bytes_D=0 * ones,
        fixed_s=3e-6,
    )
    times = times_of(demand, chip)
    # serial 500 + 10 x 1,000 cycles at 1 GHz; tensor cores alone 9,000
    assert times.time_s_D[0] == pytest.approx(3e-6 + 10.5e-6)
    unit, alone_s = times.limiting(0)[0]
    assert unit == LATENCY
    assert alone_s == pytest.approx(10.5e-6)
    assert times.unit_s[TENSOR][0] == pytest.approx(9e-6)
    # twice the tiles on the same SMs: two of them share an SM, whose tensor cores take 18,000
    twice = times_of(replace(demand, tiles_D=264 * ones), chip)
    assert twice.time_s_D[0] == pytest.approx(3e-6 + 18e-6)
    memory = times_of(replace(demand, memory_bytes_D=3.35e6 * ones), chip).unit_s[MEMORY][0]
    assert memory == pytest.approx(1e-6 / loop["memory_efficiency"])


@pytest.mark.parametrize(
    ("name", "design", "shared_bytes"),
    [  # as Triton 3.9 compiled them for sm_90
        ("bf16", (64, 128, 64, 1, 4, 4), 98_304),
        ("bf16", (16, 64, 64, 1, 4, 4), 30_720),
        ("fp8_static", (16, 128, 128, 1, 4, 3), 36_864),
        ("fp8_static", (64, 128, 128, 1, 4, 4), 98_304),
        ("fp8_static", (128, 256, 128, 1, 8, 4), 196_608),
    ],
)
def test_shared_memory_is_that_of_compiled_kernels(
    name: str, design: tuple[int, ...], shared_bytes: int
) -> None:
    kind = get_format(name)
    part = _product(element_bytes=kind.activation_bytes)
    demand = part.demand(_designs(design), chip_of(H100, kind))
    assert demand.shared_bytes_D[0] == shared_bytes


def test_fp8_tiles_of_16_rows_are_multiplied_in_16_bits_on_hopper() -> None:
    """Conversions, and the rate of bf16; 64 rows have twice the rate of bf16, without any."""
    fp8, bf16 = (chip_of(H100, get_format(name)) for name in ("fp8_static", "bf16"))
    few, many = (16, 128, 128, 1, 4, 3), (64, 128, 128, 1, 4, 3)
    own = _product(element_bytes=1.0).demand(_designs(few, many), fp8).unit_cycles_D
    wide = _product().demand(_designs(few, many), bf16).unit_cycles_D
    assert own[TENSOR][0] == pytest.approx(wide[TENSOR][0], rel=1e-3)
    assert own[TENSOR][1] == pytest.approx(wide[TENSOR][1] / 2, rel=1e-3)
    assert own[VECTOR][0] > 0.0 == own[VECTOR][1]


def test_tiles_of_routed_rows() -> None:
    """A mean of 1 row in tiles of 16: one tile for each group with rows, 1 - 1/e of them."""
    part = _product(rows=128.0, groups=128, routed=True)
    tiles, active = row_tiles(part, np.array([16.0, 32.0]))
    assert active == pytest.approx(128 * (1 - np.exp(-1)))
    assert tiles == pytest.approx([active, active])
    even, groups = row_tiles(replace(part, routed=False), np.array([16.0]))
    assert (even[0], groups) == (128.0, 128.0)


@given(st.sampled_from(["sm_count", "memory_bytes_per_s", "clock_hz", "mma_flop", "l2_bytes"]))
def test_a_faster_chip_is_never_slower(name: str) -> None:
    chip = chip_of(H100, get_format("bf16"))
    faster = replace(chip, **{name: type(getattr(chip, name))(2 * getattr(chip, name))})
    assert _time_s(faster) <= _time_s(chip) * (1 + 1e-12)


@given(st.integers(1, 1 << 14), st.integers(1, 1 << 14))
def test_more_rows_never_take_less_time(a: int, b: int) -> None:
    chip = chip_of(H100, get_format("bf16"))
    few, many = sorted((a, b))
    assert _time_s(chip, rows=float(few)) <= _time_s(chip, rows=float(many)) * (1 + 1e-12)


@pytest.mark.parametrize("tokens", [4, 16, 64, 512, 4096])
def test_experts_in_fp8_are_not_slower_than_in_bf16(tokens: int) -> None:
    """Measured: 0.83 to 0.9 of bf16 at few tokens, where both are tuned."""
    best = {}
    for name in ("fp8_static", "bf16"):
        kind = get_format(name)
        chip = chip_of(resolve_system("h200_sxm").device, kind)
        work = expert_layer(
            tokens=tokens,
            hidden=2048,
            intermediate=96,
            experts=128,
            top_k=8,
            number_format=kind,
            chip=chip,
        )
        best[name] = price_designs(work, chip).times.time_s_D.min()
    assert 0.45 <= best["fp8_static"] / best["bf16"] <= 1.1
