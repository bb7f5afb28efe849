"""`python -m validation collectives`: the meaning of bias in its tables."""

from __future__ import annotations

import pytest

from perfatlas.measurements.tables import has_silicon
from validation.kernels.published_collectives import validate_published
from validation.program import main


@pytest.mark.skipif(not has_silicon(), reason="the measured tables are not installed")
def test_the_bias_of_published_runs_is_their_mean_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    main(["collectives", "--verbose"])
    (total,) = (row for row in validate_published()["published_totals"] if row["op"] == "all")
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("all "))
    assert f"{100 * total['bias']:.1f}%" in line


@pytest.mark.skipif(not has_silicon(), reason="the measured tables are not installed")
def test_kernels_are_validated_on_one_device(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["kernels", "--system", "h200_sxm", "--operator", "streaming"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "h200_sxm/streaming/" in text
    assert "%" in text
