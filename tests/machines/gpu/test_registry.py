from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfatlas.hardware import resolve_system
from perfatlas.machines import DeviceColumns, price_operators
from perfatlas.machines.gpu import shapes
from perfatlas.machines.gpu.devices import silicon_row
from perfatlas.measurements.calibrations import KERNELS
from perfatlas.operators import Collective, Operator, Phase
from tests.laws.support import attention, latent_attention

ONE = np.ones(1)
OPERATORS = [
    attention(Phase.PREFILL, ONE, 64.0 * ONE, 64.0 * ONE),
    attention(Phase.DECODE, ONE, ONE, 64.0 * ONE),
    latent_attention(Phase.PREFILL, ONE, 64.0 * ONE, 64.0 * ONE),
    latent_attention(Phase.DECODE, ONE, ONE, 64.0 * ONE),
]


def test_the_folders_of_kernels_declare_every_operator_that_is_calibrated() -> None:
    assert set(shapes.kernel_shapes()) == set(KERNELS)


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda op: f"{op.kind} {op.phase}")
def test_an_operator_has_the_columns_that_its_physics_reads(operator: Operator) -> None:
    key = shapes.calibration_key(operator)
    assert key is not None
    assert set(shapes.physics_model(key[0]).shape_names) <= set(shapes.shape_columns(operator))


@pytest.mark.parametrize("name", shapes.kernel_shapes())
@pytest.mark.parametrize("rows", [0, 1])
def test_a_kernel_is_priced_on_tables_without_rows_and_with_one_row(name: str, rows: int) -> None:
    model = shapes.physics_model(name)
    shape_UD = np.ones((rows, len(model.shape_names)))
    silicon = silicon_row(resolve_system("h200_sxm").device, "bf16")
    parameters_UP = np.ones((rows, len(model.parameter_names)))
    time_s_U, code_U = model(shape_UD, np.tile(silicon, (rows, 1)), parameters_UP)
    assert time_s_U.shape == code_U.shape == (rows,)
    assert (time_s_U > 0.0).all()


def test_operators_are_priced_without_candidates() -> None:
    nothing = np.zeros(0)
    operators = [
        attention(phase, nothing, nothing, nothing) for phase in (Phase.PREFILL, Phase.DECODE)
    ]
    devices = DeviceColumns(
        devices=(resolve_system("h200_sxm").device,), index_C=np.zeros(0, np.int64)
    )
    priced = price_operators(operators, devices, family="vllm", tier="physics")
    assert priced.time_s_CO.shape == (0, 2)


def test_a_forward_step_runs_the_kernels_of_a_prefill_and_gradients_are_not_measured() -> None:
    devices = DeviceColumns(
        devices=(resolve_system("h200_sxm").device,), index_C=np.zeros(1, np.int64)
    )
    prefill = OPERATORS[0]
    phases = [replace(prefill, phase=phase) for phase in Phase]
    priced = price_operators(phases, devices, family="vllm", tier="physics")
    time_s = dict(zip(Phase, priced.time_s_CO[0].tolist(), strict=True))
    assert time_s[Phase.FORWARD] == time_s[Phase.PREFILL]
    measured = dict(zip(Phase, (priced.match_CO[0] >= 0).tolist(), strict=True))
    assert measured[Phase.PREFILL]
    assert not measured[Phase.WEIGHT_GRADIENT]


def test_a_kind_without_a_folder_has_no_physics() -> None:
    message = Collective(
        name="sum",
        phase=Phase.DECODE,
        count=ONE,
        op="all_reduce",
        bytes=ONE,
        ranks=2.0 * ONE,
        stride=ONE,
    )
    assert shapes.calibration_key(message) is None
    with pytest.raises(TypeError, match="collective"):
        shapes.shape_columns(message)
