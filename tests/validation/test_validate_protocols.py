from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perfatlas.measurements.tables import has_silicon
from perfatlas.quantities import UsageError
from validation.kernels.operators import validate_kernels
from validation.program import main

pytestmark = pytest.mark.skipif(
    not has_silicon(), reason="the measured tables of perfatlas[silicon] are not installed"
)
PROTOCOLS = ("own", "unseen-shapes", "unseen-device", "unseen-family", "few-shot")


def only(result: dict[str, Any], cell: str) -> dict[str, Any]:
    found = [row for row in result["cells"] if row["cell"] == cell]
    assert len(found) == 1
    row: dict[str, Any] = found[0]
    return row


@pytest.mark.study
def test_every_protocol_knows_less_than_the_one_before() -> None:
    cell = "h200_sxm/streaming/vllm/bf16"
    scored = {
        name: only(validate_kernels(["h200_sxm"], ["streaming"], name), cell) for name in PROTOCOLS
    }
    assert scored["own"]["mape"] < scored["unseen-device"]["mape"] <= 1.0
    assert scored["own"]["mape"] < scored["unseen-family"]["mape"]
    assert scored["unseen-device"]["known_rows"] == 0
    assert scored["few-shot"]["known_rows"] == 50
    assert scored["few-shot"]["rows"] == scored["own"]["rows"] - 50
    assert scored["unseen-shapes"]["rows"] < scored["own"]["rows"] / 2
    assert "h200_sxm" not in scored["unseen-device"]["sources"]
    assert "h100_sxm" in scored["unseen-device"]["sources"]
    assert "h100_sxm" not in scored["unseen-family"]["sources"]
    for row in scored.values():
        assert 0.5 < row["inside_90"] <= 1.0
        assert row["interval_score"] > 0.0
        assert row["roofline_mape"] > row["mape"]


def test_unknown_protocols_are_refused() -> None:
    with pytest.raises(UsageError, match="did you mean 'unseen-device'"):
        validate_kernels(["h200_sxm"], ["gemm"], "unseen-devise")


def test_a_page_is_asked_for_alone_and_where_it_can_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    assert main(["kernels", "--page", str(page), "--system", "h200_sxm"]) == 2
    err = capsys.readouterr().err
    assert "--page covers all systems, operators and protocols; use it alone" in err
    assert main(["kernels", "--page", str(tmp_path / "no" / "page.md")]) == 3
    assert not page.exists()
