"""`perfatlas train`: one training step with its page and its trace, or a table of steps."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from cyclopts import Parameter

from perfatlas.commands.flags import (
    CHART_TITLES,
    OUTPUT,
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
    reproduced,
    require,
    show_answer,
    wants_table,
    write_page_files,
)
from perfatlas.declarations import example_of, verb_fields
from perfatlas.files import check_writable, write_atomic
from perfatlas.quantities import UsageError, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

ONE: Final = Answering(
    command="train", function="train", first="step_time_s", text="text:print_training"
)


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class TrainFlags:
    """Further files of `train`.

    Args:
        scenario: TOML file with the same names as the flags; flags take precedence.
        page: HTML page of the answer.
        trace: Write a Chrome trace of the passes of the pipeline (JSON, for ui.perfetto.dev).
    """

    scenario: File | None = None
    page: PageFlags = field(default_factory=PageFlags)
    trace: File | None = None

    def files(self) -> dict[str, File]:
        """Return the output files, by flag."""
        trace = {} if self.trace is None else {"--trace": self.trace}
        return {**self.page.files(), **trace}


@takes_fields("train")
def train(*, flags: object = None, extra: TrainFlags | None = None, output: Output = None) -> int:
    """Answer a training step; return the exit code.

    Args:
        extra: Further files.

    Raises:
        UsageError: A required field is missing, --html or --trace is combined with --table, or both
            name the same file.
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
    answer = train_answer(**set_fields).to_dict()
    code = show_answer(answer, output=output, set_fields=set_fields, text=ONE.find(ONE.text))
    _write_files(answer, extra, set_fields)
    return code


def _write_files(
    answer: Mapping[str, Any], extra: TrainFlags, set_fields: Mapping[str, Any]
) -> None:
    """Write the page and the trace."""
    if not extra.files():
        return
    from perfatlas.verbs.train.answer import training_timeline

    sys.stdout.flush()  # print the answer even if the files cannot be written
    timeline = training_timeline(**set_fields)
    if extra.page.files():
        from perfatlas.verbs.train.page import training_page

        line = reproduced("train", set_fields)
        write_page_files(extra.page, training_page(answer, timeline, reproduce=line))
    if extra.trace is not None:
        from perfatlas.report.traces import pipeline_trace_text
        from perfatlas.verbs.train.metrics import PARTS

        later_s = {PARTS[name]: seconds for name, seconds in timeline.later_s.items()}
        write_atomic(extra.trace, pipeline_trace_text(timeline.passes, later_s))
        sys.stderr.write(printable(f"perfatlas: --trace written to {extra.trace}\n"))
