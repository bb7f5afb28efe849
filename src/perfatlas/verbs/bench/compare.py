"""`perfatlas bench compare`: two runs of a suite, as a regression gate."""

from __future__ import annotations

import sys
from typing import Annotated, Final

from perfatlas.commands.flags import SWITCH, File
from perfatlas.commands.output import envelope, print_json
from perfatlas.quantities import ValidationGateError

COMMAND: Final = "bench compare"


def compare(first: File, second: File, /, *, json: Annotated[bool, SWITCH] = False) -> int:
    """Compare two runs of a suite; the exit code is 7 if a kernel is slower, fails or is missing.

    Args:
        first: Records that bench run wrote.
        second: Those of a later run.
        json: Print one JSON object.
    """
    from perfatlas.lab.harness import TEST, compare_runs
    from perfatlas.report.text import format_value, open_terminal, print_plain, print_rows

    found = compare_runs(first, second)
    if json:
        scenario = {"first": str(first), "second": str(second)}
        print_json(envelope(COMMAND, results={**found, "test": TEST}, scenario=scenario))
    else:
        console = open_terminal(sys.stdout)
        rows = [
            {
                "case": one["case"],
                "kernel": one["kernel"],
                "first": format_value("time_s", one["first_s"]),
                "second": format_value("time_s", one["second_s"]),
                "change": f"{one['ratio'] - 1.0:+.1%}",
                "p": f"{one['p_value']:.2g}",
                "verdict": one["verdict"],
            }
            for one in found["changes"]
        ]
        print_rows(console, rows)
        print_rows(console, found["failed"], title="\nfailed in the second run")
        print_plain(
            console,
            f"\n{found['slower']} slower, {found['faster']} faster of {found['cases']} cases"
            f" ({found['criterion']})\ntest: {TEST}",
        )
    if found["only_in_first"]:
        console.print(f"missing in the second run: {', '.join(found['only_in_first'])}")
    regressed = found["slower"] or found["failed"] or found["only_in_first"]
    return ValidationGateError.exit_code if regressed else 0
