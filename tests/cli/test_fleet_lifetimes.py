from __future__ import annotations

import gzip
import json
import math
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from perfatlas.cli import main
from perfatlas.files import file_hash, write_table
from perfatlas.quantities.durations import SECONDS
from perfatlas.reliability.fleet.laws import LogNormal, Weibull, mean_s
from perfatlas.reliability.fleet.model import mean_repair_s
from perfatlas.reliability.fleet.model.fleet_file import read_fleet
from tests.reliability.telemetry.support import shared

DOCUMENT = Path(__file__).parents[2] / "docs" / "telemetry.md"
FIT = ["fleet", "fit", "--lifetimes"]
YEAR_S = SECONDS["y"]
COLUMNS = ["--age", "years", "--failed", "dead"]
# 40 units, of which those that failed did so at 1, 2, ... 20 years; the others are 21 years old
ROWS = [(age, "TRUE") for age in range(1, 21)] + [(21, "FALSE")] * 20
TEXT = "years,dead,batch\n" + "".join(f"{age},{dead},old\n" for age, dead in ROWS)


@pytest.fixture
def units(tmp_path: Path) -> Path:
    path = tmp_path / "units.csv"
    path.write_text(TEXT + "3,TRUE,new\n", "utf-8")
    return path


def fitted(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main([*FIT, *words, *COLUMNS, "--time-unit", "y", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)["results"]
    return found


def test_laws_and_the_curve_of_a_table_by_hand(
    units: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(units), "--where", "batch=old", "--survival-at", "0.5", "--survival-at", "10"]
    found = fitted(words, capsys)
    # 20 failures in 1 + 2 + ... + 20 + 20 x 21 = 630 years: a mean of 31.5 and, with its rate r,
    # a log-likelihood of 20 ln r - 20
    (exponential,) = [law for law in found["laws"] if law["law"] == "exponential"]
    assert exponential["parameters"]["mean"]["value"] == pytest.approx(31.5)
    assert exponential["log_likelihood"] == pytest.approx(20 * math.log(20 / 630) - 20)
    ends = exponential["parameters"]["mean"]
    assert ends["low"] < 31.5 < ends["high"]
    assert [row["share"] for row in found["survival"]] == pytest.approx([1.0, 30 / 40])
    assert found["file"]["ignored"] == {"header": 1, "batch is not old": 1}


def test_all_table_formats_give_equal_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "u.csv").write_text(TEXT, "utf-8")
    (tmp_path / "u.csv.gz").write_bytes(gzip.compress(TEXT.encode()))
    ages, dead = zip(*ROWS, strict=True)
    columns = {"years": [float(age) for age in ages], "dead": [mark == "TRUE" for mark in dead]}
    for name in ("u.parquet", "u.jsonl"):
        write_table(str(tmp_path / name), columns)
    told = [
        fitted([str(tmp_path / name)], capsys)["laws"]
        for name in ("u.csv", "u.csv.gz", "u.parquet", "u.jsonl")
    ]
    assert told[0] == told[1] == told[2] == told[3]


def test_units_seen_late_are_no_evidence_of_the_time_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "late.csv"
    path.write_text("years,dead,seen\n2,TRUE,0\n6,FALSE,4\n", "utf-8")
    law = fitted([str(path), "--entry", "seen"], capsys)["laws"][0]
    assert law["parameters"]["mean"]["value"] == pytest.approx(2.0 + 2.0)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (COLUMNS, 2, "missing --time-unit"),
        ([*COLUMNS, "--time-unit", "years"], 2, "time-unit"),
        (["--failed", "dead", "--time-unit", "y"], 2, "missing --age"),
        (
            [*COLUMNS, "--time-unit", "y", "--nodes", "8"],
            2,
            "--nodes requires --output; for example",
        ),
        ([*COLUMNS, "--time-unit", "y", "--law", "bathtub"], 2, "law"),
        ([*COLUMNS, "--time-unit", "y", "--where", "old"], 3, "such as batch=old"),
        ([*COLUMNS, "--time-unit", "y", "--where", "batch=odd"], 3, "no row with batch = odd"),
        ([*COLUMNS, "--time-unit", "y", "--survival-at", "50"], 3, "largest observed age, 21"),
        ([*COLUMNS, "--time-unit", "y", "--survival-at", "nan"], 3, "survival_at = nan"),
        (["--age", "year", "--failed", "dead", "--time-unit", "y"], 3, "did you mean 'years'"),
        ([*COLUMNS[:2], "--failed", "batch", "--time-unit", "y"], 3, "line 2, column 'batch'"),
    ],
)
def test_input_errors_name_their_location(
    units: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, said: str
) -> None:
    assert main([*FIT, str(units), *words]) == code
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            {"years": -1.0, "dead": True},
            "row 2, column 'years': '-1.0': expected an age of at least 0",
        ),
        ({"years": None, "dead": True}, "row 2, column 'years': '' is not an age"),
        (
            {"years": 0.0, "dead": True},
            "row 2, column 'years': last seen at 0: observed for no time",
        ),
        ({"years": 1.0, "dead": 7}, "row 2, column 'dead': '7' is neither true nor false"),
    ],
)
def test_a_wrong_cell_of_a_typed_table_names_its_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], row: dict[str, object], said: str
) -> None:
    path = tmp_path / "units.jsonl"
    path.write_text(f'{{"years": 2.0, "dead": true}}\n{json.dumps(row)}\n', "utf-8")
    assert main([*FIT, str(path), *COLUMNS, "--time-unit", "y"]) == 3
    assert said in capsys.readouterr().err


def test_units_none_of_which_failed_have_no_law(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "units.csv"
    path.write_text("years,dead\n2,no\n", "utf-8")
    assert main([*FIT, str(path), *COLUMNS, "--time-unit", "y"]) == 4
    assert "none of 1 unit failed" in capsys.readouterr().err


FLEET = ["--component", "gpu", "--nodes", "8", "--gpus-per-node", "5", "--repair-s", "7200"]


@pytest.mark.parametrize("law", ["weibull", "lognormal", "exponential"])
def test_the_law_in_the_fleet_is_the_law_fitted(
    units: Path, capsys: pytest.CaptureFixture[str], law: str
) -> None:
    path = units.with_name("fleet.toml")
    words = [str(units), "--where", "batch=old", "--law", law, *FLEET, "--output", str(path)]
    found = fitted(words, capsys)
    assert found["taken"] == law
    (parameters,) = [row["parameters"] for row in found["laws"] if row["law"] == law]
    value = {name: known["value"] for name, known in parameters.items()}
    fleet = read_fleet(path)
    (cause,) = fleet.causes
    if isinstance(cause.lifetime, Weibull):
        read = {"shape": cause.lifetime.shape, "scale": cause.lifetime.scale_s / YEAR_S}
    elif isinstance(cause.lifetime, LogNormal):
        read = {"mu": math.log(cause.lifetime.median_s / YEAR_S), "sigma": cause.lifetime.sigma}
    else:
        read = {"mean": mean_s(cause.lifetime) / YEAR_S}
    assert read == pytest.approx(value, rel=1e-7)
    assert (fleet.units, fleet.gpus_per_unit, cause.name) == (8, 5, "gpu")
    assert cause.per_unit == 5.0
    assert cause.ages == ("new" if law == "exponential" else "mixed")
    assert mean_repair_s(fleet.repairs[0]) == 7200.0
    beside = tomllib.loads(Path(found["evidence"]).read_text("utf-8"))
    assert beside["fleet_hash"] == file_hash(path)
    (told,) = beside["cause"]
    assert (told["events"], told["exposure"]) == (20, "630 y")
    assert beside["file"][0]["hash"] == file_hash(units)
    for name, (low, high) in told["law_interval"].items():
        written = tomllib.loads(path.read_text("utf-8"))["cause"][0]["lifetime"][name]
        ends = [float(str(end).removesuffix(" y")) for end in (low, written, high)]
        assert ends == sorted(ends)


def test_a_lifetime_fleet_has_evidence_and_runs(
    units: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = units.with_name("fleet.toml")
    words = [str(units), "--where", "batch=old", *COLUMNS, "--time-unit", "y"]
    words += ["--law", "exponential", *FLEET, "--output", str(path)]
    assert main([*FIT, *words]) == 0
    assert f"next: perfatlas goodput --fleet {path}" in capsys.readouterr().out
    head = [line for line in path.read_text("utf-8").splitlines() if line.startswith("#")]
    assert f"# 40 units, 20 failed in {630} y of observation." in head
    assert file_hash(units) in head[0]
    job = ["--checkpoint-write-s", "10", "--restart-s", "60", "--half-width", "0.01"]
    assert main(["goodput", "--fleet", str(path), *job, "--json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    # 40 GPUs that fail once in 31.5 years each
    per_day = 40 / (31.5 * 365.25)
    assert results["interruptions_per_day"] == pytest.approx(per_day, rel=0.15)
    assert main(["fleet", "report", str(path), "-o", str(path.with_suffix(".html"))]) == 0
    assert "Evidence" in path.with_suffix(".html").read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--output", "f.toml"], 2, "missing --component, --nodes and --repair-s"),
        (FLEET[:4], 2, "--nodes and --component require --output; for example"),
        ([*FLEET, "--output", "f.toml", "--start", "2026-01-01"], 2, "leave --start out"),
        ([*FLEET[2:], "--output", "f.toml", "--component", "nic"], 3, "--units nic=NUMBER"),
        ([*FLEET[2:], "--output", "f.toml", "--component", ""], 3, "component is empty"),
        ([*FLEET[:-1], "-1", "--output", "f.toml"], 3, "repair_s = -1"),
        ([*FLEET[:3], "0", *FLEET[4:], "--output", "f.toml"], 3, "nodes = 0"),
        ([*FLEET, "--output", "no/f.toml"], 3, "no"),
    ],
)
def test_missing_fleet_facts_are_requested(
    units: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    code: int,
    said: str,
) -> None:
    monkeypatch.chdir(units.parent)
    assert main([*FIT, str(units), *COLUMNS, "--time-unit", "y", *words]) == code
    assert said in capsys.readouterr().err
    assert not (units.parent / "f.toml").exists()


def test_parts_that_nodes_share_are_counted_by_units(
    units: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = units.with_name("fleet.toml")
    words = ["--component", "nic", "--units", "nic=12", "--nodes", "8", "--repair-s", "0"]
    fitted([str(units), *words, "--start-ages", "new", "--output", str(path)], capsys)
    (cause,) = read_fleet(path).causes
    assert (cause.per_unit, cause.ages) == (1.5, "new")


@pytest.mark.study
def test_the_lifetimes_of_titan_by_the_commands_of_the_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = shared("titan_gpulife/gc_summary_loc.csv.gz")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / table.name).symlink_to(table)
    text = DOCUMENT.read_text("utf-8")
    block = re.search(r"```\n\$ perfatlas (fleet fit .*?)\n\n(.*?)```", text, re.DOTALL)
    assert block is not None
    words = block[1].replace("\\\n", " ").split()
    assert main(words) == 0
    assert capsys.readouterr().out.strip() == block[2].strip()
    fleet = re.search(r"```toml\n(# Fitted by perfatlas.*?)```", text, re.DOTALL)
    assert fleet is not None
    assert Path("titan.toml").read_text("utf-8").strip() == fleet[1].strip()
    assert main([*words, "--json"]) == 0
    laws = {law["law"]: law for law in json.loads(capsys.readouterr().out)["results"]["laws"]}
    weibull = {name: known["value"] for name, known in laws["weibull"]["parameters"].items()}
    assert weibull == pytest.approx({"shape": 2.63845, "scale": 7.11248}, rel=1e-5)
    assert laws["lognormal"]["log_likelihood"] == pytest.approx(-16253.876, abs=1e-3)
    job = re.search(r"```\n\$ perfatlas (goodput .*?)\n\n(.*?)\n\.\.\.\n```", text, re.DOTALL)
    assert job is not None
    assert main(job[1].split()) == 0
    assert job[2].strip() in capsys.readouterr().out
