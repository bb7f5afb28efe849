"""`perfatlas goodput` and its forms: useful time between failures, one answer or a table."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Final

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
    command_of,
    notice_if_slow,
    require,
    show_answer,
    wants_table,
)
from perfatlas.declarations import example_of
from perfatlas.files import check_writable
from perfatlas.quantities import UsageError, printable

PROGRESS: Final = "simulating until goodput is as precise as --half-width"
SLOW_STEP: Final = "predicting the training step"
SLOW_FRONTIER: Final = "simulating recovery strategies"
FRONTIER_EXAMPLE: Final = (
    "perfatlas goodput --frontier --fleet llama3 --gpus 16000 --checkpoint-write-s 30"
    " --restart-s 600"
)

ONE: Final = Answering(command="goodput", function="goodput", first="goodput")


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class GoodputFiles:
    """Further files of `goodput`.

    Args:
        scenario: TOML file with the same names as the flags; flags take precedence.
        page: HTML page of the answer.
        frontier: Recovery strategies of a fleet's job: interval x checkpoint levels x spares x
            policy, and those that no other exceeds; --output writes all of them.
    """

    scenario: File | None = None
    frontier: Annotated[bool, SWITCH] = False
    page: PageFlags = field(default_factory=PageFlags)


@takes_fields("goodput")
def goodput(
    *,
    flags: object = None,
    extra: GoodputFiles | None = None,
    output: Output = None,
) -> int:
    """Answer goodput; return the exit code.

    Args:
        flags: The job and its failures.
    """
    extra, output = extra or GoodputFiles(), output or OutputFlags()
    extra.page.check(CHART_TITLES["goodput"])
    pages = extra.page.files()
    set_fields = set_flags(flags, extra.scenario)
    if extra.frontier:
        return _frontier(set_fields, extra, output)
    if wants_table(output):
        if pages or set_fields.get("what_if"):
            flag = next(iter(pages), "--what-if")
            raise UsageError(f"{flag} cannot be combined with --table")
        return answer_command(ONE, set_fields, output)
    if "fleet" not in set_fields:  # whose file may say both
        written = "checkpoint_bytes_per_s" in set_fields
        needed = ("restart_s",) if written else ("checkpoint_write_s", "restart_s")
        if "train" not in set_fields:  # whose file may say how long checkpoints take
            require(set_fields, needed, example=example_of("goodput"))
    for path in pages.values():
        check_writable(path)
    columns: dict[str, list[float]] = {}
    with notice_if_slow(
        PROGRESS if "train" not in set_fields or "fleet" in set_fields else SLOW_STEP
    ):
        if "fleet" in set_fields:
            from perfatlas.verbs.goodput.fleet_answer import fleet_goodput

            run = fleet_goodput(**set_fields)
            answer, columns = run.answer, run.per_replica()
        else:
            from perfatlas.verbs.goodput.answer import goodput as goodput_answer

            answer = goodput_answer(**set_fields)
    from perfatlas.verbs.goodput.blocks import goodput_page

    page = partial(goodput_page, columns=columns)
    return show_answer(
        answer.to_dict(), output=output, set_fields=set_fields, page=page, pages=extra.page
    )


def _frontier(set_fields: dict[str, Any], extra: GoodputFiles, output: OutputFlags) -> int:
    """Answer the frontier of recovery strategies; return the exit code."""
    from perfatlas.verbs.goodput.fleet_answer import goodput_frontier

    files = {"--table": output.table, "--resume": output.resume}
    for flag, is_set in files.items():
        if is_set:
            raise UsageError(f"{flag} cannot be combined with --frontier")
    if output.output is not None:
        from perfatlas.files import table_format

        table_format(str(output.output))
        check_writable(output.output)
    for path in extra.page.files().values():
        check_writable(path)
    require(set_fields, ("fleet",), example=FRONTIER_EXAMPLE)
    with notice_if_slow(SLOW_FRONTIER):
        found = goodput_frontier(**set_fields)
    if output.output is not None:
        from perfatlas.files import write_table

        write_table(str(output.output), found.columns)
        text = f"{found.results['strategies']:,} strategies written to {output.output}"
        sys.stderr.write(printable(f"perfatlas: {text}\n"))
    answer = found.answer.to_dict()
    return show_answer(answer, output=output, set_fields=set_fields, pages=extra.page)


spares = command_of(
    Answering(
        command="goodput spares",
        function="goodput_spares",
        first="blocked_probability",
        needed=("nodes", "node_mtbf_s", "repair_s"),
        unless="fleet",
    )
)
