"""`perfatlas validate kernels|steps`: predictions against measurements."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

from perfatlas.cli.envelope import envelope
from perfatlas.cli.output import print_json
from perfatlas.cli.vocabulary import SWITCH
from perfatlas.quantities import ValidationGateError

if TYPE_CHECKING:
    from collections.abc import Mapping


def kernels(*, json: Annotated[bool, SWITCH] = False) -> int:
    """Compare predicted with measured operator times, GPU by GPU, beside simpler models.

    Args:
        json: Print one JSON object.
    """
    from perfatlas import lab

    return _show("kernels", lab.validate_kernels(), as_json=json)


def steps(*, json: Annotated[bool, SWITCH] = False) -> int:
    """Compare predicted with measured serving: TPOT of published runs.

    Args:
        json: Print one JSON object.
    """
    from perfatlas import lab

    return _show("steps", lab.validate_steps(), as_json=json)


def _show(verb: str, results: Mapping[str, Any], *, as_json: bool) -> int:
    """Write a validation and return 0, or 7 where it lists failures."""
    failures = list(results.get("failures") or [])
    if as_json:
        print_json(envelope(f"validate {verb}", results=results))
    else:
        _print(results)
    for failure in failures:
        sys.stderr.write(f"perfatlas: gate failed: {failure}\n")
    return ValidationGateError.exit_code if failures else 0


def _print(results: Mapping[str, Any]) -> None:
    from perfatlas.report import open_terminal, print_facts, print_rows

    console = open_terminal(sys.stdout)
    facts = {}
    for name, value in results.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            console.print(f"{name.replace('_', ' ')}")
            print_rows(console, value)
            console.print()
        elif name != "failures":
            facts[name] = value
    print_facts(console, facts)
