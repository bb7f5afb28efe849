"""Answers questions, each in a new fork of a process with loaded simulators.

A fork has the state of a new process, so that answers are independent of earlier questions, and a
crash affects only one question. Run as `python -m tests.golden.runner` it reads the numbers of
questions from stdin, one per line, and writes one JSON object per line.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.golden.flatten import Scalar, flatten, read_rows
from tests.golden.question import Question, read_questions

# Commands that load libraries and, for each simulator, load (or compile) it.
LIBRARIES: Final = (
    ("estimate", "--model", "Qwen/Qwen3-0.6B", "--system", "h200_sxm", "--json"),
    ("goodput", "--mtti-s", "9000", "--checkpoint-write-s", "9", "--restart-s", "99", "--json"),
)
PRELOAD: Final = {
    "serving": (
        *("simulate", "--model", "Qwen/Qwen3-0.6B", "--system", "h200_sxm"),
        *("--request-rate", "1", "--num-requests", "1", "--json"),
    ),
    "goodput": (
        *("goodput", "--fleet", "llama3", "--gpus", "16384", "--checkpoint-write-s", "60"),
        *("--restart-s", "600", "--half-width", "0.05", "--json"),
    ),
    "schedule": ("fleet", "schedule", "--num-jobs", "9", "--load", "1", "--nodes", "4", "--json"),
}
# One thread, without user calibrations, widths and colours.
FIXED: Final = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "COLUMNS": "80",
    "NO_COLOR": "1",
    "TZ": "UTC",
}
USER_FOLDERS: Final = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")


class Preloaded:
    """The simulators this process has loaded; its forks have them too."""

    def __init__(self, *, preload: bool = True) -> None:
        """Start without loading.

        Args:
            preload: Whether to preload; otherwise every fork loads separately.
        """
        self.preload = preload
        self.loaded: set[str] = set()

    def load(self, simulator: str) -> None:
        """Run the commands that load libraries and a simulator, once.

        Args:
            simulator: A key of `PRELOAD`, or "" for none.
        """
        for needed in ("", simulator):
            if not self.preload or needed in self.loaded:
                continue
            self.loaded.add(needed)
            importlib.import_module("scipy.stats")  # most of the time of a fit, in every fork
            for words in (PRELOAD[needed],) if needed else LIBRARIES:
                _run_quietly(words)


def _run_quietly(words: tuple[str, ...]) -> None:
    from perfatlas.cli import main

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        main(words)


def answer_in_fork(question: Question) -> dict[str, Scalar]:
    """Return the flat answer of a question, from a fork of this process.

    Args:
        question: The question; its commands run in a separate folder.
    """
    with tempfile.TemporaryDirectory(prefix="golden") as folder:
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            os._exit(_child(question, Path(folder)))
        _, status = os.waitpid(child, 0)
        result = Path(folder) / "answer.json"
        if not result.exists():
            return {"exit": f"ended-by-{os.waitstatus_to_exitcode(status)}"}
        answer: dict[str, Scalar] = json.loads(result.read_text("utf-8"))
        return answer


def _child(question: Question, folder: Path) -> int:
    """Answer into `answer.json` of a folder; return the exit code of the fork."""
    try:
        work = folder / "work"
        work.mkdir()
        os.chdir(work)
        for name, text in question.files.items():
            Path(name).write_text(text, "utf-8")
        answer = dict(_answers(question, folder))
        (folder / "answer.json").write_text(json.dumps(answer), "utf-8")
    except Exception:  # noqa: BLE001 - a fork must not continue as its parent
        traceback.print_exc()
        return 1
    return 0


def _answers(question: Question, folder: Path) -> Iterator[tuple[str, Scalar]]:
    """Yield keys and scalars of all commands and tables; keys of later commands have a prefix."""
    for index, words in enumerate(question.commands):
        prefix = f"{index}/" if index else ""
        code, text = _run(words, folder)
        yield f"{prefix}exit", code
        if "--json" in words and text.startswith("{"):
            for key, value in flatten(json.loads(text)):
                yield prefix + key, value
    for name in question.tables:
        if not Path(name).exists():
            yield f"file:{name}", None
            continue
        yield from flatten(read_rows(Path(name)), f"file:{name}")


def _run(words: tuple[str, ...], folder: Path) -> tuple[Scalar, str]:
    """Return exit code and stdout of a command line; stderr goes to a file of the folder."""
    from perfatlas.cli import main

    code: Scalar
    out = io.StringIO()
    with (
        (folder / "stderr").open("w", encoding="utf-8") as err,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            code = main(words)
        except SystemExit as ended:
            code = ended.code
        except Exception as problem:  # noqa: BLE001 - a defect is a different answer
            code = f"defect-{type(problem).__name__}"
    return code, out.getvalue()


def serve(*, preload: bool) -> None:
    """Answer the questions with the numbers on stdin until it ends.

    Args:
        preload: Whether the simulators are loaded before forking.
    """
    questions = read_questions()
    preloaded = Preloaded(preload=preload)
    for line in sys.stdin:
        question = questions[int(line)]
        preloaded.load(question.simulator)
        said: dict[str, Any] = {"answer": answer_in_fork(question)}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    if "--few-units" in sys.argv:
        from tests.shared_units import compiling_few_units

        with compiling_few_units():
            serve(preload="--no-preload" not in sys.argv)
    else:
        serve(preload="--no-preload" not in sys.argv)
