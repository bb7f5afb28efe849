"""`perfatlas train`: one training step with its page and its trace, or a table of steps."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from perfatlas.commands.flags import (
    CHART_TITLES,
    OUTPUT,
    SWITCH,
    File,
    Output,
    OutputFlags,
    PageFlags,
    set_flags,
    takes_fields,
)
from perfatlas.commands.output import (
    Answering,
    answer_command,
    late_lines,
    require,
    show_answer,
    wants_table,
)
from perfatlas.declarations import example_of, verb_fields
from perfatlas.files import check_writable, write_atomic
from perfatlas.quantities import UsageError, printable

if TYPE_CHECKING:
    from typing import Any


ONE: Final = Answering(command="train", function="train", first="step_time_s")


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class TrainFlags:
    """Further files of `train`.

    Args:
        scenario: TOML file with the same names as the flags; flags take precedence.
        page: HTML page of the answer.
        trace: Write a Chrome trace of the passes of the pipeline (JSON, for ui.perfetto.dev).
        power_trace: Write the power over time (CSV, Parquet or JSON Lines); needs
            --trace-duration-s.
    """

    scenario: File | None = None
    page: PageFlags = field(default_factory=PageFlags)
    trace: File | None = None
    power_trace: File | None = None

    def files(self) -> dict[str, File]:
        """Return the output files, by flag."""
        named = {"--trace": self.trace, "--power-trace": self.power_trace}
        given = {flag: path for flag, path in named.items() if path is not None}
        return {**self.page.files(), **given}


@takes_fields("train")
def train(*, flags: object = None, extra: TrainFlags | None = None, output: Output = None) -> int:
    """Answer a training step; return the exit code.

    Args:
        extra: Further files.

    Raises:
        UsageError: A required field is missing, a file is combined with --table, two files are the
            same, or --power-trace has no trace_duration_s.
    """
    from perfatlas.verbs.train.answer import train as train_answer

    extra, output = extra or TrainFlags(), output or OutputFlags()
    extra.page.check(CHART_TITLES["train"])
    set_fields = set_flags(flags, extra.scenario)
    if wants_table(output):
        for flag in extra.files():
            raise UsageError(f"{flag} cannot be combined with --table")
        return answer_command(ONE, set_fields, output)
    needed = tuple(name for name, row in verb_fields("train").items() if row.required)
    require(set_fields, needed, example=example_of("train"))
    files = extra.files()
    for path in files.values():
        check_writable(path)
    if len({path.resolve() for path in files.values()}) < len(files):
        raise UsageError(f"{' and '.join(files)} name the same file")
    if extra.power_trace is not None:
        if "trace_duration_s" not in set_fields:
            raise UsageError("--power-trace needs --trace-duration-s, such as 1h")
        from perfatlas.files import table_format

        table_format(str(extra.power_trace))
    answer = train_answer(**set_fields).to_dict()
    page = None
    if files.keys() - {"--power-trace"}:
        from perfatlas.verbs.train.answer import training_timeline
        from perfatlas.verbs.train.blocks import training_page

        timeline = training_timeline(**set_fields)
        page = partial(training_page, timeline=timeline)
    code = show_answer(answer, output=output, set_fields=set_fields, page=page, pages=extra.page)
    if extra.trace is not None:
        from perfatlas.report.traces import pipeline_trace_text
        from perfatlas.verbs.train.metrics import PARTS

        sys.stdout.flush()  # print the answer even if the trace cannot be written
        later_s = {PARTS[name]: seconds for name, seconds in timeline.later_s.items()}
        write_atomic(extra.trace, pipeline_trace_text(timeline.passes, later_s))
        sys.stderr.write(printable(f"perfatlas: --trace written to {extra.trace}\n"))
    if extra.power_trace is not None:
        from perfatlas.files import write_table
        from perfatlas.verbs.train.answer import training_power

        sys.stdout.flush()
        write_table(str(extra.power_trace), training_power(**set_fields).columns())
        sys.stderr.write(printable(f"perfatlas: --power-trace written to {extra.power_trace}\n"))
    return code


COMMAND: Final = "search training"
EVERY_S: Final = 2.0  # between two lines of progress


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class LayoutSearchFlags:
    """Output of the search.

    Args:
        scenario: TOML file with the same names as the flags; flags take precedence.
        json: Print one JSON object in SI units instead of text.
        verbose: Print all rejected counts, calibrations, assumptions and sources.
        page: HTML page of the best layouts.
        output: Write every layout that was priced and fits (CSV, Parquet or JSON Lines).
    """

    scenario: File | None = None
    json: Annotated[bool, SWITCH] = False
    verbose: Annotated[bool, SWITCH] = False
    page: PageFlags = field(default_factory=PageFlags)
    output: File | None = None


@takes_fields(COMMAND)
def search_training(*, flags: object = None, output: LayoutSearchFlags | None = None) -> int:
    """Answer a search among training layouts; return the exit code."""
    from perfatlas.verbs.train.layouts import search_training as search_answer

    output = output or LayoutSearchFlags()
    output.page.check(CHART_TITLES[COMMAND])
    set_fields: dict[str, Any] = set_flags(flags, output.scenario)
    needed = tuple(name for name, field in verb_fields(COMMAND).items() if field.required)
    require(set_fields, needed, example=example_of(COMMAND))
    if output.output is not None:
        from perfatlas.files import table_format

        table_format(str(output.output))
        check_writable(output.output)
    for path in output.page.files().values():
        check_writable(path)
    with late_lines(EVERY_S) as tell:
        answer = search_answer(
            progress=lambda done, total: tell(f"{done:,} of {total:,} layouts"), **set_fields
        )
    told = answer.to_dict()
    if output.output is not None:
        columns = answer.columns
        from perfatlas.files import write_table

        write_table(str(output.output), columns)
        count = len(columns["step_time_s"])
        sys.stderr.write(f"perfatlas: {count:,} layouts written to {output.output}\n")
    from perfatlas.verbs.train.blocks import layouts_page

    page = partial(layouts_page, rate_per_cpu_s=answer.layouts_per_cpu_s * output.verbose)
    return show_answer(told, output=output, set_fields=set_fields, page=page, pages=output.page)
