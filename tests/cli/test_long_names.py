"""Every option that takes a path or text is given a name that no file can have."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from perfatlas.cli import main
from perfatlas.cli.app import app
from perfatlas.declarations import commands
from perfatlas.files import exists, is_file, make_folder, write_atomic
from perfatlas.quantities import InvalidSpecError
from tests.examples import few

LONG = "a" * 300  # file systems allow 255 bytes
REFUSED = {2, 3, 5}
COMMANDS = [name for name, (_, one) in commands().items() if one.run]
SCORES = [name for name in COMMANDS if name.startswith("validate")]  # take long before they refuse


class Input(NamedTuple):
    """An option of a command, "" for a word after it, and whether it is declared as a path."""

    flag: str
    is_path: bool


def _inputs(name: str) -> Iterator[Input]:
    """Yield the inputs of a command that are paths or free text, from its declaration."""
    for argument in app.parse_commands(name.split())[1][-1].assemble_argument_collection():
        hint = str(argument.hint)
        if argument.parse and ("Path" in hint or ("str" in hint and "Literal" not in hint)):
            flags = [one for one in argument.names if one.startswith("--")]
            yield Input((flags or [""])[0], "Path" in hint)


def _words(name: str, flag: str, value: str) -> list[str]:
    """Return the example of a command with another value of an option."""
    if not flag:
        return [*name.split(), value]
    words = shlex.split(commands()[name][1].example) or name.split()
    if flag in words:
        place = words.index(flag)
        del words[place : place + 2]
    return [*words, flag, value]


@pytest.mark.parametrize("name", few(sorted({*COMMANDS} - {*SCORES})[::4], every=2))
def test_a_name_that_no_file_can_have_is_refused_or_read_as_a_label(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFATLAS_HOME", str(tmp_path))
    for flag, is_path in _inputs(name):
        code = main(_words(name, flag, LONG))  # an internal error is raised
        assert code in REFUSED or (code == 0 and not is_path), flag


def test_a_page_that_cannot_be_written_is_refused_before_scores_are_computed() -> None:
    for name in SCORES:
        if "--page" in {one.flag for one in _inputs(name)}:
            assert main([*name.split(), "--page", LONG]) == 3, name


def test_files_are_asked_about_without_errors_of_the_system(tmp_path: Path) -> None:
    assert not is_file(LONG)
    assert not exists(f"{LONG}/{LONG}")
    with pytest.raises(InvalidSpecError, match="File name too long"):
        write_atomic(LONG, "x")
    with pytest.raises(InvalidSpecError, match="File name too long"):
        make_folder(tmp_path / LONG)
