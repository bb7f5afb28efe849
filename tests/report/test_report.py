"""Reports of saved answers and runs, as HTML and Markdown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import perfatlas
from perfatlas.cli import main


@pytest.fixture
def answers(tmp_path: Path) -> list[str]:
    """Return files of two answers."""
    paths = []
    for system in ("h100_sxm", "h200_sxm"):
        answer = perfatlas.kernel_gemm(system=system, m=64, n=512, k=512)
        path = tmp_path / f"{system}.json"
        path.write_text(json.dumps(answer.to_dict()), "utf-8")
        paths.append(str(path))
    return paths


def test_markdown_has_questions_answers_figures_and_commands(
    answers: list[str], tmp_path: Path
) -> None:
    target = tmp_path / "report.md"
    assert main(["report", *answers, "--output", str(target)]) == 0
    text = target.read_text("utf-8")
    lines = text.splitlines()
    assert lines[0] == "# 2 answers"
    times = [
        str(perfatlas.kernel_gemm(system=one, m=64, n=512, k=512)).splitlines()[1].split(": ")[1]
        for one in ("h100_sxm", "h200_sxm")
    ]
    assert f"| time | {times[0]} | {times[1]} |" in lines
    assert "perfatlas kernel gemm --system h200_sxm --m 64 --n 512 --k 512" in lines
    assert "## 2: Evidence" in lines
    for number in range(1, 5):
        assert f"](report_{number}.svg)" in text
        assert (tmp_path / f"report_{number}.svg").read_bytes().startswith(b"<?xml")


def test_a_page_has_answers_and_a_run(
    answers: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    study = {
        "verb": "kernel gemm",
        "objective": "time_s",
        "scenario": {"system": "h200_sxm", "n": 512, "k": 512},
        "vary": {"m": [1, 64, 512]},
    }
    run = perfatlas.sweep(study, jobs=1).run.id
    target = tmp_path / "report.html"
    words = [answers[0], run, "--output", str(target), "--html-script", "none"]
    assert main(["report", *words]) == 0
    text = target.read_text("utf-8")
    for title in ("1: Roofline", "2: time by m", "2: Best rows"):
        assert f"<h2>{title}</h2>" in text
    assert f"perfatlas runs show {run}" in text


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        ("{}", "report.md", "no answer of perfatlas, as schema is missing"),
        ("no json", "report.md", "Expecting value"),
        ("{}", "report.pdf", "expected a file that ends in .html or .md"),
    ],
)
def test_what_is_no_answer_or_format_is_refused(
    content: str, name: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "answer.json"
    path.write_text(content, "utf-8")
    assert main(["report", str(path), "--output", str(tmp_path / name)]) in (2, 3)
    assert message in " ".join(capsys.readouterr().err.split())
