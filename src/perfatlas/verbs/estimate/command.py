"""`perfatlas estimate`: one inference scenario, a table, a frontier, or sensitivities."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from perfatlas import files
from perfatlas.commands.flags import (
    CHART_TITLES,
    OUTPUT,
    RARE,
    SWITCH,
    File,
    Output,
    OutputFlags,
    PageFlags,
    Seconds,
    set_flags,
    takes_fields,
)
from perfatlas.commands.output import (
    TableQuestion,
    answer_table,
    late_lines,
    require,
    shortfall_of,
    show_answer,
    show_summary,
    wants_table,
)
from perfatlas.declarations import example_of
from perfatlas.quantities import InfeasibleError, UsageError, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class EstimateFlags:
    """Further files of `estimate`, and the frontier.

    Args:
        scenario: TOML file with the same names as the flags; flags take precedence.
        trace: Write a Chrome trace of the steps (JSON, for ui.perfetto.dev).
        frontier: Throughput against interactivity for batches from 1 to the largest that fits.
        frontier_over: What --frontier sweeps: batch, or, for energy against latency, clock_ratio
            or power_cap_w.
        page: HTML page of the estimate, of the frontier or of the sensitivities.
        explain: Sensitivities to the hardware, the next bottleneck and break-even values.
        slo_ttft_s: With --explain: TTFT for which break-even values are sought.
        slo_tpot_s: With --explain: TPOT for which break-even values are sought.
        slo_request_latency_s: With --explain: request latency, likewise.
    """

    scenario: File | None = None
    trace: File | None = None
    frontier: Annotated[bool, SWITCH] = False
    frontier_over: Annotated[Literal["batch", "clock_ratio", "power_cap_w"], RARE] = "batch"
    page: PageFlags = field(default_factory=PageFlags)
    explain: Annotated[bool, SWITCH] = False
    slo_ttft_s: Annotated[Seconds, RARE] = None
    slo_tpot_s: Annotated[Seconds, RARE] = None
    slo_request_latency_s: Annotated[Seconds, RARE] = None

    @property
    def of_explain(self) -> dict[str, Any]:
        """The options of --explain that are set."""
        names = ("slo_ttft_s", "slo_tpot_s", "slo_request_latency_s")
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}


@takes_fields("estimate")
def estimate(
    *,
    flags: object = None,
    extra: EstimateFlags | None = None,
    output: Output = None,
) -> int:
    """Answer an estimate; return the exit code.

    Args:
        extra: Scenario file, trace and frontier.
    """
    extra, output = extra or EstimateFlags(), output or OutputFlags()
    set_fields = set_flags(flags, extra.scenario)
    _refuse_combinations(extra, output)
    if wants_table(output):
        return _estimate_table(set_fields, output)
    require(set_fields, ("model",), example=example_of("estimate"))
    if "system" not in set_fields and "prefill_system" not in set_fields:
        require(set_fields, ("system",), example=example_of("estimate"))
    if extra.frontier:
        return _frontier(set_fields, output, extra)
    if extra.explain:
        return _explain(set_fields, extra, output)
    return _estimate(set_fields, extra, output)


def _refuse_combinations(extra: EstimateFlags, output: OutputFlags) -> None:
    """Refuse flags that exclude each other."""
    if extra.frontier_over != "batch" and not extra.frontier:
        raise UsageError(
            f"--frontier-over {extra.frontier_over} has no effect without --frontier; set"
            " --frontier, or leave --frontier-over out"
        )
    extra.page.check(CHART_TITLES["estimate"])
    for flag in extra.page.files():
        if output.table is not None:
            raise UsageError(f"{flag} cannot be combined with --table")
    forms = {
        "--frontier": extra.frontier,
        "--explain": extra.explain,
        "--trace": extra.trace is not None,
        "--table": output.table is not None,
    }
    given = [flag for flag, is_given in forms.items() if is_given]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} cannot be combined; use one of them")
    if extra.of_explain and not extra.explain:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in extra.of_explain)
        raise UsageError(f"{flags} needs --explain, whose break-even values it sets")


def _estimate(set_fields: dict[str, Any], extra: EstimateFlags, output: OutputFlags) -> int:
    from perfatlas.verbs.estimate.answer import estimate as estimate_answer

    for path in (extra.trace, *extra.page.files().values()):
        if path is not None:
            files.check_writable(path)
    with _with_memory_answer(set_fields):
        answer = estimate_answer(**set_fields).to_dict()
    code = show_answer(answer, output=output, set_fields=set_fields, pages=extra.page)
    if extra.trace is not None:
        from perfatlas.report.traces import chrome_trace_text

        sys.stdout.flush()  # print the answer even if the trace cannot be written
        files.write_atomic(extra.trace, chrome_trace_text(answer))
        sys.stderr.write(
            printable(f"perfatlas: trace written to {extra.trace}; open it in ui.perfetto.dev\n")
        )
    return code


@contextlib.contextmanager
def _with_memory_answer(set_fields: Mapping[str, Any]) -> Iterator[None]:
    """Give the error of a scenario that does not fit what --json prints of its memory."""
    try:
        yield
    except InfeasibleError as problem:
        if problem.memory:
            from perfatlas.commands.output import envelope

            memory = {**problem.memory, "fits": False}
            results = {"memory": memory, "advice": list(problem.advice)}
            notes = (shortfall_of(problem),)
            problem.answer = envelope(
                "estimate", results=results, scenario=set_fields, warnings=notes
            )
        raise


def _estimate_table(set_fields: dict[str, Any], output: OutputFlags) -> int:
    from perfatlas.scenario.fields import FIELD_NAMES
    from perfatlas.verbs.estimate.answer import estimate_table

    priced: dict[str, int] = {}

    def answer_columns(questions: dict[str, list[Any]]) -> dict[str, Sequence[Any]]:
        answers = estimate_table(questions)
        for name in ("operators_priced", "distinct_shapes"):
            priced[name] = priced.get(name, 0) + answers.results[name]
        return answers.cells

    summary = answer_table(
        answer_columns,
        output,
        TableQuestion(
            command="estimate",
            names=FIELD_NAMES,
            first="memory_weights_bytes",
            set_fields=set_fields,
        ),
    )
    return show_summary(
        "estimate", {**priced, **summary}, set_fields=set_fields, as_json=output.json
    )


def _frontier(set_fields: dict[str, Any], output: OutputFlags, extra: EstimateFlags) -> int:
    from perfatlas.verbs.estimate.frontiers import frontier

    over = extra.frontier_over
    for path in extra.page.files().values():
        files.check_writable(path)
    with _with_memory_answer(set_fields), late_lines() as tell:
        answer = frontier(over=over, progress=tell, **set_fields).to_dict()
    command = "estimate --frontier"
    if over != "batch":
        command += f" --frontier-over {over}"
    return show_answer(
        answer, output=output, set_fields=set_fields, command=command, pages=extra.page
    )


def _explain(set_fields: dict[str, Any], extra: EstimateFlags, output: OutputFlags) -> int:
    from perfatlas.verbs.estimate.answer import explain

    for path in extra.page.files().values():
        files.check_writable(path)
    with _with_memory_answer(set_fields):
        answer = explain(**extra.of_explain, **set_fields).to_dict()
    asked = {**set_fields, **extra.of_explain}
    return show_answer(answer, output=output, set_fields=asked, pages=extra.page)
