"""`perfatlas validate kernels|steps`: predictions against measurements."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

from perfatlas.cli.envelope import envelope
from perfatlas.cli.output import print_json
from perfatlas.cli.vocabulary import MANY, SWITCH
from perfatlas.quantities import ValidationGateError

if TYPE_CHECKING:
    from collections.abc import Mapping

# what a row is about, joined in one cell
ABOUT: Final = (
    "operator",
    "family",
    "list",
    "setting",
    "model",
    "system",
    "backend",
    "format",
)
# the tables for people and their headings; --json has every row and figure
KERNEL_HEADINGS: Final = {
    "about": "",
    "gpus": "GPUs",
    "mape": "MAPE",
    "median_error": "median",
    "target_mape": "target",
    "reached": "met",
    "noise": "noise",
    "two_parameter_mape": "2-param",
    "roofline_mape": "roofline",
}
STEP_HEADINGS: Final = {
    "about": "",
    "id": "run",
    "tp": "TP",
    "concurrency": "concurrency",
    "lengths": "in/out",
    "isl": "in",
    "osl": "out",
    "rows": "rows",
    "tpot_mape": "MAPE",
    "tpot_median_error": "median",
    "tpot_p90_error": "p90",
    "tpot_bias": "bias",
    "tpot_inside_90": "in 90 %",
    "ttft_median_error": "TTFT",
    "tpot_measured_s": "measured",
    "tpot_s": "predicted",
    "tpot_bound_s": "at bound",
    "tpot_error": "error",
}
FOR_MACHINES: Final = {"kernels": ("cells",), "steps": ("predictions",)}


def kernels(
    *,
    system: Annotated[list[str] | None, MANY] = None,
    operator: Annotated[list[str] | None, MANY] = None,
    json: Annotated[bool, SWITCH] = False,
) -> int:
    """Compare predicted with measured operator times, GPU by GPU, beside simpler models.

    Args:
        system: Device to score, repeatable; by default all with measured tables.
        operator: Operator to score, repeatable; by default all.
        json: Print one JSON object.
    """
    from perfatlas import lab

    results = lab.validate_kernels(system, tuple(operator or ()))
    asked = {"system": system, "operator": operator}
    return _show("kernels", results, asked=asked, as_json=json)


def steps(*, json: Annotated[bool, SWITCH] = False) -> int:
    """Compare predicted with measured serving: TPOT of published runs.

    Args:
        json: Print one JSON object.
    """
    from perfatlas import lab

    return _show("steps", lab.validate_steps(), asked={}, as_json=json)


def _show(verb: str, results: Mapping[str, Any], *, asked: Mapping[str, Any], as_json: bool) -> int:
    """Write a validation and return 0, or 7 where it lists failures."""
    failures = list(results.get("failures") or [])
    if as_json:
        print_json(envelope(f"validate {verb}", results=results, scenario=asked))
    else:
        shown = {n: v for n, v in results.items() if n not in FOR_MACHINES[verb]}
        _print(shown, KERNEL_HEADINGS if verb == "kernels" else STEP_HEADINGS)
    for failure in failures:
        sys.stderr.write(f"perfatlas: gate failed: {failure}\n")
    return ValidationGateError.exit_code if failures else 0


def _print(results: Mapping[str, Any], headings: Mapping[str, str]) -> None:
    from perfatlas.report import open_terminal, print_facts, print_rows

    console = open_terminal(sys.stdout)
    facts = {name: value for name, value in results.items() if not isinstance(value, list)}
    print_facts(console, facts)
    if facts:
        console.print()
    for name, value in results.items():
        if not isinstance(value, list) or not value or not isinstance(value[0], dict):
            continue
        rows = [_row(row) for row in value]
        shown = {key: title for key, title in headings.items() if key in rows[0]}
        if len(shown) > 2:
            print_rows(console, rows, columns=shown, title=name.replace("_", " "))


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with what it is about in one cell."""
    about = [str(row[name]) for name in ABOUT if name in row]
    return {"about": " ".join(about), **row} if about else dict(row)
