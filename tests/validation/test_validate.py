from __future__ import annotations

import pytest

from perfatlas.measurements.calibrations import load_calibrations
from perfatlas.measurements.tables import has_silicon
from validation.kernels.operators import validate_kernels

pytestmark = pytest.mark.skipif(
    not has_silicon(), reason="the measured tables of the extra silicon are not installed"
)


def test_shipped_errors_are_the_errors_of_the_shipped_parameters() -> None:
    result = validate_kernels(["h200_sxm"], ["gemm"])
    assert len(result["cells"]) >= 7
    for row in result["cells"]:
        shipped = load_calibrations("h200_sxm")[row["cell"]]
        assert row["mape"] == pytest.approx(shipped.mape, abs=2e-4)
        assert row["rows"] == shipped.rows
        assert row["mape"] < row["roofline_mape"]
        assert row["inside_90"] == pytest.approx(0.9, abs=0.01)
