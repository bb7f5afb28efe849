"""Power over time against readings and published swings: errors that may only shrink."""

from __future__ import annotations

import json

import pytest

from perfatlas.files import shipped_table
from perfatlas.hardware import resolve_system
from validation.power.swings import validate_swings
from validation.program import main
from validation.runs import shared_folder

pytestmark = pytest.mark.skipif(
    not (shared_folder() / "power_machines.csv").is_file(), reason="shared data are missing"
)
# nodes under load (H200 fitted, H200 left out, B200) and before it; ramps have no error
MOST_ERRORS = (0.0087, 0.0239, 0.1138, 0.0074, 0.2569)


def test_errors_of_nodes_do_not_grow() -> None:
    found = validate_swings()
    assert [row["rows"] for row in found["summary"]] == [11, 6, 5, 17, 5, 22]
    for row, most in zip(found["summary"], MOST_ERRORS, strict=False):
        assert row["error"] <= most, row["what"]
    assert all(row["constant_error"] > 3.0 * row["error"] for row in found["summary"][:3])
    for end in ("", "_low", "_high"):
        (fans,) = found["fans"]
        assert fans[f"fitted{end}"] == pytest.approx(fans[f"shipped{end}"], abs=5e-4)
    nodes = {resolve_system(row["system"]).node.name for row in found["nodes"]}
    shipped = shipped_table("data/energy/nodes.toml")
    assert nodes == {name for name, row in shipped.items() if "compared" in row}
    by_limit = {
        row["limit_w"]: row["predicted_w"] for row in found["nodes"] if row["state"] == "fitted"
    }
    assert list(map(by_limit.get, sorted(by_limit))) == sorted(by_limit.values())
    inside = {row["figure"]: row["inside"] for row in found["figures"]}
    assert sum(inside.values()) >= 3


def test_the_command_prints_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["swings", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["results"]["ramps"]) == 22
