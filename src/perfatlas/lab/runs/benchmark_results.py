"""Result files of serving benchmarks: from a file to its runs, whatever tool wrote it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from perfatlas.lab.runs.benchmark_fields import Fields
from perfatlas.lab.runs.benchmark_formats import reader_of
from perfatlas.quantities import InvalidSpecError, shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from perfatlas.lab.runs.benchmark_run import BenchmarkRun

MAX_BYTES: Final = 1_000_000_000  # per-request lists and generated texts make files large
MAX_RUNS: Final = 10_000


@dataclass(frozen=True, kw_only=True)
class ReadRun:
    """A place in a file and what was found there.

    Args:
        name: The file, and the line or item where there are several.
        run: The run, None where it cannot be read.
        error: Why it cannot be read, "" where it can.
    """

    name: str
    run: BenchmarkRun | None
    error: str


def read_results(path: Path, name: str = "") -> list[ReadRun]:
    """Return the runs of a result file, in its order.

    The file holds one JSON object, a list of them, or one per line; the tool is known by the keys.

    Args:
        path: The file.
        name: What to call it, its own name by default.

    Raises:
        InvalidSpecError: It cannot be read, is too large, or holds no JSON.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from perfatlas.lab.runs import read_results
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder) / "result.json"
        ...     _ = file.write_text('{"model_id": "m", "num_prompts": 10}')
        ...     print(read_results(file)[0].error)
        completed, total_input_tokens, total_output_tokens missing
    """
    name = name or path.name
    found = list(_parsed(_text_of(path, name), name))
    if len(found) > MAX_RUNS:
        raise InvalidSpecError(f"{name} holds {len(found):,} runs: at most {MAX_RUNS:,}")
    return [_read(place, value) for place, value in found]


def _text_of(path: Path, name: str) -> str:
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as problem:
        raise InvalidSpecError(f"cannot read results '{path}': {problem.strerror}") from problem
    except ValueError as problem:
        raise InvalidSpecError(f"cannot read results '{path}': {problem}") from problem
    if len(content) > MAX_BYTES:
        raise InvalidSpecError(
            f"{name} has more than {MAX_BYTES:,} bytes: save the run without its requests"
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise InvalidSpecError(f"{name} is not text in UTF-8: {problem}") from problem
    if not text.strip():
        raise InvalidSpecError(f"{name} is empty: the benchmark wrote no result")
    return text


def _parsed(text: str, name: str) -> Iterator[tuple[str, Any]]:
    """Yield (name, JSON value or the error it has) of every run of a file."""
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as problem:
        yield from _lines(text, name, problem)
        return
    if not isinstance(whole, list):
        yield name, whole
        return
    if not whole:
        raise InvalidSpecError(f"{name} holds an empty list: the benchmark wrote no result")
    for number, item in enumerate(whole, start=1):
        yield f"{name}:{number}", item


def _lines(text: str, name: str, problem: Exception) -> Iterator[tuple[str, Any]]:
    """Yield the lines of JSON Lines; a file whose first line is no JSON object is refused."""
    lines = [(n, line) for n, line in enumerate(text.split("\n"), start=1) if line.strip()]
    for position, (number, line) in enumerate(lines):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as line_problem:
            if position == 0:
                raise InvalidSpecError(f"{name} is not JSON: {problem}") from problem
            value = line_problem
        yield f"{name}:{number}", value


def _read(name: str, value: object) -> ReadRun:
    """Return a run, or why it is none."""
    if isinstance(value, Exception):
        return ReadRun(name=name, run=None, error=f"not JSON: {value}")
    if not isinstance(value, dict):
        return ReadRun(name=name, run=None, error=f"{shown(value)}: expected an object")
    try:
        return ReadRun(name=name, run=reader_of(value)(Fields(value)), error="")
    except InvalidSpecError as problem:
        return ReadRun(name=name, run=None, error=str(problem))
