"""Single changes to a job on a fleet."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from perfatlas.verbs.goodput import goodput

DAY = 86400.0
SILENT = """
units = 64
[[cause]]
name = "node"
per_unit = 1
lifetime = { law = "exponential", mean = "60 d" }
[[cause]]
name = "quiet"
lifetime = { law = "exponential", mean = "300 d" }
per_unit = 1
effect = "corrupts"
lasts = { law = "exponential", mean = "2 h" }
"""
STRATEGY = """
[[strategy]]
name = "{name}"
{more}
[[strategy.checkpoint]]
name = "disk"
write = "10 s"
[[strategy.restart]]
name = "all"
phases = {{ load = "1 min" }}
"""
WEARING = """
units = 520
[[cause]]
name = "node"
lifetime = { law = "weibull", shape = 3, scale = "300 d" }
per_unit = 1
"""
TAKEN = 'takes = "nothing"'
JOB: dict[str, Any] = {"gpus": 480, "half_width": 0.05, "duration_s": 20 * DAY}
TIMES: dict[str, Any] = {"checkpoint_write_s": 10, "restart_s": 60, "checkpoint_interval_s": 1200}


def changes(**fields: Any) -> dict[str, dict[str, Any]]:  # noqa: ANN401 - fields of any kind
    rows = goodput(**fields, what_if=True).results["changes"]
    return {row["name"]: row for row in rows}


def written(folder: Path, text: str) -> str:
    path = folder / "fleet.toml"
    path.write_text(text, "utf-8")
    return str(path)


def test_verification_and_more_checkpoints_help_against_silent_errors(tmp_path: Path) -> None:
    fleet = written(tmp_path, SILENT)
    found = changes(fleet=fleet, **JOB, **TIMES, verify_s=20)
    # 0.2 errors a day, noticed 2 h late: of 4 in 20 days a share e^(-kx) (e^x - 1) / x is later
    # than k checkpoints, x = 1210 s / 2 h; 0.0117 errors at k = 35, 0.0099 at 36
    assert "instead of 1" in found["36 checkpoints kept"]["assumes"]
    assert "20 s before each; all silent errors" in found["every checkpoint verified"]["assumes"]
    for name, more in (
        ("every checkpoint verified", 'verify = "20 s"'),
        ("36 checkpoints kept", "retained = 36"),
    ):
        text = SILENT + STRATEGY.format(name="s", more=f'interval = "20 min"\n{more}')
        alone = goodput(fleet=written(tmp_path, text), **JOB).results
        assert found[name]["goodput"] == pytest.approx(alone["goodput"], abs=0.03)
        assert found[name]["gained_gpu_hours"] > 10_000


def test_a_verification_of_unknown_length_is_not_tried(tmp_path: Path) -> None:
    fleet = written(tmp_path, SILENT)
    assert "every checkpoint verified" not in changes(fleet=fleet, **JOB, **TIMES)
    long = TIMES | {"checkpoint_interval_s": 4 * 3600}
    assert [name for name in changes(fleet=fleet, **JOB, **long) if "kept" in name]
    plenty = SILENT + STRATEGY.format(name="s", more='interval = "20 min"\nretained = 36')
    found = changes(fleet=written(tmp_path, plenty), **JOB)
    assert not [name for name in found if "kept" in name]
    fleet = written(tmp_path, SILENT)
    bare = STRATEGY.format(name="bare", more="")
    text = bare + STRATEGY.format(name="sure", more='verify = "9 s"')
    found = changes(fleet=written(tmp_path, SILENT + text), **JOB)
    assumes = found["every checkpoint verified"]["assumes"]
    assert "9 s before each, as in strategy 'sure'" in assumes
    assert "the optimum then" in assumes
    loud = SILENT.partition('[[cause]]\nname = "quiet')[0]
    found = changes(fleet=written(tmp_path, loud + text), **JOB)
    assert "every checkpoint verified" not in found


def test_faster_checkpoints_thirty_spares_and_a_hot_standby_are_all_answered() -> None:
    asked: dict[str, Any] = {
        "fleet": "llama3", "gpus": 16_384, "checkpoint_write_s": 30, "restart_s": 300,
        "half_width": 0.05, "duration_s": 10 * DAY,
    }  # fmt: skip
    found = changes(**asked, spare_start_s=300)
    wanted = {"checkpoints written twice as fast", "30 more spares", "hot spares"}
    assert wanted <= set(found)
    none = changes(**asked, spare_start_s=300, spares=0)
    cold, hot = none["30 more spares"], none["30 more spares, hot"]
    assert hot["gained_gpu_hours"] > cold["gained_gpu_hours"] > 0.0
    assert hot["added_gpu_hours"] == cold["added_gpu_hours"] == 30 * 8 * 240
    at_once = goodput(**asked, what_if=True)
    assert not any("hot" in row["name"] for row in at_once.results["changes"])
    assert any("spare_start_s" in said for said in at_once.evidence.assumptions)


def test_work_held_by_peers_is_not_lost(tmp_path: Path) -> None:
    """A day of work in stretches of two hours: only what a failure would undo is unsaved."""
    often, seldom = (
        f'lifetime = {{ law = "exponential", mean = "{days} d" }}\n' for days in (40, 50)
    )
    nodes = f'units = 40\n[[cause]]\nname = "node"\nper_unit = 1\n{often}'
    rows = f'[[cause]]\nname = "row"\nshared = 1\nloses = "domain"\n{seldom}'
    asked: dict[str, Any] = {
        "gpus": 256, "spares": 8, "duration_s": DAY, "checkpoint_interval_s": 7200.0,
        "half_width": 0.01,
    }  # fmt: skip
    peers = STRATEGY.format(name="peers", more='lost_step = "30 s"')
    held = goodput(fleet=written(tmp_path, nodes + peers), **asked)
    assert not any("of the useful work is at the end" in said for said in held.warnings)
    # the step of 30 s is less than a thousandth of the day
    assert held.results["goodput"] - held.results["goodput_low"] < 0.01
    wider = goodput(fleet=written(tmp_path, nodes + rows + peers), **asked)
    assert any("only peers hold at the end" in said for said in wider.warnings)
    alone = STRATEGY.format(name="disk", more="")
    bare = goodput(fleet=written(tmp_path, nodes + alone), **asked)
    assert any("no checkpoint covers at the end" in said for said in bare.warnings)
    assert bare.results["goodput"] - bare.results["goodput_low"] > 0.03


@pytest.mark.parametrize("ages", ["new", "mixed"])
def test_half_as_many_failures_lose_half_whatever_the_law(tmp_path: Path, ages: str) -> None:
    """Only restarts of 3 minutes are lost: half the failures lose half."""
    text = WEARING.replace("300 d", "60 d").replace("per_unit = 1", "per_unit = 1\n" + TAKEN)
    fleet = written(tmp_path, text + f'ages = "{ages}"\n')
    asked: dict[str, Any] = {
        "fleet": fleet, "gpus": 4096, "duration_s": 20 * DAY, "checkpoint_write_s": 0,
        "checkpoint_interval_s": 1, "restart_s": 180, "half_width": 0.0001,
    }  # fmt: skip
    found = goodput(**asked, what_if=True).results
    row = next(row for row in found["changes"] if row["name"] == "half as many failures")
    # of 512 new nodes 512 (20/60)^3 = 19 fail in 20 days, of mixed ages 512 x 20 / 53.6
    failures = 512 * ((20 / 60) ** 3 if ages == "new" else 20 / (60 * math.gamma(4 / 3)))
    assert row["gained_gpu_hours"] == pytest.approx(failures / 2 * 0.05 * 4096, rel=0.06)
    assert row["gained_gpu_hours"] == pytest.approx(found["lost_gpu_hours"] / 2, rel=0.06)
    assert row["gained_gpu_hours_half_width"] < 0.05 * row["gained_gpu_hours"]
