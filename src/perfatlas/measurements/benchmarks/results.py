"""Result files of serving benchmarks of all supported tools."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import check_regular
from perfatlas.measurements.benchmarks.fields import Fields
from perfatlas.measurements.benchmarks.formats import reader_of
from perfatlas.quantities import InvalidSpecError, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from perfatlas.measurements.benchmarks.run import BenchmarkRun

MAX_BYTES: Final = 1_000_000_000  # files with per-request lists and generated texts are large
MAX_RUNS: Final = 10_000


@dataclass(frozen=True, kw_only=True)
class ReadRun:
    """A run read from a file, or the reason why it is invalid."""

    name: str  # The file, and the line or item of several
    run: BenchmarkRun | None  # The run, None where invalid
    error: str  # Why it is invalid, "" otherwise


def read_results(path: Path, name: str = "") -> list[ReadRun]:
    """Return the runs of a result file, in order.

    The file has one JSON object, a list of them, or one per line; the tool is identified by the
    keys.

    Args:
        name: Name for messages, by default the file name.

    Raises:
        InvalidSpecError: It cannot be read, is too large, or is not JSON.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from perfatlas.measurements.benchmarks import read_results
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder) / "result.json"
        ...     _ = file.write_text('{"model_id": "m", "num_prompts": 10}')
        ...     print(read_results(file)[0].error)
        completed, total_input_tokens, total_output_tokens missing
    """
    name = name or path.name
    runs = list(_parsed(_text_of(path, name), name))
    if len(runs) > MAX_RUNS:
        raise InvalidSpecError(f"{name} has {len(runs):,} runs: expected at most {MAX_RUNS:,}")
    return [_read(run_name, value) for run_name, value in runs]


def _text_of(path: Path, name: str) -> str:
    check_regular(path, "results")
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as problem:
        raise InvalidSpecError(f"cannot read results '{path}': {problem.strerror}") from problem
    except ValueError as problem:
        raise InvalidSpecError(f"cannot read results '{path}': {problem}") from problem
    if len(content) > MAX_BYTES:
        raise InvalidSpecError(
            f"{name} exceeds {MAX_BYTES:,} bytes: save the run without its requests"
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise InvalidSpecError(f"{name} is not UTF-8 text: {problem}") from problem
    if not text.strip():
        raise InvalidSpecError(f"{name} is empty: the benchmark wrote no result")
    return text


def _parsed(text: str, name: str) -> Iterator[tuple[str, Any]]:
    """Yield (name, JSON value or error) of every run of a file."""
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as problem:
        yield from _lines(text, name, problem)
        return
    if not isinstance(whole, list):
        yield name, whole
        return
    if not whole:
        raise InvalidSpecError(f"{name} has an empty list: the benchmark wrote no result")
    for number, item in enumerate(whole, start=1):
        yield f"{name}:{number}", item


def _lines(text: str, name: str, problem: Exception) -> Iterator[tuple[str, Any]]:
    """Yield the lines of JSON Lines; raise if the first line is not a JSON object."""
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
    """Return a run, or why it is invalid."""
    if isinstance(value, Exception):
        return ReadRun(name=name, run=None, error=f"not JSON: {value}")
    if not isinstance(value, dict):
        return ReadRun(name=name, run=None, error=f"{repr_for_error(value)}: expected an object")
    try:
        return ReadRun(name=name, run=reader_of(value)(Fields(value)), error="")
    except InvalidSpecError as problem:
        return ReadRun(name=name, run=None, error=str(problem))
