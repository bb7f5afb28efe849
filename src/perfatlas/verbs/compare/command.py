"""`perfatlas compare`: scenario files or alternatives, side by side."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from perfatlas.commands.flags import OUTPUT, SWITCH, File, set_flags, takes_fields
from perfatlas.commands.output import print_json
from perfatlas.files import read_toml


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class CompareFlags:
    """Output of a comparison.

    Args:
        json: Print one JSON object in SI units instead of text.
        verbose: Print all operators, calibrations, assumptions and sources.
    """

    json: Annotated[bool, SWITCH] = False
    verbose: Annotated[bool, SWITCH] = False


@takes_fields("compare")
def compare(
    files: list[File] | None = None,
    /,
    *,
    flags: object = None,
    output: CompareFlags | None = None,
) -> int:
    """Answer a comparison; return the exit code.

    Args:
        files: Scenario files (TOML) of estimates; flags win over them.
        flags: Fields that all scenarios share, and alternatives.
        output: Output of the answer.
    """
    import perfatlas
    from perfatlas.report.text import open_terminal, reproduce_line
    from perfatlas.verbs.compare.text import print_comparison

    output = output or CompareFlags()
    set_fields = set_flags(flags)
    scenarios: list[dict[str, Any]] | None = None
    if files:
        scenarios = [{"label": file.stem, **read_toml(file)} for file in files]
    answer = perfatlas.compare(scenarios=scenarios, **set_fields).to_dict()
    if output.json:
        print_json(answer)
        return 0
    names = " ".join(str(file) for file in files or ())
    line = reproduce_line(f"compare {names}".strip(), set_fields)
    print_comparison(open_terminal(sys.stdout), answer, reproduce=line, verbose=output.verbose)
    return 0
