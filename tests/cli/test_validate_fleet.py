from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from perfatlas.cli import main
from perfatlas.fleet import validation
from perfatlas.fleet.agreement import Agreement, pattern_study

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(300)  # the first one compiles the simulator


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the studies that take seconds to their own tests."""
    for name in ("renewal_study", "spares_study", "ageing_study"):
        monkeypatch.setattr(validation, name, list)


@pytest.mark.usefixtures("quick")
def test_every_figure_is_reproduced_missed_or_declined(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["validate", "fleet"]) == 0
    text = capsys.readouterr().out
    assert "published figures reproduced: 3" in text
    assert "published figures inside the range of what is not published: 2" in text
    assert "published figures that are arithmetic of their own table, and tell nothing: 6" in text
    assert "published figures missed: 5" in text
    assert "81 %, ours 62.86 to 82.05" in text
    assert "published figures declined: 118" in text
    assert "7.9 h, ours 28.85, +265.1%" in text
    assert max(map(len, text.splitlines())) <= 80
    assert main(["validate", "fleet", "--json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert len(results["figures"]) == sum(results["counts"].values())
    assert all(abs(row["z"]) <= 3 for row in results["agreement"])


@pytest.mark.usefixtures("quick")
def test_a_point_far_off_fails_the_gate(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (row, *_) = pattern_study()
    off = Agreement(
        group=row.group,
        name="moved",
        exact=row.simulated + 4 * row.standard_error,
        simulated=row.simulated,
        standard_error=row.standard_error,
        half_width=row.half_width,
        replicas=row.replicas,
    )
    monkeypatch.setattr(validation, "ageing_study", lambda: [off])
    assert main(["validate", "fleet"]) == 7
    assert "moved: simulated" in capsys.readouterr().err


@pytest.mark.usefixtures("quick")
def test_figures_of_another_file_need_a_rule_or_a_reason(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["validate", "fleet", "--figures", str(tmp_path / "none.csv")]) == 3
    assert "cannot be read" in capsys.readouterr().err
    path = tmp_path / "figures.csv"
    path.write_text("source,metric,value,value_max,qualifier,unit,n_gpus\nA,b,1,,=,h,8\n")
    assert main(["validate", "fleet", "--figures", str(path)]) == 3
    assert "neither a rule nor a reason" in capsys.readouterr().err
