"""`python -m validation kernels|collectives|blocks|capacity|steps`: compare with measurements."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from perfatlas.commands.flags import SWITCH, WITHOUT_NEGATIVE_FLAG, Count, WrittenFile
from perfatlas.commands.output import envelope, print_json
from perfatlas.quantities import UsageError
from validation.commands.headings import (
    ABOUT,
    BESIDE_HEADINGS,
    BLOCK_HEADINGS,
    CAPACITY_HEADINGS,
    DETAILS,
    ERROR_HEADINGS,
    FACT_LINES,
    FOR_MACHINES,
    NOT_SHOWN,
    PUBLISHED_HEADINGS,
    STEP_HEADINGS,
    WHERE,
)
from validation.scoring import failed_gates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from validation.scoring import CellScore


Protocol = Literal["own", "unseen-shapes", "unseen-device", "unseen-family", "few-shot"]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Output:
    """Form of the output.

    Args:
        json: Print one JSON object.
        verbose: Print every row, not only those that fit a screen.
    """

    json: Annotated[bool, SWITCH] = False
    verbose: Annotated[bool, SWITCH] = False


def kernels(
    *,
    system: Annotated[list[str] | None, WITHOUT_NEGATIVE_FLAG] = None,
    operator: Annotated[list[str] | None, WITHOUT_NEGATIVE_FLAG] = None,
    protocol: Protocol = "own",
    rows: Count = None,
    page: WrittenFile | None = None,
    output: Output | None = None,
) -> int:
    """Compare predicted with measured operator times, GPU by GPU, and with simpler models.

    Args:
        system: Device to score, repeatable; by default all with measured tables.
        operator: Operator to score, repeatable; by default all.
        protocol: Rows that parameters are fitted to: those of the cell (own), of other shapes,
            of other devices, of other architectures, or few rows of the device (few-shot).
        rows: Number of rows of the device that few-shot may fit; 50 by default.
        page: Score under all protocols and write this Markdown page; takes minutes.
        output: Form of the output.
    """
    if page is not None:
        plain = not (system or operator or rows or (output or Output()).json) and protocol == "own"
        return _write_page(page, plain=plain)
    return _compare("kernels", system, operator, protocol, rows, output or Output())


def collectives(
    *,
    system: Annotated[list[str] | None, WITHOUT_NEGATIVE_FLAG] = None,
    operator: Annotated[list[str] | None, WITHOUT_NEGATIVE_FLAG] = None,
    protocol: Protocol = "own",
    rows: Count = None,
    output: Output | None = None,
) -> int:
    """Compare predicted with measured collective times, GPU by GPU, and with simpler models.

    Args:
        system: Device to score, repeatable; by default all with measured tables.
        operator: Collective to score, repeatable; by default all.
        protocol: Rows that parameters are fitted to: those of the cell (own), of other shapes,
            of other devices, of other architectures, or few rows of the device (few-shot).
        rows: Number of rows of the device that few-shot may fit; 50 by default.
        output: Form of the output.
    """
    return _compare("collectives", system, operator, protocol, rows, output or Output())


def blocks(
    *,
    system: Annotated[list[str] | None, WITHOUT_NEGATIVE_FLAG] = None,
    engine: Annotated[list[str] | None, WITHOUT_NEGATIVE_FLAG] = None,
    output: Output | None = None,
) -> int:
    """Compare measured blocks of sparse attention with the sum of their operators.

    Args:
        system: Device to score, repeatable; by default all with measured tables.
        engine: Engine to score, repeatable; by default all.
        output: Form of the output.
    """
    from validation.kernels.blocks import validate_blocks

    results = validate_blocks(system, engine)
    output = output or Output()
    if output.json:
        set_fields = {"system": system, "engine": engine}
        print_json(envelope("validation blocks", results=results, scenario=set_fields))
        return 0
    rows = {
        name: [{"where": " ".join(str(row[k]) for k in WHERE if k in row), **row} for row in part]
        for name, part in results.items()
    }
    return _tables(rows, BLOCK_HEADINGS, verbose=output.verbose)


def capacity(*, output: Output | None = None) -> int:
    """Compare derived KV cache capacities with those in engine logs.

    Args:
        output: Form of the output.
    """
    from validation.serving.capacity import validate_capacity

    results = validate_capacity()
    output = output or Output()
    if output.json:
        print_json(envelope("validation capacity", results=results, scenario={}))
        return failed_gates(results["failures"])
    _tables(results, CAPACITY_HEADINGS, verbose=output.verbose)
    return failed_gates(results["failures"])


def steps(*, output: Output | None = None) -> int:
    """Compare predicted with measured TPOT of published serving runs.

    Args:
        output: Form of the output.
    """
    from validation.serving.steps import validate_steps

    output, results = output or Output(), validate_steps()
    if output.json:
        print_json(envelope("validation steps", results=results, scenario={}))
    else:
        printed = {n: v for n, v in results.items() if n not in FOR_MACHINES}
        _print(printed, STEP_HEADINGS, verbose=output.verbose)
    return failed_gates(results["failures"])


def plans(*, output: Output | None = None) -> int:
    """Compare the predicted best with the measured best of published serving deployments.

    Args:
        output: Form of the output.
    """
    from validation.commands.headings import PLAN_HEADINGS
    from validation.serving.plans import validate_plans

    output, results = output or Output(), validate_plans()
    if output.json:
        print_json(envelope("validation plans", results=results, scenario={}))
    else:
        _print(results, PLAN_HEADINGS, verbose=output.verbose)
    return failed_gates(results["failures"])


def _tables(
    results: Mapping[str, Any], headings: Mapping[str, Mapping[str, str]], *, verbose: bool
) -> int:
    from perfatlas.report.text import TitledRows, open_terminal, print_tables

    tables = [
        TitledRows(name.replace("_", " "), results[name], columns)
        for name, columns in headings.items()
    ]
    print_tables(open_terminal(sys.stdout), tables, verbose=verbose)
    return 0


def _compare(
    verb: str,
    system: list[str] | None,
    operator: list[str] | None,
    protocol: Protocol,
    rows: int | None,
    output: Output,
) -> int:
    """Score operators or collectives; print medians over GPUs, or all cells if they are few."""
    from validation.kernels import operators as validate

    scorers = {
        "kernels": validate.validate_kernels,
        "collectives": validate.validate_collectives,
    }
    results = scorers[verb](system, tuple(operator or ()), protocol, rows=rows, progress=_progress)
    set_fields = {"system": system, "operator": operator, "protocol": protocol, "rows": rows}
    if output.json:
        print_json(envelope(f"validation {verb}", results=results, scenario=set_fields))
    else:
        _print_cells(results, "cells" if system else "medians", verbose=output.verbose)
    return failed_gates(results["failures"])


def _write_page(page: WrittenFile, *, plain: bool) -> int:
    """Score under all protocols and write the page; excludes other flags."""
    from validation.kernels.kernels_page import write_page

    if not plain:
        raise UsageError("--page covers all systems, operators and protocols; use it alone")
    return failed_gates(write_page(page, progress=_progress)["failures"])


def _progress(score: CellScore) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"{score.protocol} {score.cell}: {100 * score.mape:.1f}%\n")


def _print_cells(results: Mapping[str, Any], level: str, *, verbose: bool) -> None:
    """Print medians or cells as two tables: errors, and reference models."""
    from perfatlas.report.text import TitledRows, open_terminal, print_facts, print_tables

    console = open_terminal(sys.stdout)
    print_facts(console, {name: results[name] for name in ("protocol", "calibrations")})
    console.print()
    rows = [_row(row) for row in results[level]]
    tables = []
    for title, headings in (
        ("errors", ERROR_HEADINGS),
        ("simpler models and intervals", BESIDE_HEADINGS),
    ):
        columns = {key: text for key, text in headings.items() if rows and key in rows[0]}
        tables.append(TitledRows(f"{level}: {title}", rows, columns))
    tables.append(TitledRows("not scored", results["skipped"], detail=True))
    for name in ("published_totals", "published"):
        published = [_published(row) for row in results.get(name, ())]
        columns = {k: text for k, text in PUBLISHED_HEADINGS.items() if k in (published or [{}])[0]}
        tables.append(TitledRows(name.replace("_", " "), published, columns))
    print_tables(console, tables, verbose=verbose, used=FACT_LINES)


def _published(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its bias labeled as a mean error, not a logarithm."""
    return {("mean_error" if name == "bias" else name): value for name, value in row.items()}


def _print(results: Mapping[str, Any], headings: Mapping[str, str], *, verbose: bool) -> None:
    """Print facts and tables; unless verbose, facts that are numbers and a screen of rows."""
    from perfatlas.report.text import TitledRows, open_terminal, print_facts, print_tables

    console = open_terminal(sys.stdout)
    facts = {
        name: value
        for name, value in results.items()
        if not isinstance(value, list) and (verbose or isinstance(value, (int, float)))
    }
    print_facts(console, facts)
    if facts:
        console.print()
    tables = []
    for name, value in results.items():
        if not isinstance(value, list) or not value or not isinstance(value[0], dict):
            continue
        rows = [_row(row) for row in value]
        hidden = NOT_SHOWN.get(name, ())
        known = {key for row in rows for key in row if key not in hidden}
        columns = {key: title for key, title in headings.items() if key in known}
        if len(columns) > 2:
            title = name.replace("_", " ")
            tables.append(TitledRows(title, rows, columns, detail=name in DETAILS))
    print_tables(console, tables, verbose=verbose, used=len(facts) + 1)


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its identifying fields in one cell."""
    names = ("cell",) if "cell" in row else ABOUT
    about = [str(row[name]) for name in names if name in row]
    return {"about": " ".join(about), **row} if about else dict(row)
