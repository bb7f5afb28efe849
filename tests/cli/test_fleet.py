from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perfatlas.cli import main
from perfatlas.files import read_table

START = datetime(2026, 3, 1, tzinfo=UTC)
WATCH = ["--start", "2026-03-01T00:00:00Z", "--end", "2026-04-01T00:00:00Z"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A kernel log of 200 Xid errors, each repeated once, with an unrelated line each."""
    draw = random.Random(5)  # noqa: S311 - a fixture
    lines = []
    for second in sorted(draw.sample(range(30 * 86_400), 200)):
        stamp = (START + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%SZ")
        node = f"n{draw.choice([7] * 60 + list(range(64))):03d}"
        xid = f"{stamp} {node} kernel: NVRM: Xid (PCI:0000:61:00): 79, GPU has fallen off"
        lines += [xid, xid, f"{stamp} {node} kernel: usb 1-1: new device"]
    path = tmp_path / "kern.log"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def history(log: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = log.with_name("history.parquet")
    assert main(["fleet", "import", "--format", "xid", str(log), "--output", str(path)]) == 0
    capsys.readouterr()
    return path


@pytest.fixture
def fleet(history: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = history.with_name("fleet.toml")
    words = ["--nodes", "64", *WATCH, "--output", str(path)]
    assert main(["fleet", "fit", str(history), *words]) == 0
    capsys.readouterr()
    return path


def test_an_import_accounts_for_every_line(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = log.with_name("h.csv")
    words = ["fleet", "import", "--format", "xid", str(log), "--output", str(output)]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "200 events: 200 failures" in text
    assert "200: repeat of a code on the same GPU (200, first at 2)" in text
    assert "200: line without an Xid (200, first at 3)" in text
    assert read_table(str(output)).rows == 200
    assert main([*words, "--json"]) == 0
    (file,) = json.loads(capsys.readouterr().out)["results"]["files"]
    assert file["parsed"] + sum(file["merged"].values()) + sum(file["ignored"].values()) == 600


def test_logs_become_a_fleet_that_goodput_runs(
    fleet: Path, history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--nodes", "64", *WATCH, "--output", str(fleet)]
    assert main(["fleet", "fit", str(history), *words, "--json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    (cause,) = results["causes"]
    assert cause["events"] == 200
    assert [lemon["node"] for lemon in cause["lemon_nodes"]] == ["n007"]
    assert any(remark.startswith("1 lemon node:") for remark in cause["remarks"])
    job = ["--checkpoint-write-s", "10", "--restart-s", "60", "--half-width", "0.01"]
    assert main(["goodput", "--fleet", str(fleet), *job, "--json"]) == 0
    per_day = json.loads(capsys.readouterr().out)["results"]["interruptions_per_day"]
    assert per_day == pytest.approx(200 / 31, rel=0.25)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "its events are from 2026-03-01"),
        (["--nodes", "0", *WATCH], 3, "nodes = 0"),
        (["--nodes", "64", *WATCH, "--units", "nic"], 3, "such as nic=16384"),
        (["--nodes", "64", "--start", "soon", "--end", "2026-04-01T00:00:00Z"], 3, "soon"),
        (
            ["--nodes", "64", *WATCH[2:], "--start", "2026-05-01T00:00:00Z"],
            3,
            "not after its start",
        ),
        (["--nodes", "4", *WATCH], 3, "the logs name 53 nodes"),
        (["--nodes", "64", *WATCH, "--units", "gpu=4"], 3, "are named, but 4 observed"),
    ],
)
def test_a_fit_refuses_inconsistent_input(
    history: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, said: str
) -> None:
    output = [] if not words else ["--output", str(history.with_name("f.toml"))]
    assert main(["fleet", "fit", str(history), *words, *output]) == code
    assert said in capsys.readouterr().err


def test_a_component_needs_a_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "h.csv"
    table.write_text("start_s,component,cause,kind\n2026-03-02T00:00:00Z,nic,link_down,failure\n")
    words = ["--nodes", "4", *WATCH, "--output", str(tmp_path / "f.toml")]
    assert main(["fleet", "fit", str(table), *words]) == 3
    assert "--units nic=NUMBER" in capsys.readouterr().err
    assert main(["fleet", "fit", str(table), *words, "--units", "nic=32"]) == 0
    assert "nic_link_down" in capsys.readouterr().out


def test_a_log_of_another_format_is_refused_and_an_empty_one_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, output = tmp_path / "log.json", ["--output", str(tmp_path / "h.csv")]
    events = "NodeName|TimeStart|TimeEnd|State|Reason\nn1|2026-03-01T00:00:00|Unknown|DOWN|x\n"
    for text, form, told in (
        (events, "xid", "was recognized as format 'xid'; it looks like 'slurm_events'"),
        ('{"items": [{"a": 1}]}', "kubernetes", "as format 'kubernetes'; choose its --format"),
    ):
        log.write_text(text)
        assert main(["fleet", "import", str(log), "--format", form, *output]) == 3
        assert told in " ".join(capsys.readouterr().err.split())
    log.write_text('{"items": []}')
    assert main(["fleet", "import", str(log), "--format", "kubernetes", *output]) == 0
    assert "log.json contains no records" in capsys.readouterr().err
    log.write_text("2026-03-01T00:00:00Z n1 kernel: usb 1-1: new device\n")
    assert main(["fleet", "import", str(log), "--format", "xid", *output]) == 0
