"""Refused questions and their messages: `python -m tests.golden.refusals` records them again.

A line of refusals.jsonl is a question and how it is refused: the exit code, the class of the error
and the message, of which a test compares the key words: a better wording fails nothing. The
question is the words of a command, a function of `perfatlas` with its fields, or a function of a
package ("package:name") with its arguments; a path is {"path": name}, and files are those that the
folder holds. A new refusal is a line with its question alone, which the command completes; its
difference in the file is what a reviewer reads.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from perfatlas.cli import main
from perfatlas.quantities import PerfatlasError

FILE: Final = Path(__file__).with_name("refusals.jsonl")
QUESTION: Final = ("words", "function", "fields", "arguments", "files")

Line = dict[str, Any]


def read_refusals() -> list[Line]:
    """Return the questions with their refusals, in the order of the file."""
    return [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]


def key_words(message: str) -> set[str]:
    """Return the numbers, names and quoted values of a message, without its prose.

    Example:
        >>> sorted(key_words("x_1 = 0.5: expected 1 or more; did you mean 'x_2'?"))
        ["'x_2'", '0.5', '1', 'x_1']
    """
    words = (word.strip(".,:;()?") for word in message.split())
    return {word for word in words if re.search(r"[\d_=/'\"`\[]|^--", word)} - {"="}


def asked(line: Line) -> str:
    """Return the verb or function that a question is asked of."""
    return str(line["words"][0] if line.get("words") else line.get("function", "perfatlas"))


def refusal(line: Line) -> Line:
    """Return the question of a line with its refusal now.

    Args:
        line: Line of the file; only its question is read.
    """
    question = {name: line[name] for name in QUESTION if name in line}
    with _folder_of(line.get("files", {})):
        if "words" in line:
            return question | _refused_command(line["words"])
        package, _, name = line["function"].rpartition(":")
        function = getattr(importlib.import_module(package or "perfatlas"), name)
        told = json.dumps([line.get("arguments", []), line["fields"]])
        arguments, fields = json.loads(told, object_hook=_path)
        try:
            function(*arguments, **fields)
        except PerfatlasError as error:
            how = {"exit_code": error.exit_code, "error": type(error).__name__}
            return question | how | {"message": str(error)}
    return question | {"exit_code": 0}


@contextlib.contextmanager
def _folder_of(files: dict[str, str]) -> Iterator[None]:
    """Run in a new folder that holds files, and nothing else before and after."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, text in files.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_bytes(text.encode())
        yield
        written = {path.name for path in Path().iterdir()} - {*files}
        if written:
            raise AssertionError(f"a refused question wrote {written}")


def _refused_command(words: list[str]) -> Line:
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        exit_code = main(words)
    message = " ".join((stdout.getvalue() + stderr.getvalue()).split())
    return {"exit_code": exit_code, "message": message}


def _path(found: Line) -> Line | Path:
    return Path(found["path"]) if [*found] == ["path"] else found


def record() -> None:
    """Write the file with the refusals of now, sorted by what is asked."""
    lines = sorted(map(refusal, read_refusals()), key=lambda line: (asked(line), "words" in line))
    FILE.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


if __name__ == "__main__":
    record()
