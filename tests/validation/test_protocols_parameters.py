from __future__ import annotations

import pytest

from perfatlas.fitting.cells import device_cells
from perfatlas.measurements.tables import has_silicon


@pytest.mark.skipif(
    not has_silicon(), reason="the measured tables of the extra silicon are not installed"
)
def test_no_cell_fits_more_than_ten() -> None:
    for cell in device_cells("h200_sxm"):
        chosen = {name for alternative in cell.grid for name in alternative}
        assert len(set(cell.ranges) - chosen) <= 10, cell.id
