"""Fields read without the library that reads command lines, beside what that library reads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import pytest
from cyclopts import App

from perfatlas.commands.flags import flags_of, read_words, set_flags
from perfatlas.declarations import verb_fields

TEXTS: Final = (
    *("8", "1.5", "1e3", "none", "null", "true", "2GB", "4K", "64,128", "1,000,000", " x ", "-3"),
    *("FP8", "inf", "nan", "01", "1_000", "{}", "[1]", "", "a=b"),
)
STRIDE: Final = 6  # each field is asked every sixth text


def _by_library(verb: str, name: str, word: str) -> dict[str, Any]:
    def command(*, flags: object = None) -> dict[str, Any]:
        return set_flags(flags)

    command.__annotations__["flags"] = flags_of(verb, {name: verb_fields(verb)[name]})
    app = App(result_action="return_value")
    app.default(command)
    found: dict[str, Any] = app([word], exit_on_error=False, print_error=False)
    return found


@pytest.mark.parametrize("verb", ["estimate", "kernel gemm", "goodput"])
def test_a_text_has_the_value_that_the_command_line_reads(verb: str) -> None:
    read = refused = 0
    for place, (name, field) in enumerate(verb_fields(verb).items()):
        flag = f"--{name.replace('_', '-')}"
        words = [f"{flag}={text}" for text in TEXTS[place % STRIDE :: STRIDE]]
        words += [f"{flag}={text.upper()}" for text in field.choices[:2]]
        words += [flag] if field.type is bool else []
        words += [f"--no-{flag[2:]}"] if field.type is bool and field.default is not False else []
        for word in words:
            try:
                fields, others = read_words(verb, [word])
            except ValueError:
                refused += 1
                continue
            assert others == []
            read_here = set_flags(SimpleNamespace(**fields))
            assert repr(read_here) == repr(_by_library(verb, name, word)), word
            read += 1
    assert read > len(verb_fields(verb)) / 2
    assert refused > 0


def test_words_come_back_in_table_order_and_others_are_left() -> None:
    words = ["--batch=8", "--explain", "--model=m", "--table=x"]
    assert read_words("estimate", words) == (
        {"model": "m", "batch": 8},
        ["--explain", "--table=x"],
    )
    with pytest.raises(ValueError, match="--batch=9"):
        read_words("estimate", [*words, "--batch=9"])
