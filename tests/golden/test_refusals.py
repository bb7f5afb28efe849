"""Every question of refusals.jsonl is refused with its class, exit code and key words."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.golden.refusals import asked, key_words, read_refusals, refusal

LINES: Final = read_refusals()


@pytest.mark.parametrize("of", sorted({asked(line) for line in LINES}))
def test_refusals_are_what_they_were(of: str) -> None:
    lines = [line for line in LINES if asked(line) == of]
    assert [_compared(refusal(line)) for line in lines] == [*map(_compared, lines)]


def _compared(line: dict[str, Any]) -> dict[str, Any]:
    return {**line, "message": sorted(key_words(line["message"]))}


def test_a_refusal_has_an_exit_code_and_one_message() -> None:
    for line in LINES:
        assert line["exit_code"] in {2, 3, 4, 5}
        assert line["message"]
        assert "defect" not in line["message"]
        assert "words" not in line or line["message"].startswith("perfatlas: ")
