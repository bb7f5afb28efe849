"""`perfatlas compare`: scenario files or alternatives, side by side."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Annotated, Any

from cyclopts import Parameter

from perfatlas.commands.flags import (
    CHART_TITLES,
    OUTPUT,
    SWITCH,
    File,
    PageFlags,
    WrittenFile,
    set_flags,
    takes_fields,
)
from perfatlas.commands.output import show_answer
from perfatlas.files import check_writable, format_toml, read_toml, write_atomic
from perfatlas.quantities import UsageError, printable


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class CompareFlags:
    """Output of a comparison.

    Args:
        json: Print one JSON object in SI units instead of text.
        verbose: Print all operators, calibrations, assumptions and sources.
        decide: Name the three measurements that would most change which of two designs is faster.
        suite: Write them as a suite for bench run (TOML).
        page: HTML page of the comparison.
    """

    json: Annotated[bool, SWITCH] = False
    verbose: Annotated[bool, SWITCH] = False
    decide: Annotated[bool, SWITCH] = False
    suite: WrittenFile | None = None
    page: PageFlags = field(default_factory=PageFlags)


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
    """
    from perfatlas.verbs.compare.answer import compared, compared_scenarios

    output = output or CompareFlags()
    if output.suite is not None and not output.decide:
        raise UsageError(f"--suite {output.suite} has no effect without --decide")
    output.page.check(CHART_TITLES["compare"])
    for path in output.page.files().values():
        check_writable(path)
    set_fields = set_flags(flags)
    scenarios: list[dict[str, Any]] | None = None
    if files:
        scenarios = [{"label": file.stem, **read_toml(file)} for file in files]
    found, cases = compared(compared_scenarios(scenarios, set_fields), decide=output.decide)
    answer = found.to_dict()
    if output.suite is not None:
        from perfatlas.lab.harness import suite_document

        write_atomic(output.suite, format_toml(suite_document(cases)))
        sys.stderr.write(printable(f"perfatlas: --suite written to {output.suite}\n"))
    names = " ".join([*map(str, files or ()), *(["--decide"] if output.decide else [])])
    return show_answer(
        answer,
        output=output,
        set_fields=set_fields,
        command=f"compare {names}".strip(),
        pages=output.page,
    )
