from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from perfatlas.quantities import InvalidSpecError, parse_duration, parse_rate
from perfatlas.reliability.fleet import laws
from perfatlas.reliability.fleet.model import Cause, Job, Level, Repair, Strategy
from perfatlas.reliability.fleet.model.file_fields import Lifetime
from perfatlas.reliability.fleet.model.fleet_file import read_fleet
from perfatlas.reliability.fleet.simulator import simulate

GOOD = """
units = 20
gpus_per_unit = 8
crews = 2

[[cause]]
name = "node"
per_unit = 1
lifetime = { law = "exponential", rate = "6.5e-3 /d" }
detection = "2 min"
lemons = { share = 0.1, factor = 5, strikes = 3 }

[[cause]]
name = "fan"
per_unit = 4
age = "1 y"
as_old = true
repair = "ladder"
lifetime = { law = "weibull", shape = 2, scale = "10 y" }

[[cause]]
name = "slow"
shared = 1
effect = "slows"
slowdown = 1.3
lasts = { law = "empirical", values = ["1 h", "30 min", "5 h"] }

[cause.lifetime]
law = "bathtub"
infant_shape = 0.5
infant_scale = "400 d"
chance_mean = "100 d"
wear_shape = 5
wear_scale = "80 d"

[[repair]]
name = "ladder"
relapse = "1 h"
stages = [
  { name = "reset", lasts = "10 min", fixes = 0.5, false_fix = 0.2 },
  { name = "swap", lasts = { law = "lognormal", median = "4 h", sigma = 1 } },
]
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "fleet.toml"
    path.write_text(text, "utf-8")
    return path


def test_a_fleet_is_read_and_runs(tmp_path: Path) -> None:
    fleet = read_fleet(written(tmp_path, GOOD))
    node, fan, slow = fleet.causes
    assert node.lifetime == laws.Exponential(mean_s=1 / (6.5e-3 / 86400))
    assert node.detection == laws.Constant(value_s=120.0)
    assert (fan.age_s, fan.as_old) == (31557600.0, True)
    assert isinstance(fan.lifetime, laws.Weibull)
    assert isinstance(slow.lifetime, laws.Bathtub)
    assert slow.lasts == laws.Empirical(values_s=(3600.0, 1800.0, 18000.0))
    assert fleet.repairs[0].stages[1].lasts == laws.LogNormal(median_s=14400.0, sigma=1.0)
    job = Job(fleet=fleet, units=16, horizon_s=100 * 86400.0)
    strategy = Strategy(interval_s=600.0, levels=(Level(write_s=5.0),))
    assert 0.9 < simulate(job, strategy, replicas=20).goodput < 1.0


CAUSE = '[[cause]]\nname = "node"\nper_unit = 1\nlifetime = {lifetime}\n'
HUNDRED_DAYS = '{ law = "exponential", mean = "100 d" }'
ONE = "units = 4\n" + CAUSE.replace("{lifetime}", HUNDRED_DAYS)


def test_files_that_would_mislead_are_refused(tmp_path: Path) -> None:
    odd = ONE.replace('"node"', r'"a\u001b[31mb"')
    for text, words in (
        (odd, r"name = 'a\x1b[31mb': expected a name without"),
        ("units = 4\nx = " + "[" * 5000 + "]" * 5000, "nested too deeply"),
    ):
        with pytest.raises(InvalidSpecError) as caught:
            read_fleet(written(tmp_path, text))
        assert words in str(caught.value)
        assert str(caught.value).isprintable()


def test_a_file_that_is_not_utf_8_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_bytes(ONE.replace('"node"', '"n\xf6de"').encode("latin-1"))
    with pytest.raises(InvalidSpecError, match="0xf6 in line 3"):
        read_fleet(path)


def test_durations_and_rates_by_hand() -> None:
    assert parse_duration("54 d", field="x") == 54 * 86400
    assert parse_duration("1_000us", field="x") == pytest.approx(1e-3)
    assert parse_rate("2 /h", field="x") == pytest.approx(2 / 3600)
    assert parse_rate("100 FIT", field="x") == pytest.approx(100e-9 / 3600)
    with pytest.raises(InvalidSpecError, match="finite"):
        parse_duration("1e400 s", field="x")


def _told_keys(heading: str) -> set[str]:
    """Return what the first column of a table of docs/fleet.md names."""
    page = (Path(__file__).parents[3] / "docs" / "fleet.md").read_text("utf-8")
    rows = page.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return {key for row in rows for key in re.findall(r"`(\w+)`", row.split("|")[1])}


def test_the_document_tells_every_key_of_a_cause_and_of_a_repair() -> None:
    """Its tables name what a file may hold: as many keys as the model has, no others."""
    causes = {field.name for field in fields(Cause)} - {"age_s", "events"}
    assert _told_keys("key of `[[cause]]`") == causes | {"age"}
    assert _told_keys("key of `[[repair]]`") == {field.name for field in fields(Repair)}


def test_the_document_tells_every_law() -> None:
    with pytest.raises(InvalidSpecError, match="is not one of") as refusal:
        Lifetime().read({"law": "none"}, "lifetime")
    listed = str(refusal.value).split("is not one of ")[1].split("; ")[0]
    assert _told_keys("law") == set(listed.split(", "))
