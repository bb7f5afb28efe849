from __future__ import annotations

import pytest
from rich.console import Console

from perfatlas.report.text import print_waterfall


@pytest.mark.parametrize(
    ("hours", "said"), [(0.4, "0.4 GPU-h"), (123_456.7, "123,457 GPU-h"), (99.999, "100 GPU-h")]
)
def test_small_jobs_have_hours_too(
    hours: float, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_waterfall(
        Console(width=100),
        [{"name": "productive", "share": 1.0, "gpu_hours": hours}],
        {"productive": "useful"},
    )
    assert said in " ".join(capsys.readouterr().out.split())
