"""Every question of refusals.jsonl is refused with its class, exit code and message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.golden.refusals import asked, read_refusals, refusal

if TYPE_CHECKING:
    from pathlib import Path

LINES: Final = read_refusals()


@pytest.mark.parametrize("of", sorted({asked(line) for line in LINES}))
def test_refusals_are_what_they_were(
    of: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [line for line in LINES if asked(line) == of]
    assert [*map(refusal, lines)] == lines
    assert not [*tmp_path.iterdir()]


def test_a_refusal_has_an_exit_code_and_one_message() -> None:
    for line in LINES:
        assert line["exit_code"] in {2, 3, 4, 5}
        assert line["message"]
        assert "defect" not in line["message"]
        assert "words" not in line or line["message"].startswith("perfatlas: ")
