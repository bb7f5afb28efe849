"""`perfatlas search`: the best deployments, their frontier, and a table of all candidates."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from perfatlas.commands.flags import (
    CHART_TITLES,
    OUTPUT,
    SWITCH,
    File,
    PageFlags,
    set_flags,
    takes_fields,
)
from perfatlas.commands.output import (
    late_lines,
    notice_if_slow,
    require,
    show_answer,
)
from perfatlas.declarations import example_of, verb_fields
from perfatlas.files import check_writable, write_atomic
from perfatlas.quantities import UsageError

if TYPE_CHECKING:
    from typing import Any

    from perfatlas.verbs.search.answer import SearchAnswer

PROGRESS: Final = "searching deployments"


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class SearchFlags:
    """Output of the search.

    Args:
        scenario: TOML file with the same names as the flags; flags take precedence.
        json: Print one JSON object in SI units instead of text.
        verbose: Print a larger chart, all rejected counts, calibrations, assumptions and sources.
        output: Write every candidate at its best load (CSV, Parquet or JSON Lines); with --solve,
            the machine as a hardware file (TOML).
        explain: Also say what the latencies of the best plan depend on: sensitivities to the
            hardware, the next bottleneck, and values with which it meets the SLOs.
        page: HTML page of the answer.
    """

    scenario: File | None = None
    json: Annotated[bool, SWITCH] = False
    verbose: Annotated[bool, SWITCH] = False
    output: File | None = None
    explain: Annotated[bool, SWITCH] = False
    page: PageFlags = field(default_factory=PageFlags)


@takes_fields("search")
def search(*, flags: object = None, output: SearchFlags | None = None) -> int:
    """Answer a search; return the exit code."""
    from perfatlas.verbs.search.answer import search as search_answer

    output = output or SearchFlags()
    output.page.check(CHART_TITLES["search"])
    set_fields: dict[str, Any] = set_flags(flags, output.scenario)
    for name, value in set_fields.items():
        if isinstance(value, str) and not value.strip():  # such as a shell variable without a value
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag} is empty: give a value, or leave {flag} out for its default")
    given = {"system"} if "systems" in set_fields else set()
    fields = verb_fields("search").items()
    needed = tuple(name for name, field in fields if field.required and name not in given)
    require(set_fields, needed, example=example_of("search"))
    solves = set_fields.get("solve") is not None
    _check_files(output, solves=solves)
    with notice_if_slow(PROGRESS), late_lines() as tell:
        answer = search_answer(progress=tell, **set_fields)
    told = answer.to_dict()
    if output.verbose:  # it differs between runs
        told["results"]["candidates_per_cpu_s"] = answer.candidates_per_cpu_s
    if output.explain:
        told["results"]["explained"] = answer.explained().to_dict()["results"]
    if output.output is not None:
        _write(str(output.output), answer, told)
    command = "search --explain" if output.explain else "search"
    return show_answer(
        told,
        output=output,
        set_fields=set_fields,
        command=command,
        pages=output.page,
    )


def _check_files(output: SearchFlags, *, solves: bool) -> None:
    """Refuse files that cannot be written, or do not hold the answer."""
    files = output.page.files()
    if solves and files:
        raise UsageError("search --solve has no page; leave out --html and --figure")
    if output.output is not None:
        if not solves:
            from perfatlas.files import table_format

            table_format(str(output.output))
        elif output.output.suffix != ".toml":
            raise UsageError("search --solve writes a hardware file: give --output a .toml path")
        check_writable(output.output)
    for path in files.values():
        check_writable(path)


def _write(path: str, answer: SearchAnswer, told: dict[str, Any]) -> None:
    """Write the candidates of a search, or the solved machine."""
    from perfatlas.studies.deployments import machine_toml

    if "machine" in told["results"]:
        write_atomic(path, machine_toml(told))
        return
    from perfatlas.files import write_table

    write_table(path, answer.columns)
    sys.stderr.write(f"perfatlas: {answer.results['candidates']:,} candidates written to {path}\n")
