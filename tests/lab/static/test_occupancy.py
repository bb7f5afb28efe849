"""Blocks of an SM, worked by hand from the limits of its target."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.lab.static import occupancy
from perfatlas.lab.static.kernel import Kernel
from perfatlas.lab.static.tools import nvidia_files
from perfatlas.quantities import InvalidSpecError

HEADERS = nvidia_files("include/cuda_occupancy.h")


def _found(
    target: str = "sm_90",
    *,
    registers: int = 32,
    threads: int = 128,
    shared: int = 0,
    columns: int = 0,
) -> dict[str, Any]:
    kernel = Kernel(
        function="k",
        target=target,
        registers=registers,
        threads=threads,
        shared_memory_bytes=shared,
        tensor_memory_columns=columns,
    )
    found = occupancy.occupancy_of(kernel)
    assert found is not None
    return found


def test_registers_by_hand() -> None:
    """168 registers of a warp are 5,376; a partition of 16,384 holds 3 warps, the SM 12."""
    found = _found(registers=168, threads=384)
    assert (found["blocks_per_sm"], found["warps_per_sm"]) == (1, 12)
    assert found["limited_by"] == ["registers"]
    assert found["share"] == 12 / 64


def test_shared_memory_by_hand() -> None:
    """A block of 96 KiB has 1 KiB reserved: 233,472 / 99,328 = 2.35."""
    found = _found(shared=98304)
    assert (found["blocks_per_sm"], found["limited_by"]) == (2, ["shared memory"])
    assert _found("sm_120", shared=98304)["blocks_per_sm"] == 1


def test_tensor_memory_by_hand() -> None:
    found = _found("sm_100", columns=256)
    assert (found["blocks_per_sm"], found["limited_by"]) == (2, ["tensor memory"])


def test_waves_of_amd_gpus_by_hand() -> None:
    """136 of 512 registers: 3 waves of each of 4 SIMDs, 12 waves, 3 blocks of 4 waves."""
    found = _found("gfx942", registers=132, threads=256)
    assert (found["blocks_per_sm"], found["warps_per_sm"], found["max_warps_per_sm"]) == (3, 12, 32)


@given(
    st.integers(1, 255),
    st.integers(1, 1024),
    st.integers(0, 232448),
    st.sampled_from(occupancy.target_names()),
)
def test_more_of_anything_never_raises_occupancy(
    registers: int, threads: int, shared: int, target: str
) -> None:
    base = _found(target, registers=registers, threads=threads, shared=shared)
    limits = occupancy.limits_of(target)
    assert limits is not None
    assert 0 <= base["warps_per_sm"] <= limits.warps
    for more, most in ((registers + 8, shared), (registers, shared + 4096)):
        found = _found(target, registers=more, threads=threads, shared=most)
        assert found["blocks_per_sm"] <= base["blocks_per_sm"]


def test_what_is_missing_leaves_occupancy_unknown() -> None:
    assert occupancy.occupancy_of(Kernel(function="k", target="sm_90", registers=32)) is None
    other = Kernel(function="k", target="sm_52", registers=32, threads=32, shared_memory_bytes=0)
    assert occupancy.occupancy_of(other) is None


def test_unknown_targets_are_refused() -> None:
    assert occupancy.plain_target("sm_103a") == "sm_103"
    with pytest.raises(InvalidSpecError, match="did you mean 'sm_90'"):
        occupancy.plain_target("sm_91")


@pytest.mark.skipif(
    not HEADERS or shutil.which("g++") is None,
    reason="needs g++ and cuda_occupancy.h of the extra cuda",
)
def test_nvidia_computes_the_same(tmp_path: Path) -> None:
    source = Path(__file__).with_name("vendor_occupancy.cpp")
    program = tmp_path / "occupancy"
    build = ["g++", "-w", f"-I{HEADERS[0].parent}", str(source), "-o", str(program)]
    subprocess.run(build, check=True)
    draw, rows, ours = np.random.default_rng(38), [], []
    for target in (name for name in occupancy.target_names() if name.startswith("sm_")):
        limits = occupancy.limits_of(target)
        assert limits is not None
        number, most = int(target[3:]), limits.shared_bytes - limits.reserved_bytes
        for _ in range(300):
            registers, threads = int(draw.integers(16, 256)), int(draw.integers(1, 1025))
            shared = int(draw.integers(2) * draw.integers(most))
            sizes = (limits.warps, limits.shared_bytes, limits.reserved_bytes)
            rows.append((number // 10, number % 10, *sizes, registers, threads, shared))
            found = _found(target, registers=registers, threads=threads, shared=shared)
            ours.append(found["blocks_per_sm"])
    text = "\n".join(" ".join(map(str, row)) for row in rows)
    theirs = subprocess.run([program], input=text, text=True, capture_output=True, check=True)
    assert ours == [int(line) for line in theirs.stdout.split()]


@given(
    st.sampled_from(occupancy.target_names()),
    st.integers(1, 256),
    st.integers(1, 1024),
    st.integers(0, 300_000),
)
def test_a_block_has_a_launch_problem_where_no_block_fits(
    target: str, registers: int, threads: int, shared: int
) -> None:
    kernel = Kernel(
        function="k",
        target=target,
        registers=registers,
        threads=threads,
        shared_memory_bytes=shared,
    )
    found = occupancy.occupancy_of(kernel)
    assert found is not None
    assert bool(occupancy.launch_problem(kernel)) is (found["blocks_per_sm"] == 0)
