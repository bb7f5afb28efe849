"""`perfatlas fleet schedule`: many jobs on one cluster, with policy comparison."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Group, Parameter

from perfatlas.commands.flags import MANY, File, OutputFlags, PageFlags, set_flags, takes_fields
from perfatlas.commands.output import (
    answer_rows,
    notice_if_slow,
    print_json,
    show_summary,
    wants_table,
)
from perfatlas.files import check_writable, read_toml, table_format, write_atomic, write_table
from perfatlas.quantities import UsageError
from perfatlas.vocabulary.fields import verb_fields

if TYPE_CHECKING:
    from perfatlas.answer import Answer
    from perfatlas.verbs.schedule.answer import FleetSchedule

_OUTPUT: Final = Group("Output", sort_key=7)
INTERRUPTED: Final = 130
SLOW: Final = "scheduling; Ctrl-C keeps results so far"
EXAMPLE: Final = "perfatlas fleet schedule --num-jobs 20000 --load 0.9 --nodes 256"
ROWS_LEFT_OUT: Final = ("classes", "trace", "interrupted")  # results without a table column


@Parameter(name="*", group=_OUTPUT)
@dataclass(frozen=True, kw_only=True)
class ScheduleFiles:
    """Further files of `fleet schedule`, and the comparison.

    Args:
        scenario: TOML file with the same names as the flags; flags take precedence.
        compare: Also schedule the same jobs with other values, such as
            backfill=none,easy,conservative; repeatable, for all combinations.
        per_job: Write per-job results (CSV, Parquet or JSON Lines).
        page: HTML page of the answer.
    """

    scenario: File | None = None
    compare: Annotated[list[str] | None, MANY] = None
    per_job: File | None = None
    page: PageFlags = field(default_factory=PageFlags)

    def files(self) -> dict[str, File]:
        """Return the output files of one schedule, by flag."""
        named = {"--per-job": self.per_job, "--html": self.page.html}
        return {flag: path for flag, path in named.items() if path is not None}


@takes_fields("fleet schedule")
def schedule(
    *,
    flags: object = None,
    extra: ScheduleFiles | None = None,
    output: Annotated[OutputFlags | None, Parameter(group=_OUTPUT)] = None,
) -> int:
    """Schedule jobs; return the exit code.

    Args:
        flags: Jobs, cluster, policy and failures.
        extra: Scenario file, comparison and further files.
        output: Output of the answer.
    """
    import perfatlas

    extra, output = extra or ScheduleFiles(), output or OutputFlags()
    _ = extra.page.script  # report errors before the schedule runs
    asked = set_flags(flags)
    if extra.scenario is not None:
        asked = {**read_toml(extra.scenario), **asked}
    if extra.compare:
        asked["compare"] = extra.compare
    if wants_table(output):
        _refuse_beside_table(extra, asked)
        names = verb_fields("fleet schedule")
        summary = answer_rows(_row, output, asked=asked, names=names, first="completed")
        return show_summary("fleet schedule", summary, asked=asked, as_json=output.json)
    _require(asked)
    for path in extra.files().values():
        check_writable(path)
    if extra.per_job is not None:
        table_format(str(extra.per_job))
    with notice_if_slow(SLOW):
        done = perfatlas.fleet_schedule(**asked)
    _show(done, asked, as_json=output.json)
    sys.stdout.flush()  # print the answer even if the files cannot be written
    _write_files(done, extra, asked)
    return INTERRUPTED if done.answer.results["interrupted"] else 0


def _require(asked: dict[str, Any]) -> None:
    """Refuse a command line without jobs or without a cluster."""
    missing = []
    if "jobs" not in asked and "num_jobs" not in asked:
        missing.append("--jobs or --num-jobs")
    if "nodes" not in asked and "fleet" not in asked:
        missing.append("--nodes")
    if missing:
        raise UsageError(f"missing {' and '.join(missing)}; for example: {EXAMPLE}")


def _refuse_beside_table(extra: ScheduleFiles, asked: dict[str, Any]) -> None:
    flags = [*extra.files(), *(["--compare"] if "compare" in asked else [])]
    if flags:
        raise UsageError(f"{flags[0]} cannot be combined with --table")


def _row(**fields: Any) -> Answer:  # noqa: ANN401 - the schema checks the fields
    """Return an answer with results as table cells."""
    import perfatlas

    answer = perfatlas.fleet_schedule(**fields).answer
    kept = {name: value for name, value in answer.results.items() if name not in ROWS_LEFT_OUT}
    return replace(answer, results=kept)


def _show(done: FleetSchedule, asked: dict[str, Any], *, as_json: bool) -> None:
    told = done.answer.to_dict()
    if as_json:
        print_json(told)
        return
    from perfatlas.report.text import open_terminal
    from perfatlas.verbs.schedule.text import print_schedule

    print_schedule(open_terminal(sys.stdout), told, reproduce=_reproduce(asked))


def _reproduce(asked: dict[str, Any]) -> str:
    from perfatlas.report.text import reproduce_line

    shares = asked.get("shares")
    if isinstance(shares, dict):
        asked = {**asked, "shares": ",".join(f"{user}={share}" for user, share in shares.items())}
    return reproduce_line("fleet schedule", asked)


def _write_files(done: FleetSchedule, extra: ScheduleFiles, asked: dict[str, Any]) -> None:
    from perfatlas.verbs.schedule.page import schedule_page

    if extra.per_job is not None:
        write_table(str(extra.per_job), done.per_job())
    if extra.page.html is not None:
        told, line = done.answer.to_dict(), _reproduce(asked)
        page = schedule_page(told, reproduce=line, script=extra.page.script)
        write_atomic(extra.page.html, page)
    for flag, path in extra.files().items():
        sys.stderr.write(f"perfatlas: {flag} written to {path}\n")
