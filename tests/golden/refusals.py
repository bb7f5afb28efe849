"""Refused questions and their messages: `python -m tests.golden.refusals` records them again.

A line of refusals.jsonl is a question, as words of a command or as a function of `perfatlas` with
its fields, and how it is refused: the exit code, the class of the error and the whole message. A
new refusal is a line with its question alone, which the command completes; its difference in the
file is what a reviewer reads.
"""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any, Final

import perfatlas
from perfatlas.cli import main
from perfatlas.quantities import PerfatlasError

FILE: Final = Path(__file__).with_name("refusals.jsonl")
QUESTION: Final = ("words", "function", "fields")

Line = dict[str, Any]


def read_refusals() -> list[Line]:
    """Return the questions with their refusals, in the order of the file."""
    return [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]


def asked(line: Line) -> str:
    """Return the verb or function that a question is asked of."""
    return str(line["words"][0] if line.get("words") else line.get("function", "perfatlas"))


def refusal(line: Line) -> Line:
    """Return the question of a line with its refusal now.

    Args:
        line: Of the file; only its question is read.
    """
    question = {name: line[name] for name in QUESTION if name in line}
    if "words" in line:
        stdout, stderr = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            exit_code = main(list(line["words"]))
        message = " ".join((stdout.getvalue() + stderr.getvalue()).split())
        return question | {"exit_code": exit_code, "message": message}
    try:
        getattr(perfatlas, line["function"])(**line["fields"])
    except PerfatlasError as error:
        told = {"exit_code": error.exit_code, "error": type(error).__name__}
        return question | told | {"message": str(error)}
    return question | {"exit_code": 0}


def record() -> None:
    """Write the file with the refusals of now, sorted by what is asked."""
    lines = sorted(map(refusal, read_refusals()), key=lambda line: (asked(line), "words" in line))
    FILE.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


if __name__ == "__main__":
    record()
