"""`perfatlas simulate`: simulated traffic of one scenario, or a table of them."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

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
    default,
    set_flags,
    takes_fields,
)
from perfatlas.commands.output import (
    Progress,
    TableQuestion,
    answer_rows,
    reproduced,
    require,
    show_answer,
    show_summary,
    wants_table,
    write_page_files,
)
from perfatlas.declarations import example_of
from perfatlas.files import check_writable, write_atomic
from perfatlas.quantities import UnsupportedError, UsageError, printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.verbs.simulate.answer import Simulation

INTERRUPTED: Final = 130


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class SimulateFlags:
    """Further files of `simulate`, and the searches.

    Args:
        scenario: TOML file with the same names as the flags; flags take precedence.
        find_rate: Find the largest request rate that meets the SLOs (--slo-...).
        find_replicas: Find the smallest number of replicas that meets the SLOs (--slo-...).
        find_sessions: Find the largest number of live sessions that meets the SLOs (--slo-...).
        per_request: Write per-request results (CSV, Parquet or JSON Lines).
        power_trace: Write the power of all GPUs over time (CSV, Parquet or JSON Lines).
        page: HTML page of the answer.
        trace: Write a Chrome trace of the requests (JSON, for ui.perfetto.dev).
        trace_from_s: Start of the --trace window, in seconds.
        trace_for_s: Length of the --trace window, in seconds; by default to the end.
    """

    scenario: File | None = None
    find_rate: Annotated[bool, SWITCH] = False
    find_replicas: Annotated[bool, SWITCH] = False
    find_sessions: Annotated[bool, SWITCH] = False
    per_request: File | None = None
    power_trace: Annotated[File | None, RARE] = None
    page: PageFlags = field(default_factory=PageFlags)
    trace: File | None = None
    trace_from_s: Annotated[Seconds, default("0"), RARE] = None
    trace_for_s: Annotated[Seconds, RARE] = None

    def refuse_unused_options(self) -> None:
        """Refuse options of files that are not written, and two searches at once.

        Raises:
            UsageError: A trace window without --trace, --html-script without --html, or two
                searches.
        """
        self.page.check(CHART_TITLES["simulate"])
        if self.find_rate + self.find_replicas + self.find_sessions > 1:
            raise UsageError(
                "--find-rate, --find-replicas and --find-sessions exclude each other; set one of"
                " them"
            )
        window = {"--trace-from-s": self.trace_from_s, "--trace-for-s": self.trace_for_s}
        for flag, value in window.items():
            if value is not None and self.trace is None:
                raise UsageError(
                    f"{flag} {value:g} has no effect without --trace; set --trace FILE, or leave"
                    f" {flag} out"
                )
            if value is not None and not 0.0 <= value < float("inf"):
                raise UsageError(f"{flag} {value:g}: expected seconds, 0 or more")

    @property
    def verb_function(self) -> Callable[..., Simulation]:
        """The Python function that answers."""
        from perfatlas.verbs import simulate as verb

        if self.find_replicas:
            return verb.required_replicas
        if self.find_sessions:
            return verb.max_sessions
        return verb.max_request_rate if self.find_rate else verb.simulate

    def files(self) -> dict[str, File]:
        """Return the output files of one simulation, by flag."""
        return self.records() | self.page.files()

    def records(self) -> dict[str, File]:
        """Return the output files of one run, by flag."""
        named = self.tables() | {"--trace": self.trace}
        return {flag: path for flag, path in named.items() if path is not None}

    def tables(self) -> dict[str, File | None]:
        """Return the files of columns, by flag."""
        return {"--per-request": self.per_request, "--power-trace": self.power_trace}


@takes_fields("simulate")
def simulate(
    *,
    flags: object = None,
    extra: SimulateFlags | None = None,
    output: Output = None,
) -> int:
    """Simulate traffic; return the exit code.

    Args:
        extra: Further files, and the searches.
    """
    extra, output = extra or SimulateFlags(), output or OutputFlags()
    extra.refuse_unused_options()
    set_fields = set_flags(flags, extra.scenario)
    if wants_table(output):
        if extra.files():
            flag = next(iter(extra.files()))
            raise UsageError(f"{flag} cannot be combined with --table")
        return _simulate_table(set_fields, output, extra.verb_function)
    own = set_fields.get("replica_kinds") or (
        set_fields.get("prefill_system") and set_fields.get("decode_system")
    )
    require(set_fields, ("model",) if own else ("model", "system"), example=example_of("simulate"))
    for table in filter(None, extra.tables().values()):
        from perfatlas.files import table_format

        table_format(str(table))
    for path in extra.files().values():
        check_writable(path)
    return _simulate(set_fields, extra, output)


def _simulate(set_fields: dict[str, Any], extra: SimulateFlags, output: OutputFlags) -> int:
    with Progress() as watch:
        done = extra.verb_function(progress=watch.look, **set_fields)
        watch.clear()
        try:
            code = show_answer(done.answer.to_dict(), output=output, set_fields=set_fields)
            sys.stdout.flush()  # print the answer even if the files cannot be written
        finally:  # also if the reader has closed the pipe
            _write_files(done, extra, set_fields)
    return INTERRUPTED if watch.stopped or done.answer.results["interrupted"] else code


def _write_files(done: Simulation, extra: SimulateFlags, set_fields: dict[str, Any]) -> None:
    from perfatlas.report.traces import requests_trace_text
    from perfatlas.verbs.simulate.blocks import SimulatedRun, traffic_page

    if not extra.files():
        return
    columns = done.per_request()
    of_one = "" if done.seed is None else f" (requests of seed {done.seed})"
    if extra.per_request is not None:
        from perfatlas.files import write_table

        write_table(str(extra.per_request), columns)
    if extra.power_trace is not None:
        from perfatlas.files import write_table

        series = done.series()
        watts = series.get("deployment_power_w")
        if watts is None:
            raise UnsupportedError(
                "--power-trace: the power of the devices is not predicted; leave --power-trace out"
            )
        write_table(
            str(extra.power_trace),
            {"time_s": series["time_s"][: len(watts)], "deployment_power_w": watts},
        )
    if extra.page.files():
        answer = done.answer.to_dict()
        line = reproduced(answer["command"], set_fields)
        seen = SimulatedRun(columns, done.series(), done.out_of_service(), done.seed)
        write_page_files(extra.page, traffic_page(answer, seen, reproduce=line), note=of_one)
    if extra.trace is not None:
        text = requests_trace_text(
            columns,
            done.series(),
            start_s=extra.trace_from_s or 0.0,
            duration_s=extra.trace_for_s,
        )
        write_atomic(extra.trace, text)
    for flag, path in extra.records().items():
        sys.stderr.write(printable(f"perfatlas: {flag} written to {path}{of_one}\n"))


def _simulate_table(
    set_fields: dict[str, Any], output: OutputFlags, verb_function: Callable[..., Simulation]
) -> int:
    from perfatlas.scenario.fields import FIELD_NAMES, TRAFFIC_NAMES
    from perfatlas.verbs.simulate.answer import simulated_row

    names = (*FIELD_NAMES, *TRAFFIC_NAMES)
    asked = TableQuestion(
        command="simulate", names=names, first="ttft_s_mean", set_fields=set_fields
    )
    summary = answer_rows(lambda _, fields: simulated_row(verb_function, fields), output, asked)
    return show_summary("simulate", summary, set_fields=set_fields, as_json=output.json)
