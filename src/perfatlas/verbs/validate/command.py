"""`perfatlas validate serving`: compare estimates with your own benchmarks."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from perfatlas.commands.flags import SWITCH, File, PageFlags, set_flags, takes_fields
from perfatlas.commands.output import envelope, print_json, require, write_page_files
from perfatlas.files import check_writable
from perfatlas.quantities import InfeasibleError, InvalidSpecError, UnsupportedError
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.report.text import TitledRows


EXAMPLE: Final = (
    "perfatlas validate serving --results result.json --system h200_sxm --tp 8 --format fp8"
)
FILES: Final = Parameter(negative="", consume_multiple=True)
FACT_LINES: Final = 5  # above and below the tables
COMPARED: Final = {
    "tpot": METRICS["tpot_s"].short_label,
    "output_tokens_per_s_per_gpu": METRICS["output_tokens_per_s_per_gpu"].label,
    "ttft": METRICS["ttft_s"].short_label,
}
TOTAL_HEADINGS: Final = {
    "figure": "",
    "rows": "runs",
    "mape": "MAPE",
    "median_error": "median",
    "bias": "bias",
    "inside_90": "in 90%",
}
TPOT_HEADINGS: Final = {
    "run": "",
    "concurrency": "concurrency",
    "isl": "in",
    "osl": "out",
    "tpot_measured_s": "measured",
    "tpot_s": "predicted",
    "tpot_error": "error",
    "tpot_inside_90": "in 90%",
    "tpot_bound_s": "roofline",
    "tpot_statistic": "measured is",
}
RATE_HEADINGS: Final = {
    "run": "",
    "gpus": "GPUs",
    "output_tokens_per_s_per_gpu_measured": "measured",
    "output_tokens_per_s_per_gpu": "predicted",
    "output_tokens_per_s_per_gpu_error": "error",
    "output_tokens_per_s_per_gpu_inside_90": "in 90%",
}
TTFT_HEADINGS: Final = {
    "run": "",
    "ttft_measured_s": "measured",
    "ttft_s": "predicted",
    "ttft_error": "error",
    "ttft_statistic": "measured is",
}
BOUND_HEADINGS: Final = {
    "run": "",
    "tpot_measured_s": "measured",
    "tpot_bound_s": "roofline",
    "tpot_s": "predicted",
}


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
    found = validate_serving(files, **set_fields)
    if json:
        _print_envelope(dict(found), set_fields | {"results": [str(file) for file in files]})
    else:
        _print_found(found, verbose=verbose)
    if pages.files():
        sys.stdout.flush()  # print the answer even if the page cannot be written
        words = shlex.join(["--results", *map(str, files)])
        line = f"{reproduce_line('validate serving', set_fields)} {words}"
        write_page_files(pages, benchmark_page(found, _tables(found), reproduce=line))
    return _exit_code(found)


def _print_envelope(found: dict[str, Any], set_fields: Mapping[str, Any]) -> None:
    evidence = found.pop("evidence")
    doubts = [
        f"{_run_names(note['runs'])}: {note['note']}"
        for note in found["notes"]
        if note["kind"] == "doubt"
    ]
    answer = envelope("validate serving", results=found, scenario=set_fields, warnings=doubts)
    print_json(answer | ({"evidence": evidence} if evidence else {}))


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

    console = open_terminal(sys.stdout)
    print_facts(console, {name: found[name] for name in ("rows", "refused")})
    console.print()
    print_tables(console, _tables(found), verbose=verbose, used=FACT_LINES)
    if found["question"]:
        line = reproduce_line("estimate", found["question"])
        console.print("bottlenecks of the run with the largest TPOT error:")
        console.print(line, style="dim", soft_wrap=True, markup=False, highlight=False)


def _tables(found: Mapping[str, Any]) -> list[TitledRows]:
    """Return the tables: totals, exclusions and remarks before the runs."""
    from perfatlas.report.text import TitledRows

    runs = found["runs"]
    totals = [_total(name, title, found) for name, title in COMPARED.items()] if runs else []
    statistics = dict.fromkeys(run["tpot_statistic"] for run in runs if run["tpot_statistic"])
    title = f"TPOT (measured: {', '.join(statistics) or 'nothing'})"
    columns = dict(TPOT_HEADINGS)
    if len(statistics) < 2:
        del columns["tpot_statistic"]
    faster = "faster than the roofline: check the plan, the formats and the load"
    notes = [note | {"about": _run_names(note["runs"])} for note in found["notes"]]
    notes += [{"about": "TTFT", "note": found["ttft_note"]}] if runs else []
    return [
        TitledRows("predicted and measured", totals, TOTAL_HEADINGS),
        TitledRows(title, runs, columns),
        TitledRows("output tokens/s per GPU", runs, RATE_HEADINGS),
        TitledRows(faster, found["below_bound"], BOUND_HEADINGS),
        TitledRows("not compared", found["refused_runs"], {"run": "", "error": "why"}),
        TitledRows("notes", notes, {"about": "", "note": "note"}),
        TitledRows("TTFT", runs, TTFT_HEADINGS),
    ]


def _total(name: str, title: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the totals of one metric with the keys of the table."""
    figures = ("rows", "mape", "median_error", "bias", "inside_90")
    return {"figure": title, **{figure: found[f"{name}_{figure}"] for figure in figures}}


def _run_names(names: Sequence[str]) -> str:
    """Return the names of runs, or their number."""
    return ", ".join(names) if len(names) <= 2 else f"{len(names)} runs"
