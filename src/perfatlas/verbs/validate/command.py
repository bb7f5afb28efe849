"""`perfatlas validate serving`: compare estimates with your own benchmarks."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from perfatlas.commands.flags import SWITCH, File, PageFlags, set_flags, takes_fields
from perfatlas.commands.output import print_json, require, write_page_files
from perfatlas.files import check_writable
from perfatlas.quantities import InfeasibleError, InvalidSpecError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping


EXAMPLE: Final = (
    "perfatlas validate serving --results result.json --system h200_sxm --tp 8 --format fp8"
)
FILES: Final = Parameter(negative="", consume_multiple=True)
FACT_LINES: Final = 5  # above and below the tables


@takes_fields("validate serving")
def serving(
    *,
    results: Annotated[list[File] | None, FILES] = None,
    flags: object = None,
    page: PageFlags | None = None,
    json: Annotated[bool, SWITCH] = False,
    verbose: Annotated[bool, SWITCH] = False,
) -> int:
    """Compare estimates with benchmark results of vLLM, SGLang, TensorRT-LLM or AIPerf.

    Args:
        results: Result files, JSON or JSON Lines; every run in them is a row.
        flags: The deployment, where the files do not define it.
        page: HTML page with the measured and predicted figures.
        json: Print one JSON object.
        verbose: Print every row, not only those that fit a screen.
    """
    from perfatlas.report.text import reproduce_line
    from perfatlas.verbs.validate.answer import validate_serving
    from perfatlas.verbs.validate.blocks import benchmark_page

    set_fields = set_flags(flags)
    if results:  # of a flag without a file, an empty list
        set_fields = {"results": results, **set_fields}
    require(set_fields, ("results", "system"), example=EXAMPLE)
    files = set_fields.pop("results")
    pages = page or PageFlags()
    pages.check()
    for path in pages.files().values():
        check_writable(path)
    answer = validate_serving(files, **set_fields)
    if json:
        print_json(answer)
    else:
        _print_found(answer.results, verbose=verbose)
    if pages.files():
        sys.stdout.flush()  # print the answer even if the page cannot be written
        words = shlex.join(["--results", *map(str, files)])
        line = f"{reproduce_line('validate serving', set_fields)} {words}"
        write_page_files(pages, benchmark_page(answer, reproduce=line))
    return _exit_code(answer.results)


def _exit_code(found: Mapping[str, Any]) -> int:
    """Return 0 if a run was compared, else the code of the first refusal, reported on stderr."""
    if found["runs"]:
        return 0
    first = found["refused_runs"][0]
    sys.stderr.write(f"perfatlas: no run could be compared; {first['run']}: {first['error']}\n")
    kinds = (InvalidSpecError, InfeasibleError, UnsupportedError)
    codes = {kind.error_code: kind.exit_code for kind in kinds}
    return codes.get(first["error_code"], InvalidSpecError.exit_code)


def _print_found(found: Mapping[str, Any], *, verbose: bool) -> None:
    """Print totals, runs, outliers, and remarks on the runs."""
    from perfatlas.report.text import open_terminal, print_facts, print_tables, reproduce_line
    from perfatlas.verbs.validate.blocks import benchmark_tables

    console = open_terminal(sys.stdout)
    print_facts(console, {name: found[name] for name in ("rows", "refused")})
    console.print()
    print_tables(console, benchmark_tables(found), verbose=verbose, used=FACT_LINES)
    if found["question"]:
        line = reproduce_line("estimate", found["question"])
        console.print("bottlenecks of the run with the largest TPOT error:")
        console.print(line, style="dim", soft_wrap=True, markup=False, highlight=False)
