"""Every question of refusals.jsonl is refused with its class, exit code and message."""

from __future__ import annotations

from typing import Final

import pytest

from tests.golden.refusals import asked, read_refusals, refusal

LINES: Final = read_refusals()


@pytest.mark.parametrize("of", sorted({asked(line) for line in LINES}))
def test_refusals_are_what_they_were(of: str) -> None:
    lines = [line for line in LINES if asked(line) == of]
    assert [*map(refusal, lines)] == lines


def test_a_refusal_has_an_exit_code_and_one_message() -> None:
    for line in LINES:
        assert line["exit_code"] in {2, 3, 4, 5}
        assert line["message"]
        assert "defect" not in line["message"]
        assert "words" not in line or line["message"].startswith("perfatlas: ")
