"""`perfatlas fleet schedule`: many jobs on one cluster, with policy comparison."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Final

from cyclopts import Parameter

from perfatlas.commands.flags import (
    CHART_TITLES,
    OUTPUT,
    WITHOUT_NEGATIVE_FLAG,
    File,
    Output,
    OutputFlags,
    PageFlags,
    set_flags,
    takes_fields,
)
from perfatlas.commands.output import (
    TableQuestion,
    answer_rows,
    notice_if_slow,
    show_answer,
    show_summary,
    wants_table,
)
from perfatlas.declarations import example_of, verb_fields
from perfatlas.files import check_writable
from perfatlas.quantities import UsageError, printable

INTERRUPTED: Final = 130
PROGRESS: Final = "scheduling; Ctrl-C keeps results so far"


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class ScheduleFiles:
    """Further files of `fleet schedule`, and the comparison.

    Args:
        scenario: TOML file with the same names as the flags; flags take precedence.
        compare: Also schedule the same jobs with other values, such as
            backfill=none,easy,conservative; repeatable, for all combinations.
        per_job: Write per-job results (CSV, Parquet or JSON Lines).
        power_trace: Write the power of the site over time (CSV, Parquet or JSON Lines); needs
            --trace-resolution-s.
        page: HTML page of the answer.
    """

    scenario: File | None = None
    compare: Annotated[list[str] | None, WITHOUT_NEGATIVE_FLAG] = None
    per_job: File | None = None
    power_trace: File | None = None
    page: PageFlags = field(default_factory=PageFlags)

    def tables(self) -> dict[str, File]:
        """Return the files of columns, by flag."""
        named = {"--per-job": self.per_job, "--power-trace": self.power_trace}
        return {flag: path for flag, path in named.items() if path is not None}

    def files(self) -> dict[str, File]:
        """Return the output files of one schedule, by flag."""
        return {**self.tables(), **self.page.files()}


@takes_fields("fleet schedule")
def schedule(
    *,
    flags: object = None,
    extra: ScheduleFiles | None = None,
    output: Output = None,
) -> int:
    """Schedule jobs; return the exit code.

    Args:
        flags: Jobs, cluster, policy and failures.
        extra: Scenario file, comparison and further files.
    """
    from perfatlas.verbs.schedule.answer import fleet_schedule, schedule_row

    extra, output = extra or ScheduleFiles(), output or OutputFlags()
    extra.page.check(CHART_TITLES["fleet schedule"])
    set_fields = set_flags(flags, extra.scenario)
    if extra.compare:
        set_fields["compare"] = extra.compare
    if wants_table(output):
        _refuse_beside_table(extra, set_fields)
        names = verb_fields("fleet schedule")
        asked = TableQuestion(
            command="fleet schedule", names=names, first="completed", set_fields=set_fields
        )
        summary = answer_rows(schedule_row, output, asked)
        return show_summary("fleet schedule", summary, set_fields=set_fields, as_json=output.json)
    _require(set_fields)
    for path in extra.files().values():
        check_writable(path)
    for path in extra.tables().values():
        from perfatlas.files import table_format

        table_format(str(path))
    if extra.power_trace is not None and "trace_resolution_s" not in set_fields:
        raise UsageError("--power-trace needs --trace-resolution-s, such as 1h")
    with notice_if_slow(PROGRESS):
        done = fleet_schedule(**set_fields)
    shares = set_fields.get("shares")
    if isinstance(shares, dict):
        set_fields["shares"] = ",".join(f"{user}={share}" for user, share in shares.items())
    document = done.answer.to_dict()
    from perfatlas.verbs.schedule.blocks import schedule_page

    page = partial(schedule_page, power=done.power)
    show_answer(document, output=output, set_fields=set_fields, page=page, pages=extra.page)
    for flag, path in extra.tables().items():
        sys.stdout.flush()  # print the answer even if the file cannot be written
        from perfatlas.files import write_table

        power = {} if done.power is None else done.power.rounded()
        write_table(str(path), done.per_job() if flag == "--per-job" else power)
        sys.stderr.write(printable(f"perfatlas: {flag} written to {path}\n"))
    return INTERRUPTED if done.answer.results["interrupted"] else 0


def _require(set_fields: dict[str, Any]) -> None:
    """Raise for a command line without jobs or without a cluster."""
    missing = []
    if not {"jobs", "num_jobs", "load", "job_rate"} & set_fields.keys():
        missing.append("--jobs, --load or --job-rate")
    if "nodes" not in set_fields and "fleet" not in set_fields:
        missing.append("--nodes")
    if missing:
        raise UsageError(
            f"missing {' and '.join(missing)}; for example: {example_of('fleet schedule')}"
        )


def _refuse_beside_table(extra: ScheduleFiles, set_fields: dict[str, Any]) -> None:
    flags = [*extra.files(), *(["--compare"] if "compare" in set_fields else [])]
    if flags:
        raise UsageError(f"{flags[0]} cannot be combined with --table")
