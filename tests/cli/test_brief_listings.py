"""`catalog ... show` fits a screen; `--verbose` prints every row."""

from __future__ import annotations

import pytest

from perfatlas.cli.entry import main

MOST_LINES = 33
WIDTH = 80
SHOWN = (
    *("systems show h100_sxm", "systems show gb300", "systems show mi300x"),
    *("engines show vllm", "engines show trtllm", "fields show simulate"),
    *("models show Qwen/Qwen3.5-397B-A17B", "formats show mxfp4", "rates show llama3_gpu"),
)


def printed(command: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(command.split()) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("entry", SHOWN)
def test_an_entry_fits_a_screen(
    entry: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    brief = printed(f"catalog {entry}", capsys)
    assert len(brief) <= MOST_LINES
    assert max(map(len, brief)) <= WIDTH
    assert len(printed(f"catalog {entry} --verbose", capsys)) >= len(brief) - 2
