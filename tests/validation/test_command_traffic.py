"""`python -m validation traffic`: output and exit codes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

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


def test_a_page_needs_the_public_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    nothing_here(monkeypatch, tmp_path)
    assert main(["traffic", "--page", str(page)]) != 0
    assert "PERFATLAS_SHARED_DATA" in capsys.readouterr().err
    assert not page.exists()
