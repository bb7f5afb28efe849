"""`python -m validation collectives`: the meaning of bias in its tables."""

from __future__ import annotations

import pytest

from perfatlas.measurements.tables import has_silicon
from validation.program import main


@pytest.mark.skipif(not has_silicon(), reason="the measured tables are not installed")
def test_kernels_are_validated_on_one_device(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["kernels", "--system", "h200_sxm", "--operator", "streaming"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "h200_sxm/streaming/" in text
    assert "%" in text
