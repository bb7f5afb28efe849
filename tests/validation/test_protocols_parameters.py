from __future__ import annotations

from dataclasses import replace

import pytest

from perfatlas.fitting.cells import device_cells
from perfatlas.measurements.tables import has_silicon
from validation.scoring.parameters import counted

pytestmark = pytest.mark.skipif(
    not has_silicon(), reason="the measured tables of perfatlas[silicon] are not installed"
)


def test_parameters_are_fitted_chosen_or_held() -> None:
    cell = next(one for one in device_cells("h200_sxm", ("streaming",)))
    first, second = tuple(cell.ranges)[:2]
    two = replace(cell, grid=({first: 1.0, second: 1.0}, {first: 2.0, second: 1.0}))
    found = counted(two)
    assert found.fitted == len(cell.ranges) - 2
    assert (found.chosen, found.held, found.alternatives) == ((first,), 1, 2)
    # what one alternative holds and the other fits is chosen as well
    assert counted(replace(cell, grid=({first: 1.0}, {}))).chosen == (first,)


def test_no_cell_fits_more_than_ten() -> None:
    for cell in device_cells("h200_sxm"):
        found = counted(cell)
        assert found.fitted <= 10, cell.id
        assert found.fitted + len(found.chosen) + found.held == len(cell.ranges)
