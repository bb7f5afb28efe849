from __future__ import annotations

import gzip
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from perfatlas.cli import main
from perfatlas.files import write_table
from tests.telemetry.support import shared

DOCUMENT = Path(__file__).parents[2] / "docs" / "telemetry.md"
FIT = ["fleet", "fit", "--lifetimes"]
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


def test_every_form_of_a_table_tells_the_same(
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
        (COLUMNS, 2, "--time-unit missing"),
        ([*COLUMNS, "--time-unit", "years"], 2, "time-unit"),
        (["--failed", "dead", "--time-unit", "y"], 2, "--age missing"),
        ([*COLUMNS, "--time-unit", "y", "--nodes", "8"], 2, "leave --nodes out"),
        ([*COLUMNS, "--time-unit", "y", "--where", "old"], 3, "such as batch=old"),
        ([*COLUMNS, "--time-unit", "y", "--where", "batch=odd"], 3, "no row with batch = odd"),
        ([*COLUMNS, "--time-unit", "y", "--survival-at", "50"], 3, "watched up to 21"),
        ([*COLUMNS, "--time-unit", "y", "--survival-at", "nan"], 3, "survival_at = nan"),
        (["--age", "year", "--failed", "dead", "--time-unit", "y"], 3, "did you mean 'years'"),
        ([*COLUMNS[:2], "--failed", "batch", "--time-unit", "y"], 3, "line 2, column 'batch'"),
    ],
)
def test_a_wrong_question_names_its_place(
    units: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, said: str
) -> None:
    assert main([*FIT, str(units), *words]) == code
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"years": -1.0, "dead": True}, "row 2, column 'years': '-1.0' is no age of at least 0"),
        ({"years": None, "dead": True}, "row 2, column 'years': '' is no age"),
        ({"years": 0.0, "dead": True}, "row 2, column 'years': last seen at 0: for no time"),
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


def test_the_lifetimes_of_titan_by_the_command_of_the_document(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = shared("titan_gpulife/gc_summary_loc.csv.gz")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(table.parent)
    block = re.search(
        r"```\n\$ perfatlas (fleet fit .*?)\n\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL
    )
    assert block is not None
    words = block[1].replace("\\\n", " ").split()
    assert main(words) == 0
    assert capsys.readouterr().out.strip() == block[2].strip()
    assert main([*words, "--json"]) == 0
    laws = {law["law"]: law for law in json.loads(capsys.readouterr().out)["results"]["laws"]}
    weibull = {name: known["value"] for name, known in laws["weibull"]["parameters"].items()}
    assert weibull == pytest.approx({"shape": 2.63845, "scale": 7.11248}, rel=1e-5)
    assert laws["lognormal"]["log_likelihood"] == pytest.approx(-16253.876, abs=1e-3)
