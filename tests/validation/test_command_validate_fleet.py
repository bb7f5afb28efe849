from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import pytest

from validation.fleet import study as validation
from validation.fleet.agreement import Measured, Point
from validation.fleet.agreement_patterns import verified_points
from validation.program import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip slow studies, which have their own tests, and simulate one less precisely."""
    coarse = partial(verified_points, half_width=0.008)
    monkeypatch.setattr(validation, "STUDIES", (coarse,))


@pytest.mark.study
@pytest.mark.usefixtures("quick")
def test_every_figure_is_reproduced_missed_or_declined(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["fleet"]) == 0
    brief = capsys.readouterr().out.splitlines()
    assert len(brief) <= 33
    assert "published figures declined: 104" in brief
    assert main(["fleet", "--verbose"]) == 0
    text = capsys.readouterr().out
    assert "published figures reproduced: 1" in text
    assert "or a bound that holds: 11" in " ".join(text.split())
    assert "published figures that only restate their own table: 10" in text
    assert "published figures missed: 8" in text
    assert "81 %, predicted 62.86 to 82.05" in text
    assert "published figures declined: 104" in text
    assert "47.7 d, predicted 42.13, -11.7%" in text
    assert "check values reproduced to the last digit: 41 of 41" in text
    assert "all 10: largest deviation" in text
    assert max(map(len, text.splitlines())) <= 80
    assert main(["fleet", "--json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert len(results["figures"]) == sum(results["counts"].values())
    assert all(abs(row["z"]) <= 3 for row in results["agreement"])
    assert results["together"]["points"] == len(results["agreement"]) == 10


@pytest.mark.study
@pytest.mark.usefixtures("quick")
def test_a_point_far_off_fails_the_gate(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(_seed: int, _finer: int) -> Measured:
        return Measured(1.5, 0.1, 0.2, 100)

    point = Point(group="moved", name="by five errors", exact=1.0, measure=wrong)
    monkeypatch.setattr(validation, "STUDIES", (lambda: [point],))
    assert main(["fleet"]) == 7
    shown = capsys.readouterr().err
    assert "moved, by five errors: simulated 1.5, exact 1, +5.0 standard errors apart" in shown
    assert "all 1 point: sum of squares 25" in shown


@pytest.mark.usefixtures("quick")
def test_new_figures_need_a_rule_or_a_reason(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["fleet", "--figures", str(tmp_path / "none.csv")]) == 3
    assert f"cannot read the figures '{tmp_path / 'none.csv'}'" in capsys.readouterr().err
    path = tmp_path / "figures.csv"
    path.write_text("source,metric,value,value_max,qualifier,unit,n_gpus\nA,b,1,,=,h,8\n")
    assert main(["fleet", "--figures", str(path)]) == 3
    assert "neither a rule nor a reason" in capsys.readouterr().err
