"""Time of a table of scenarios, as columns in Python and from file to file on the CLI."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from scenarios import distinct_rows, scenario_table
from timing import Row, Timing, timed, timed_command

from perfatlas.files import read_table, write_table
from perfatlas.verbs.estimate import estimate_table

if TYPE_CHECKING:
    from collections.abc import Sequence

GOAL_S: Final = 10.0
GOAL_ROWS: Final = 10_000
SECTION: Final = "table of scenarios, estimate --table"


def table_rates(rows: int, *, runs: int, seed: int, perfatlas: Sequence[str]) -> list[Row]:
    """Return the time of a seeded table through the Python function and through the CLI.

    Args:
        rows: Scenarios in the table.
        runs: Runs of the median.
        seed: Random seed.
        perfatlas: The command of the CLI.
    """
    table = scenario_table(rows, seed)
    distinct = distinct_rows(table)
    python, answer = timed(lambda: estimate_table(table), runs=runs)
    codes = answer.columns["error_code"]
    models = len(set(table["model"]))
    systems = len(set(table["system"]))
    note = f"{rows:,} rows, {distinct:,} distinct, seed {seed}; {models} models"
    return [
        _timing_row("perfatlas.estimate_table", python, rows, note),
        _cli_row(table, perfatlas, runs=runs, answered=codes.count("")),
        _count(
            "distinct rows",
            distinct,
            f"{models} models, {systems} names of systems, misspelt ones included",
        ),
        _count(
            "operator shapes priced by physics",
            answer.results["operators_priced"],
            "before the memo",
        ),
        _count("distinct among them", answer.results["distinct_shapes"], _memo(answer)),
        _count("rows answered", codes.count(""), _errors(codes)),
    ]


def _cli_row(
    table: dict[str, list[Any]], perfatlas: Sequence[str], *, runs: int, answered: int
) -> Row:
    """Return the time from file to file; the answered rows must be those of the function."""
    name, rows = "CLI, CSV in, Parquet out", len(table["model"])
    with tempfile.TemporaryDirectory() as folder:
        questions, answers = Path(folder) / "questions.csv", Path(folder) / "answers.parquet"
        write_table(questions, table)
        words = [*perfatlas, "estimate", "--table", str(questions), "--output", str(answers)]
        try:
            timing, text = timed_command([*words, "--json"], runs=runs)
        except RuntimeError as problem:
            return Row(section=SECTION, name=name, note=f"not run: {problem}")
        json.loads(text)  # standard output has one object
        codes = read_table(answers).cells("error_code")
    found = sum(code is None for code in codes)
    same = (
        "the same rows answered" if found == answered else f"{found:,} answered, a different number"
    )
    return _timing_row(name, timing, rows, f"start-up included; {same}")


def _timing_row(name: str, timing: Timing, rows: int, note: str) -> Row:
    full = rows == GOAL_ROWS
    return Row(
        section=SECTION,
        name=name,
        value=timing.wall_s,
        cpu_value=timing.cpu_s,
        unit="s",
        goal=f"< {GOAL_S:g}" if full else "",
        met=timing.wall_s < GOAL_S if full else None,
        runs=timing.runs,
        note=note,
    )


def _count(name: str, value: int, note: str) -> Row:
    return Row(section=SECTION, name=name, value=float(value), unit="", note=note)


def _memo(answer: Any) -> str:  # noqa: ANN401 - TableAnswer is a type of the tool under test
    hits = answer.results["operators_priced"] - answer.results["distinct_shapes"]
    share = hits / answer.results["operators_priced"] if answer.results["operators_priced"] else 0.0
    return f"memo hits {hits:,} ({share:.0%})"


def _errors(codes: list[str]) -> str:
    found = Counter(code for code in codes if code)
    if not found:
        return "no errors"
    return "errors: " + ", ".join(f"{code} {count}" for code, count in sorted(found.items()))
