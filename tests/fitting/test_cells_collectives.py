from __future__ import annotations

import tomllib
from importlib import resources

import numpy as np
import pytest

from perfatlas.fitting import fit_cell, held_out, row_groups, taken
from perfatlas.fitting.cells import MEASURED_DEVICES, device_cells
from perfatlas.fitting.cells.collectives import CUSTOM_SWITCH_EXPONENTS, hand_over_sizes
from perfatlas.measurements.calibrations import load_calibrations
from perfatlas.measurements.tables import has_silicon

MIB = 2.0**20
needs_silicon = pytest.mark.skipif(
    not has_silicon(), reason="the measured tables of the extra silicon are not installed"
)


def test_a_limit_keeps_its_own_size_on_the_side_the_engine_puts_it() -> None:
    (below,) = hand_over_sizes("a100_sxm", "vllm", "0.14.0")  # fewer than 8 MiB stay
    (up_to,) = hand_over_sizes("a100_sxm", "sglang", "0.5.10")  # 8 MiB itself stays
    assert 4 * MIB < below < 8 * MIB <= up_to < 16 * MIB
    assert float(f"{below:.6g}") < 8 * MIB <= float(f"{up_to:.6g}")  # as stored


def test_where_no_source_names_a_size_powers_of_two_are_tried() -> None:
    tried = tuple(2.0**exponent for exponent in CUSTOM_SWITCH_EXPONENTS)
    assert hand_over_sizes("l40s", "vllm", "0.22.0") == tried  # no NVLink
    assert hand_over_sizes("h100_sxm", "trtllm", "1.3.0rc20") == tried
    assert hand_over_sizes("a100_sxm", "sglang", "9.9") == tried


def test_every_size_names_its_source() -> None:
    text = resources.files("perfatlas").joinpath("data/collectives/hand_over.toml")
    for rule in tomllib.loads(text.read_text("utf-8"))["hand_over"]:
        assert ".py" in rule["ref"]
        assert [*rule.get("below", ()), *rule.get("up_to", ())]


@pytest.mark.parametrize("device", MEASURED_DEVICES)
def test_shipped_hand_overs_are_those_of_the_sources(device: str) -> None:
    for cell in load_calibrations(device).values():
        if cell.operator == "custom_all_reduce":
            sizes = hand_over_sizes(device, cell.family, cell.data_version)
            known = np.array([float(f"{size:.6g}") for size in sizes])
            assert cell.parameters["switch_bytes"] in known, cell.id


@needs_silicon
@pytest.mark.parametrize("family", ["vllm", "sglang"])
def test_sizes_around_a_hand_over_are_predicted_unseen(family: str) -> None:
    # 4 and 8 MiB are among the sizes left out, on either side of where A100's hand over
    cells = device_cells("a100_sxm", ("custom_all_reduce",))
    cell = next(one for one in cells if one.family == family)
    rows = cell.load()
    held = held_out(row_groups(cell.operator, rows))
    assert held is not None
    assert {4 * MIB, 8 * MIB} <= set(rows.shape_UD[held, 0])
    parameters = fit_cell(cell, taken(rows, ~held), evaluations=400)
    unseen = taken(rows, held)
    error = np.abs(cell.predict(unseen.shape_UD, parameters) / unseen.measured_s - 1.0)
    assert float(np.mean(error)) < 0.12
