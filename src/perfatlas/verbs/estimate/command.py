"""`perfatlas estimate`: one inference scenario, a table of them, or a frontier over batches."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from perfatlas.commands.flags import SWITCH, File, OutputFlags, set_flags, takes_fields
from perfatlas.commands.output import (
    answer_table,
    print_json,
    require,
    shortfall_of,
    show_answer,
    show_summary,
    wants_table,
)
from perfatlas.files import check_writable, read_toml, write_atomic
from perfatlas.quantities import InfeasibleError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_OUTPUT = Group("Output", sort_key=7)
EXAMPLE = (
    "perfatlas estimate --model meta-llama/Llama-3.1-70B-Instruct --system h200_sxm --gpus 8 "
    "--batch 64 --isl 2048 --osl 512"
)


@Parameter(name="*", group=_OUTPUT)
@dataclass(frozen=True, kw_only=True)
class EstimateFlags:
    """Further files of `estimate`, and the frontier.

    Args:
        scenario: TOML file with the same names as the flags; flags take precedence.
        trace: Write a Chrome trace of the steps (JSON, for ui.perfetto.dev).
        frontier: Throughput against interactivity for batches from 1 to the largest that fits.
    """

    scenario: File | None = None
    trace: File | None = None
    frontier: Annotated[bool, SWITCH] = False


@takes_fields("estimate")
def estimate(
    *,
    flags: object = None,
    extra: EstimateFlags | None = None,
    output: Annotated[OutputFlags | None, Parameter(group=_OUTPUT)] = None,
) -> int:
    """Answer an estimate; return the exit code.

    Args:
        flags: The scenario.
        extra: Scenario file, trace and frontier.
        output: Output of the answer.
    """
    extra, output = extra or EstimateFlags(), output or OutputFlags()
    asked = set_flags(flags)
    if extra.scenario is not None:
        asked = {**read_toml(extra.scenario), **asked}
    if wants_table(output):
        if extra.frontier or extra.trace is not None:
            raise UsageError("--frontier and --trace cannot be combined with --table")
        return _estimate_table(asked, output)
    require(asked, ("model",), example=EXAMPLE)
    if "system" not in asked and "prefill_system" not in asked:
        require(asked, ("system",), example=EXAMPLE)
    if extra.frontier:
        if extra.trace is not None:
            raise UsageError("--frontier and --trace cannot be combined; use one of the two")
        return _frontier(asked, as_json=output.json)
    return _estimate(asked, extra, as_json=output.json)


def _estimate(asked: dict[str, Any], extra: EstimateFlags, *, as_json: bool) -> int:
    import perfatlas

    if extra.trace is not None:
        check_writable(extra.trace)
    with _told(asked, as_json=as_json):
        answer = perfatlas.estimate(**asked).to_dict()
    code = show_answer(answer, as_json=as_json, asked=asked)
    if extra.trace is not None:
        from perfatlas.report.traces import chrome_trace_text

        sys.stdout.flush()  # print the answer even if the trace cannot be written
        write_atomic(extra.trace, chrome_trace_text(answer))
        sys.stderr.write(f"perfatlas: trace written to {extra.trace}; open it in ui.perfetto.dev\n")
    return code


@contextlib.contextmanager
def _told(asked: Mapping[str, Any], *, as_json: bool) -> Iterator[None]:
    """Print the JSON answer of a scenario that does not fit before its error goes to stderr."""
    try:
        yield
    except InfeasibleError as problem:
        if as_json and problem.memory:
            from perfatlas.commands.output import envelope

            memory = {**problem.memory, "fits": False}
            results = {"memory": memory, "advice": list(problem.advice)}
            said = (shortfall_of(problem),)
            print_json(envelope("estimate", results=results, scenario=asked, warnings=said))
        raise


def _estimate_table(asked: dict[str, Any], output: OutputFlags) -> int:
    import perfatlas
    from perfatlas.scenario.fields import FIELD_NAMES

    priced: dict[str, Any] = {}

    def face(questions: dict[str, list[Any]]) -> dict[str, list[Any]]:
        answers = perfatlas.estimate_table(questions)
        priced.update(answers.results)
        return answers.columns

    summary = answer_table(
        face, output, asked=asked, names=FIELD_NAMES, first="memory_weights_bytes"
    )
    return show_summary("estimate", {**priced, **summary}, asked=asked, as_json=output.json)


def _frontier(asked: dict[str, Any], *, as_json: bool) -> int:
    import perfatlas

    with _told(asked, as_json=as_json):
        answer = perfatlas.frontier(**asked).to_dict()
    if as_json:
        print_json(answer)
        return 0
    from perfatlas.report.text import open_terminal, reproduce_line
    from perfatlas.verbs.estimate.text import print_frontier

    line = reproduce_line("estimate --frontier", asked)
    print_frontier(open_terminal(sys.stdout), answer, reproduce=line)
    return 0
