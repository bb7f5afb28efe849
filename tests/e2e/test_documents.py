from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfatlas.cli import main

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[2]


def _refresh() -> ModuleType:
    spec = importlib.util.spec_from_file_location("refresh", ROOT / "docs" / "refresh.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REFRESH = _refresh()
QUOTED = [path for path in REFRESH.documents() if REFRESH.BLOCK.search(path.read_text("utf-8"))]


@pytest.mark.parametrize("path", QUOTED, ids=lambda path: path.name)
def test_every_output_quoted_in_a_document_is_what_the_command_prints(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    for name, value in REFRESH.TERMINAL.items():
        monkeypatch.setenv(name, value)

    def printed(command: str) -> str | None:
        code = main(REFRESH.words_of(command))
        told = capsys.readouterr()
        return None if code == REFRESH.NEEDS_EXTRA else told.out or told.err

    text = path.read_text("utf-8")
    assert REFRESH.renewed(text, printed) == text, f"{path.name}: run python docs/refresh.py"


def test_a_document_is_renewed_by_commands_of_their_own() -> None:
    text = "```console\n$ perfatlas --version\nold\n```\n"
    version = REFRESH.output_of("perfatlas --version")
    assert REFRESH.renewed(text) == text.replace("old\n", version)
    assert "README.md" in {path.name for path in QUOTED}
