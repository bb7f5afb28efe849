from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perfatlas.measurements.tables import has_silicon
from perfatlas.quantities import UnsupportedError, UsageError
from validation.kernels.kernels_page import page_text
from validation.kernels.operators import calibration_hash, validate_collectives, validate_kernels
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


def test_collectives_have_their_own_verb() -> None:
    result = validate_collectives(["h200_sxm"], ["all_reduce"], "few-shot", rows=20)
    assert result["protocol"] == "few-shot 20"
    row = only(result, "h200_sxm/all_reduce/nccl/bf16")
    assert row["rows"] + 20 == 63
    assert row["mape"] < row["two_parameter_mape"]
    with pytest.raises(UnsupportedError, match="no measured tables of 'all_reduce'"):
        validate_kernels(["h200_sxm"], ["all_reduce"])


def test_unknown_protocols_are_refused() -> None:
    with pytest.raises(UsageError, match="did you mean 'unseen-device'"):
        validate_kernels(["h200_sxm"], ["gemm"], "unseen-devise")


def test_a_page_holds_what_was_scored() -> None:
    results = {
        name: validate_kernels(["h200_sxm"], ["mla_decode"], name)
        for name in ("own", "unseen-device")
    }
    text = page_text(results, "checked elsewhere")
    assert "checked elsewhere" in text
    assert calibration_hash() in text
    assert "make validate" in text
    row = only(results["own"], "h200_sxm/mla_decode/trtllm/bf16")
    assert f"| mla_decode trtllm bf16 | {100 * row['mape']:.1f} |" in text


def test_a_page_is_asked_for_alone_and_where_it_can_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    assert main(["kernels", "--page", str(page), "--system", "h200_sxm"]) == 2
    err = capsys.readouterr().err
    assert "--page covers all systems, operators and protocols; use it alone" in err
    assert main(["kernels", "--page", str(tmp_path / "no" / "page.md")]) == 3
    assert not page.exists()


def test_a_protocol_is_shown_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["collectives", "--system", "h200_sxm", "--protocol", "unseen-device"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "unseen-device" in text
    assert "h200_sxm/all_reduce/nccl/bf16" in text
    assert "Winkler" in text
