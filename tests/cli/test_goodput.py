from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from perfatlas.cli import main
from perfatlas.files import read_table

if TYPE_CHECKING:
    from pathlib import Path

JOB = ["--checkpoint-write-s", "60", "--restart-s", "300"]


def test_the_answer_is_an_envelope_with_the_fixed_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["goodput", *JOB, "--mtti-s", "28440", "--gpus", "1024", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["command"] == "goodput"
    fixed = {"goodput", "goodput_low", "goodput_high", "optimal_checkpoint_interval_s"}
    assert {*fixed, "interruptions"} <= set(answer["results"])
    assert answer["breakdown"][0]["name"] == "productive"


def test_text_fits_80_columns_and_has_the_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = [*JOB, "--gpus", "131072", "--failure-rate", "rsc1_node", "--usd-per-gpu-hour", "2"]
    assert main(["goodput", *words]) == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("goodput", "restarting", "confidence", "GPU-hours"))
    *lines, last = text.splitlines()
    assert last.startswith("reproduce: perfatlas goodput --gpus 131072")
    assert max(map(len, lines)) <= 80


def test_an_answered_interval_leaves_the_question_as_it_was(tmp_path: Path) -> None:
    first, second, third = (tmp_path / f"{number}.csv" for number in range(3))
    first.write_text("mtti_s,failure_rate,gpus\n3600,,8\n,rsc1_node,1024\n", "utf-8")
    for source, target in ((first, second), (second, third)):
        assert main(["goodput", *JOB, "--table", str(source), "--output", str(target)]) == 0
        table = read_table(str(target))
        assert table.cells("mtti_s") == [3600, None]
        # 1,024 GPUs are 128 nodes; one fails 0.0065 times a day
        assert table.cells("result_mtti_s") == pytest.approx([3600, 86400 / (128 * 0.0065)])
        assert table.cells("error_code") == [None, None]


def test_spares_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--nodes", "2048", "--node-mtbf-s", "13292308", "--repair-s", "86400"]
    assert main(["goodput", "spares", *words, "--target", "0.999", "--verbose"]) == 0
    text = capsys.readouterr().out
    assert "0.136%" in text
    assert "Erlang-B" in text
    assert main(["goodput", "spares", *words, "--spares", "24", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["results"]["spares"] == 24


def test_a_fleet_is_answered_in_80_columns_and_as_a_page(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    page = tmp_path / "page.html"
    words = ["--fleet", "llama3", "--gpus", "16384", "--mfu", "0.4", "--half-width", "0.02"]
    more = ["--what-if", "--spare-start-s", "300", "--html", str(page)]
    assert main(["goodput", *JOB, *words, *more, "--verbose"]) == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("goodput decomposition", "30 more spares", "hot spares"))
    *lines, last = text.splitlines()
    assert "--what-if" in last
    assert max(map(len, lines)) <= 80
    assert "Where the time goes" in page.read_text("utf-8")


@pytest.mark.parametrize(("script", "most_bytes"), [("cdn", 20_000), ("none", 20_000)])
def test_a_page_can_leave_its_library_elsewhere(
    script: str, most_bytes: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    job = ["--gpus", "16384", "--mtti-s", "11134", "--checkpoint-write-s", "60", "--restart-s", "9"]
    assert main(["goodput", *job, "--html", str(page), "--html-script", script]) == 0
    text = page.read_text("utf-8")
    assert len(text) < most_bytes
    assert ("https://cdn.plot.ly/" in text) == (script == "cdn")
    assert "perfatlas goodput --gpus 16384 --checkpoint-write-s 60 --restart-s 9 --mtti-s" in text
    capsys.readouterr()
    assert main(["goodput", *job, "--html-script", script]) == 2
    assert f"--html-script {script} has no effect without --html" in capsys.readouterr().err
