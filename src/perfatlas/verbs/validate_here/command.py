"""`perfatlas validate here`: kernels and steps predicted, then measured on this CPU."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

from perfatlas.commands.flags import SWITCH
from perfatlas.commands.output import answer_function, envelope, print_json
from perfatlas.quantities import UnsupportedError

GROUPS: Final = {
    "gemm": "matrix products of other shapes",
    "prefill": "prefill steps of transformers of other sizes",
    "decode": "decode steps of transformers of other sizes",
}


def here(*, json: Annotated[bool, SWITCH] = False) -> int:
    """Predict kernels and steps of small transformers on this CPU, then measure them.

    Operators are measured on some shapes, products of other shapes and steps of transformers of
    other sizes are predicted from them. Weights and caches come from memory. It takes minutes.

    Args:
        json: Print one JSON object.
    """
    from perfatlas.lab.harness import TARGETS, require_torch, this_machine, validate_here

    require_torch()
    machine = this_machine()
    if machine.gpu:
        raise UnsupportedError(
            f"validate here predicts CPUs; {machine.device} is compared by bench run"
        )
    found = validate_here(machine, _progress)
    errors = [
        {
            "group": GROUPS[group],
            "cases": sum(row["group"] == group for row in found["rows"]),
            "median_error": found[f"{group}_median_error"],
            "target": target,
        }
        for group, target in TARGETS.items()
    ]
    if json:
        results = {**found, "device": machine.device, "stack": machine.stack, "errors": errors}
        print_json(envelope("validate here", results=results))
        return 0
    _print_errors(found, errors, f"{machine.device}, one core, {machine.stack}")
    return 0


validate_here = answer_function(here, "validate here")


def _progress(text: str) -> None:
    sys.stderr.write(f"perfatlas: {text}\n")


def _print_errors(found: dict[str, Any], errors: list[dict[str, Any]], machine: str) -> None:
    from perfatlas.report.text import format_value, open_terminal, print_plain, print_rows

    console = open_terminal(sys.stdout)
    rows = [
        {
            "": row["group"],
            "case": row["case"],
            "predicted": format_value("time_s", row["predicted_s"]),
            "measured": format_value("time_s", row["measured_s"]),
            "error": f"{row['error']:+.1%}",
        }
        for row in found["rows"]
    ]
    print_rows(console, rows)
    totals = [
        {
            "": row["group"],
            "cases": row["cases"],
            "median error": f"{row['median_error']:.1%}",
            "target": f"{row['target']:.0%}",
        }
        for row in errors
    ]
    print_rows(console, totals, title="\nmedian absolute errors")
    print_plain(
        console,
        f"\n{found['calibrated_shapes']} shapes calibrated in {found['calibration_s']:.0f} s, all"
        f" in {found['total_s']:.0f} s; times are CPU time of one thread\n{machine}",
    )
