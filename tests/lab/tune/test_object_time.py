"""Times of compiled kernels: counts worked by hand, laws, refusals."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.cli import main
from perfatlas.formats import get_format
from perfatlas.hardware import resolve_system
from perfatlas.lab import tune
from perfatlas.lab.static.kernel import Instructions
from perfatlas.lab.static.ptx import ptx_kernels
from perfatlas.lab.tune import loop
from perfatlas.lab.tune.object_demand import counted_demand
from perfatlas.lab.tune.object_time import stalls, vetoes

H100 = resolve_system("h100_sxm").device
CHIP = tune.chip_of(H100, get_format("bf16"))
# Tiles of 64 x 128 in steps of 64: 12 copies of 16 bytes of a thread and 4 products in the loop
PTX = (Path(__file__).parents[3] / "examples" / "kernels" / "product.ptx").read_text("utf-8")
GEMM = replace(ptx_kernels(PTX, "product.ptx")[0], registers=96)


def _time(grid: int, trips: int, memory_bytes: float = 0.0) -> float:
    asked = tune.Launch(grid=grid, trips=(trips,), memory_bytes=memory_bytes)
    return float(tune.time_compiled(GEMM, H100, asked)[0]["time_s"])


def test_demand_worked_by_hand() -> None:
    demand = counted_demand(GEMM, CHIP, tune.Launch(grid=512, trips=(3, 64)))
    assert (demand.tiles_D[0], demand.steps_D[0]) == (1536, 64)
    # 4 x 2 x 64 x 128 x 16 FLOP of one warp group; 4096 per cycle of an SM in 16 bits
    assert CHIP.mma_flop == pytest.approx(4096, rel=0.01)
    rate = CHIP.mma_flop * CHIP.loop["mma_efficiency"]
    assert demand.unit_cycles_D[loop.TENSOR][0] == pytest.approx(1_048_576 / rate)
    # operands: 4 x (64 + 128) rows x 32 bytes at twice the rate of loads; copies of 64 x 192 x 2
    assert demand.unit_cycles_D[loop.SHARED][0] == (4 * 192 * 32 / 2 + 24_576) / 128
    assert demand.unit_cycles_D[loop.L2][0] == pytest.approx(24_576 / CHIP.l2_bytes)
    assert demand.unit_cycles_D[loop.ISSUE][0] == 18  # instructions x 4 warps / 4 schedulers
    assert demand.ahead_D[0] == 2
    # 128 threads store 16 bytes, after one conversion each
    stored = 2048 + 128 / CHIP.loop["conversions_per_cycle"] * CHIP.loop["store_bytes_per_cycle"]
    assert demand.store_bytes_D[0] == pytest.approx(stored)


def test_masked_rows_load_and_store_nothing() -> None:
    launch = tune.Launch(grid=1)
    half, whole = (counted_demand(GEMM, CHIP, launch, filled=share) for share in (0.5, 1.0))
    assert half.unit_cycles_D[loop.L2][0] == whole.unit_cycles_D[loop.L2][0] / 2
    assert half.unit_cycles_D[loop.TENSOR][0] == whole.unit_cycles_D[loop.TENSOR][0]


@given(grid=st.integers(1, 100_000), trips=st.integers(1, 10_000), more=st.integers(1, 1000))
def test_more_blocks_and_trips_take_no_less_time(grid: int, trips: int, more: int) -> None:
    time_s = _time(grid, trips)
    assert _time(grid=grid + more, trips=trips) >= time_s
    assert _time(grid=grid, trips=trips + more) >= time_s
    assert _time(grid=grid, trips=trips, memory_bytes=1e9) >= time_s


def test_half_the_clock_doubles_the_cycles_of_an_sm() -> None:
    demand = replace(counted_demand(GEMM, CHIP, tune.Launch(grid=512, trips=(64,))), fixed_s=0.0)
    chip = replace(CHIP, loop=CHIP.loop | {"latency_s": 0.0})
    slow = replace(chip, clock_hz=chip.clock_hz / 2)
    fast_s, slow_s = (float(loop.times_of(demand, one).time_s_D[0]) for one in (chip, slow))
    assert slow_s == pytest.approx(2 * fast_s)


def test_roles_share_the_rows_of_a_block() -> None:
    """Two groups of warps with a loop each compute twice the products of one loop."""
    main = GEMM.main_loop
    assert main is not None
    roles = replace(GEMM, setmaxnreg=3, threads=384, loops=(main, main))
    one, both = (counted_demand(kernel, CHIP, tune.Launch(grid=1)) for kernel in (GEMM, roles))
    assert both.unit_cycles_D[loop.TENSOR][0] == 2 * one.unit_cycles_D[loop.TENSOR][0]


def test_shares_of_stalls_add_up() -> None:
    demand = counted_demand(GEMM, CHIP, tune.Launch(grid=700, trips=(64,)))
    assert math.fsum(row["share"] for row in stalls([demand], CHIP)) == pytest.approx(1.0)


def test_vetoes() -> None:
    main = Instructions(
        count=10,
        mma={"HMMA.16816.F32.BF16": 8},
        work={"global_load": 8, "narrow_load": 8, "shared_store": 8},
    )
    kernel = replace(
        *(GEMM,), main_loop=main, instructions=main, registers=32, shared_memory_bytes=100_000
    )
    demand = counted_demand(kernel, CHIP, tune.Launch(grid=512, trips=(64,)))
    narrow, ahead, occupancy = vetoes(kernel, demand, CHIP)
    assert "fewer than 8 bytes" in narrow
    assert "0 steps ahead" in ahead
    assert "holds 2 blocks, and registers and threads allow 16" in occupancy


def test_the_loss_of_a_compiler_has_its_cause() -> None:
    three_blocks = tune.Launch(grid=396, trips=(64,))  # of each SM
    design = counted_demand(GEMM, CHIP, three_blocks)

    def loss(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - facts of a kernel
        return tune.compiler_loss(replace(GEMM, **changes), [design], H100)

    assert loss()["compiler_loss"] == 1.0
    late = loss(instructions=GEMM.main_loop)  # no copy ahead of the loop
    assert late["compiler_loss"] > 1.0
    assert late["compiler_loss_from"] == "fewer loads ahead than the stages of the design"
    assert loss(registers=255)["compiler_loss_from"].startswith("lower occupancy")
    assert GEMM.main_loop is not None
    spilled = loss(main_loop=replace(GEMM.main_loop, local_loads=3))
    assert spilled["compiler_loss_from"].startswith("3 loads and stores of spilled registers")


def test_designs_of_the_registry_by_shape() -> None:
    sizes = {"m": 4096, "n": 4096, "k": 4096}
    (demand,) = tune.registry_demands("gemm", sizes, H100)
    assert demand.tiles_D[0] == 4096 / 128 * 4096 / 256
    layer = {"tokens": 16, "hidden": 2048, "intermediate": 768, "experts": 128, "top_k": 8}
    up, down = tune.registry_demands("grouped_gemm_fp8", layer, H100)
    assert (up.steps_D[0], down.steps_D[0]) == (16, 6)
    assert np.all(up.filled_D is not None and up.filled_D < 1)


def _file(tmp_path: Path) -> str:
    path = tmp_path / "gemm.ptx"
    path.write_text(PTX)
    return str(path)


LAUNCH = ("--time", "--system", "h100_sxm", "--grid", "512", "--trips", "2,64")


def test_inspect_with_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["kernel", "inspect", _file(tmp_path), *LAUNCH]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["results"]
    assert found["time_s_low"] < found["time_s"] < found["time_s_high"]
    assert found["units"][0]["unit"] == found["limiting_unit"]
    assert any("set --bytes" in text for text in found["warnings"])
    assert main([*words, "--bytes", "50000000", "--reproducer", str(tmp_path / "r")]) == 0
    assert "limited by" in capsys.readouterr().out
    assert "blocks spend" in (tmp_path / "r" / "notes.txt").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--time", "--grid", "512"), "set --system"),
        (("--time", "--system", "h100_sxm"), "set --grid"),
        (("--time", "--system", "h100_sxm", "--grid", "0"), "--grid 0 is out of bounds"),
        ((*LAUNCH[:5], "--trips", "8,-3"), "--trips has '-3'"),
        ((*LAUNCH, "--shape", "m=1"), "--shape applies only to kernels of perfatlas"),
        (("--grid", "512"), "--grid applies only to --time"),
    ],
)
def test_launches_that_are_none_are_refused(
    words: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["kernel", "inspect", _file(tmp_path), *words]) == 3
    assert message in capsys.readouterr().err


def test_code_of_another_target_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--time", "--system", "b200_sxm", "--grid", "512")
    assert main(["kernel", "inspect", _file(tmp_path), *words]) == 5
    assert "code for sm_90, and b200_sxm runs sm_100" in capsys.readouterr().err
