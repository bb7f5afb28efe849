from __future__ import annotations

import pytest

from perfatlas.fitting.cells import MEASURED_DEVICES
from perfatlas.fitting.cells.cell import is_excluded
from perfatlas.machines.gpu.shapes import physics_model
from perfatlas.measurements.calibrations import Calibration, load_calibrations

KERNELS = (
    "gemm",
    "moe",
    "streaming",
    "prefill_attention",
    "decode_attention",
    "mla_prefill",
    "mla_decode",
    "sparse_mla_prefill",
    "key_scores_prefill",
    "key_scores_decode",
    "key_selection",
    "scan_prefill",
    "scan_decode",
    "conv_prefill",
    "conv_decode",
)


def kernel_cells(device: str) -> list[Calibration]:
    return [cell for cell in load_calibrations(device).values() if cell.operator in KERNELS]


@pytest.mark.parametrize("device", MEASURED_DEVICES)
def test_every_cell_holds_what_its_kernel_reads(device: str) -> None:
    cells = kernel_cells(device)
    assert {cell.operator for cell in cells} >= set(KERNELS[:2]) | set(KERNELS[3:5])
    for cell in cells:
        names = physics_model(cell.operator).parameter_names
        assert tuple(cell.parameters) == names, cell.id


@pytest.mark.parametrize("device", MEASURED_DEVICES)
def test_no_efficiency_beats_the_hardware(device: str) -> None:
    for cell in kernel_cells(device):
        for name, value in cell.parameters.items():
            assert not name.startswith("efficiency") or 0.0 < value <= 1.0, f"{cell.id} {name}"


@pytest.mark.parametrize("device", MEASURED_DEVICES)
def test_no_excluded_cell_is_shipped(device: str) -> None:
    for cell in kernel_cells(device):
        assert not is_excluded(device, cell.operator, cell.family, cell.format), cell.id


@pytest.mark.parametrize("device", MEASURED_DEVICES)
def test_physics_explains_more_than_a_roofline(device: str) -> None:
    for cell in kernel_cells(device):
        assert cell.mape < cell.baselines["roofline_mape"], cell.id
