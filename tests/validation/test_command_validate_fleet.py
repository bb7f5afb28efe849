from __future__ import annotations

import json
from functools import partial

import pytest

from validation.fleet import study as validation
from validation.fleet.agreement import Measured, Point
from validation.fleet.agreement_patterns import verified_points
from validation.program import main


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip slow studies, which have their own tests, and simulate one less precisely."""
    coarse = partial(verified_points, half_width=0.008)
    monkeypatch.setattr(validation, "STUDIES", (coarse,))


@pytest.mark.study
@pytest.mark.usefixtures("quick")
def test_points_and_their_groups_are_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["fleet", "--verbose", "--points"]) == 0
    text = capsys.readouterr().out
    assert "all 10: largest deviation" in text
    assert max(map(len, text.splitlines())) <= 80
    assert main(["fleet", "--json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
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
