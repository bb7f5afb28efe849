from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from perfatlas.compiled.loops import FEW_ROWS, Compiled
from perfatlas.hardware import resolve_system
from perfatlas.kernels.devices import silicon_row
from perfatlas.kernels.gemm import gemm_time_s
from perfatlas.kernels.gemm.physics import GEMM_PARAMETERS
from perfatlas.measurements.calibrations import load_calibrations
from perfatlas.operators import FloatArray


def gemm_arguments(rows: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    generator = np.random.default_rng(7)
    sizes = generator.integers(1, 20_000, (rows, 3)).astype(np.float64)
    shape_UD = np.column_stack((sizes, np.full((rows, 3), 2.0), np.zeros((rows, 3))))
    device = resolve_system("h200_sxm").device
    silicon_US = np.tile(silicon_row(device, "bf16"), (rows, 1))
    fitted = load_calibrations("h200_sxm")["h200_sxm/gemm/vllm/bf16"].parameters
    parameters_UP = np.tile([fitted[name] for name in GEMM_PARAMETERS], (rows, 1))
    return shape_UD, silicon_US, parameters_UP


def test_interpreted_and_compiled_loops_agree_to_the_last_digits() -> None:
    loop = cast("Any", gemm_time_s)
    assert isinstance(loop, Compiled)
    many = gemm_arguments(FEW_ROWS)
    few = tuple(column[: FEW_ROWS - 1] for column in many)
    fresh = cast("Callable[..., tuple[FloatArray, FloatArray]]", Compiled(loop.function))
    interpreted_s, codes = fresh(*few)
    assert cast("Any", fresh).machine is None
    compiled_s, compiled_codes = fresh(*many)
    assert cast("Any", fresh).machine is not None
    assert interpreted_s == pytest.approx(compiled_s[: FEW_ROWS - 1], rel=1e-12)
    assert codes.tolist() == compiled_codes[: FEW_ROWS - 1].tolist()


def test_one_scenario_never_loads_the_compiler() -> None:
    program = (
        "import sys; from perfatlas import estimate;"
        "estimate(model='meta-llama/Llama-3.1-70B', system='h200_sxm', tp=8, format='fp8');"
        "print(sorted({'numba', 'scipy', 'pyarrow', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
