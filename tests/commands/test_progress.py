"""Progress on stderr: one line that is renewed on a terminal, lines elsewhere."""

from __future__ import annotations

import io
import time

import pytest

from perfatlas.commands.output import late_lines, waiting


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "QUIET_S", 0.0)
    monkeypatch.setenv("COLUMNS", "40")


def _written(stderr: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("sys.stderr", stderr)
    with late_lines() as tell:
        for number in range(20):
            time.sleep(0.001)
            tell(f"simulated {number + 1} of 20: {'x' * 80}")
    return stderr.getvalue()


def test_a_terminal_has_one_line_of_progress_that_is_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = _written(_Terminal(), monkeypatch)
    assert "\n" not in written
    shown = written.split("\r\033[K")
    assert len(shown) == 22
    assert (shown[0], shown[-1]) == ("", "")
    assert max(map(len, shown)) == 39


def test_a_file_has_a_line_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = _written(io.StringIO(), monkeypatch).splitlines()
    assert len(lines) == 20
    assert lines[0].startswith("perfatlas: simulated 1 of 20: x")
