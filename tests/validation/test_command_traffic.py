"""`python -m validation traffic`: output and exit codes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.validation.test_validate_traffic import write_points
from validation.program import main


def nothing_here(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("PERFATLAS_SHARED_DATA", str(folder / "nowhere"))
    module = sys.modules["validation.serving.traffic"]
    monkeypatch.setattr(module, "has_silicon", lambda: False)


def test_public_runs_that_are_not_here_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing_here(monkeypatch, tmp_path)
    assert main(["traffic"]) != 0
    shown = capsys.readouterr()
    assert "PERFATLAS_SHARED_DATA" in shown.err
    assert "perfatlas[silicon]" in shown.err


def test_public_runs_fit_a_terminal_and_one_envelope(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing_here(monkeypatch, tmp_path)
    monkeypatch.setenv("PERFATLAS_SHARED_DATA", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    write_points(tmp_path)
    assert main(["traffic"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert "tp8 ep8 dp1" in shown
    assert "perfatlas[silicon]" in shown
    assert main(["traffic", "--json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert [row["plan"] for row in results["point_totals"]] == ["all", "tp8 ep8 dp1"]
    assert len(results["missing"]) == 3  # two recorded runs and the benchmarks


def test_a_page_needs_the_public_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    nothing_here(monkeypatch, tmp_path)
    monkeypatch.setenv("PERFATLAS_SHARED_DATA", str(tmp_path))
    write_points(tmp_path)
    assert main(["traffic", "--page", str(page)]) != 0
    assert "needs all measurements" in capsys.readouterr().err
    assert not page.exists()
