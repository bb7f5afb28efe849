from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfatlas.hardware import resolve_system
from perfatlas.machines import DeviceColumns, price_operators
from perfatlas.machines.gpu.shapes import (
    calibration_key,
    kernel_shapes,
    physics_model,
    shape_columns,
)
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
    assert set(kernel_shapes()) == set(KERNELS)


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda op: f"{op.kind} {op.phase}")
def test_an_operator_has_the_columns_that_its_physics_reads(operator: Operator) -> None:
    key = calibration_key(operator)
    assert key is not None
    assert set(physics_model(key[0]).shape_names) <= set(shape_columns(operator))


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
    assert not measured[Phase.DATA_GRADIENT]
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
    assert calibration_key(message) is None
    with pytest.raises(TypeError, match="collective"):
        shape_columns(message)
