from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from perfatlas.hardware import resolve_system
from perfatlas.measurements import calibrations
from perfatlas.measurements.calibrations.calibration import shipped_cells

MEASURED = ("a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm", "l40s", "rtx_pro_6000_server")


def find(
    system: str, operator: str, family: str, format_name: str
) -> calibrations.CalibrationMatch:
    match = calibrations.find_calibration(
        resolve_system(system).device, operator, family, format_name
    )
    assert match is not None
    return match


def test_a_measured_device_uses_its_own_cell() -> None:
    match = find("h200_sxm", "gemm", "vllm", "bf16")
    assert match.own
    assert match.notes == ()
    assert match.calibration.id == "h200_sxm/gemm/vllm/bf16"
    assert match.quantiles == match.calibration.residual_quantiles


def test_no_family_takes_the_most_accurate_engine() -> None:
    match = find("h200_sxm", "gemm", "", "bf16")
    cells = [c for c in calibrations.load_calibrations("h200_sxm").values() if c.operator == "gemm"]
    assert match.calibration.mape == min(c.mape for c in cells if c.format == "bf16")


def test_an_unmeasured_engine_uses_another_with_wider_quantiles() -> None:
    match = find("h200_sxm", "gemm", "vllm", "fp8_block")
    assert not match.own
    assert "vllm" in match.notes[0]
    own = match.calibration.residual_quantiles
    assert match.quantiles["q05"] <= own["q05"]
    assert match.quantiles["q95"] >= own["q95"]


def test_a_relative_lends_its_kernels_with_wider_tails() -> None:
    match = find("h100_pcie", "gemm", "vllm", "bf16")
    assert not match.own
    assert match.calibration.device == resolve_system("h100_pcie").device.calibration_relative
    assert "h100_pcie" in match.notes[0]
    assert match.quantiles["q95"] >= match.calibration.residual_quantiles["q95"]


def test_changed_silicon_is_not_the_measured_one() -> None:
    device = resolve_system("h200_sxm").device
    faster = dataclasses.replace(device, overridden=("device.memory.bandwidth",))
    match = calibrations.find_calibration(faster, "gemm", "vllm", "bf16")
    assert match is not None
    assert not match.own
    assert "memory.bandwidth" in match.notes[-1]
    assert match.quantiles["q05"] <= match.calibration.residual_quantiles["q05"]
    cooler = dataclasses.replace(device, overridden=("device.tdp", "device.scale_up.bandwidth"))
    assert calibrations.find_calibration(cooler, "gemm", "vllm", "bf16") == find(
        "h200_sxm", "gemm", "vllm", "bf16"
    )


def test_an_unmeasured_cell_uses_the_whole_set_of_one_donor() -> None:
    match = find("a100_sxm", "streaming", "vllm", "bf16")
    assert not match.own
    donor = match.calibration.device
    assert (
        match.calibration == calibrations.load_calibrations(donor)[f"{donor}/streaming/vllm/bf16"]
    )
    # Graphics boards have other dies: a data-centre device borrows of its kind.
    assert donor not in ("l40s", "rtx_pro_6000_server")
    assert f"parameters of {donor}" in match.notes[0]
    assert "of 8 measured devices" in match.notes[0]
    own = match.calibration.residual_quantiles
    assert match.quantiles["q95"] - match.quantiles["q05"] > own["q95"] - own["q05"]


def test_a_device_of_a_known_vendor_without_a_relative_borrows_a_donor() -> None:
    device = resolve_system("h200_sxm").device
    new = dataclasses.replace(device, name="new_one", architecture="new", calibration_relative="")
    match = calibrations.find_calibration(new, "gemm", "vllm", "fp8_dynamic")
    assert match is not None
    assert not match.own
    assert "parameters of" in match.notes[0]
    near = calibrations.find_calibration(
        dataclasses.replace(new, architecture="blackwell"), "gemm", "vllm", "fp8_dynamic"
    )
    assert near is not None
    assert resolve_system(near.calibration.device).device.architecture == "blackwell"
    # An unmeasured architecture has a wider interval than a twin of a measured one.
    assert match.quantiles["q05"] < near.quantiles["q05"]
    assert match.quantiles["q95"] > near.quantiles["q95"]
    stranger = dataclasses.replace(new, vendor="another")
    assert calibrations.find_calibration(stranger, "gemm", "vllm", "bf16") is None


def test_a_collective_borrows_from_links_of_its_kind() -> None:
    device = resolve_system("h200_sxm").device
    links = dataclasses.replace(device.scale_up, kind="pcie")
    new = dataclasses.replace(device, name="new_one", calibration_relative="", scale_up=links)
    match = calibrations.find_calibration(new, "all_reduce", "nccl", "bf16")
    assert match is not None
    assert resolve_system(match.calibration.device).device.scale_up.kind == "pcie"
    kernels = calibrations.find_calibration(new, "gemm", "vllm", "bf16")
    assert kernels is not None
    assert resolve_system(kernels.calibration.device).device.architecture == "hopper"


def test_a_device_without_kernels_has_none() -> None:
    assert (
        calibrations.find_calibration(resolve_system("cpu").device, "gemm", "vllm", "bf16") is None
    )
    assert calibrations.load_calibrations("cpu") == {}


@pytest.mark.parametrize("device", MEASURED)
def test_shipped_cells_are_sound(device: str) -> None:
    cells = calibrations.load_calibrations(device)
    assert len(cells) > 3
    for name, cell in cells.items():
        assert name == f"{device}/{cell.operator}/{cell.family}/{cell.format}"
        assert all(value >= 0.0 for value in cell.parameters.values())
        tails = cell.residual_quantiles
        assert tails["q05"] <= tails["q25"] <= tails["q50"] <= tails["q75"] <= tails["q95"]
        assert cell.rows > 0
        assert cell.data_hash.startswith("sha256:")


@settings(deadline=None)
@given(operator=st.text(max_size=20), family=st.text(max_size=8), name=st.text(max_size=12))
def test_any_name_gets_a_match_or_none(operator: str, family: str, name: str) -> None:
    match = calibrations.find_calibration(resolve_system("h200_sxm").device, operator, family, name)
    assert match is None or isinstance(match.calibration, calibrations.Calibration)


def test_the_file_is_what_is_loaded() -> None:
    path = calibrations.calibration_folder() / "h200_sxm.toml"
    assert calibrations.read_calibrations(path) == calibrations.load_calibrations("h200_sxm")


@pytest.mark.parametrize(
    "path",
    sorted(calibrations.calibration_folder().glob("*[0-9]*.toml")),
    ids=lambda path: path.stem,
)
def test_cells_parsed_alone_are_those_of_the_whole_file(path: Path) -> None:
    whole = calibrations.read_calibrations(path)
    kinds = dict.fromkeys((cell.operator, cell.format) for cell in whole.values())
    alone = [cell for kind in kinds for cell in shipped_cells(path.stem, *kind)]
    assert {cell.id: cell for cell in alone} == whole
    assert len(alone) == len(whole) > 0
    assert shipped_cells(path.stem, "gemm", "abacus") == ()
