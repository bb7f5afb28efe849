from __future__ import annotations

import subprocess
import sys
from typing import Any, cast

import numpy as np
import pytest

from perfatlas.compiled.loops import FEW_ROWS, Compiled
from perfatlas.hardware import resolve_system
from perfatlas.machines.gpu.devices import silicon_row
from perfatlas.machines.gpu.kernels.gemm import gemm_time_s
from perfatlas.measurements.calibrations import load_calibrations
from perfatlas.operators import FloatArray

NO_SCRATCH = np.empty(0)


def gemm_arguments(rows: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    generator = np.random.default_rng(7)
    sizes = generator.integers(1, 20_000, (rows, 3)).astype(np.float64)
    shape_UD = np.column_stack((sizes, np.full((rows, 3), 2.0), np.zeros((rows, 7))))
    device = resolve_system("h200_sxm").device
    silicon_US = np.tile(silicon_row(device, "bf16"), (rows, 1))
    fitted = load_calibrations("h200_sxm")["h200_sxm/gemm/vllm/bf16"].parameters
    parameters_UP = np.tile([fitted[name] for name in gemm_time_s.parameter_names], (rows, 1))
    return shape_UD, silicon_US, parameters_UP


def test_interpreted_and_compiled_loops_agree_to_the_last_digits() -> None:
    shape_UD, silicon_US, parameters_UP = gemm_arguments(FEW_ROWS)
    answers = {}
    for rows in (FEW_ROWS - 1, FEW_ROWS):
        fresh = cast("Any", Compiled(cast("Any", gemm_time_s.loop).function))
        times, codes = np.empty(rows), np.empty(rows, np.int8)
        fresh(shape_UD[:rows], silicon_US[:rows], parameters_UP[:rows], times, codes, NO_SCRATCH)
        answers[fresh.machine is not None] = times[: FEW_ROWS - 1], codes[: FEW_ROWS - 1].tolist()
    (interpreted_s, codes), (compiled_s, compiled_codes) = answers[False], answers[True]
    assert interpreted_s == pytest.approx(compiled_s, rel=1e-12)
    assert codes == compiled_codes


@pytest.mark.parametrize("rows", [FEW_ROWS - 1, FEW_ROWS])
def test_results_reach_strided_arrays_of_any_size(rows: int) -> None:
    loop = cast("Any", Compiled(cast("Any", gemm_time_s.loop).function))
    times, codes = np.zeros((rows, 2)), np.empty(rows, np.int8)
    loop(*gemm_arguments(rows), times[:, 0], codes, NO_SCRATCH)
    assert (times[:, 0] > 0.0).all()
    assert (times[:, 1] == 0.0).all()


@pytest.mark.parametrize(
    "words",
    [
        "estimate --model meta-llama/Llama-3.1-70B --system h200_sxm --tp 8 --format fp8",
        "goodput --method exact --mtti-s 10000 --checkpoint-write-s 60 --restart-s 300",
    ],
    ids=["estimate", "goodput"],
)
def test_one_scenario_never_loads_the_compiler(words: str) -> None:
    program = (
        "import sys; from perfatlas.cli import main; code = main(sys.argv[1:]);"
        "sys.stderr.write(' '.join(sys.modules)); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words.split()], capture_output=True, text=True, check=True
    )
    loaded = set(done.stderr.split())
    assert not loaded & {"numba", "scipy", "pyarrow", "torch", "numpy.ma"}
    simulators = ("serving.run", "serving.policies", "serving.traces", "fleet.simulator")
    assert not loaded & {f"perfatlas.{name}" for name in (*simulators, "scenario.traffic")}
