"""`perfatlas fleet schedule`: many jobs on one cluster, one policy or several side by side."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Group, Parameter

from perfatlas.commands.flags import MANY, File, OutputFlags, PageFlags, asks, set_flags
from perfatlas.commands.output import (
    answer_rows,
    print_json,
    show_summary,
    told_if_slow,
    wants_table,
)
from perfatlas.files import check_writable, read_toml, table_format, write_atomic, write_table
from perfatlas.quantities import UsageError
from perfatlas.vocabulary.fields import fields_asked

if TYPE_CHECKING:
    from perfatlas.answer import Answer
    from perfatlas.verbs.schedule.answer import FleetSchedule

_OUTPUT: Final = Group("Output", sort_key=7)
INTERRUPTED: Final = 130
SLOW: Final = "scheduling; Ctrl-C keeps what is done"
EXAMPLE: Final = "perfatlas fleet schedule --num-jobs 20000 --load 0.9 --nodes 256"
ROWS_LEFT_OUT: Final = ("classes", "trace", "interrupted")  # of a table's cells


@Parameter(name="*", group=_OUTPUT)
@dataclass(frozen=True, kw_only=True)
class ScheduleFiles:
    """What else `fleet schedule` reads and writes.

    Args:
        scenario: TOML file with the same names as the flags; flags win over it.
        compare: Schedule the same jobs otherwise too, as backfill=none,easy,conservative;
            repeatable, every combination.
        per_job: Write what came of every job (CSV, Parquet or JSON Lines).
        page: An HTML page of the answer.
    """

    scenario: File | None = None
    compare: Annotated[list[str] | None, MANY] = None
    per_job: File | None = None
    page: PageFlags = field(default_factory=PageFlags)

    def files(self) -> dict[str, File]:
        """Return the files one schedule writes, by flag."""
        named = {"--per-job": self.per_job, "--html": self.page.html}
        return {flag: path for flag, path in named.items() if path is not None}


@asks("fleet schedule")
def schedule(
    *,
    flags: object = None,
    extra: ScheduleFiles | None = None,
    output: Annotated[OutputFlags | None, Parameter(group=_OUTPUT)] = None,
) -> int:
    """Return the exit code of a schedule.

    Args:
        flags: Jobs, cluster, policy and failures.
        extra: Scenario file, comparison and further files.
        output: Where the answer goes.
    """
    import perfatlas

    extra, output = extra or ScheduleFiles(), output or OutputFlags()
    _ = extra.page.script  # refused before the schedule runs
    asked = set_flags(flags)
    if extra.scenario is not None:
        asked = {**read_toml(extra.scenario), **asked}
    if extra.compare:
        asked["compare"] = extra.compare
    if wants_table(output):
        _refuse_beside_table(extra, asked)
        names = fields_asked("fleet schedule")
        summary = answer_rows(_row, output, asked=asked, names=names, first="completed")
        return show_summary("fleet schedule", summary, asked=asked, as_json=output.json)
    _require(asked)
    for path in extra.files().values():
        check_writable(path)
    if extra.per_job is not None:
        table_format(str(extra.per_job))
    with told_if_slow(SLOW):
        done = perfatlas.fleet_schedule(**asked)
    _show(done, asked, as_json=output.json)
    sys.stdout.flush()  # whatever becomes of the files, the answer is out
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
        raise UsageError(f"{' and '.join(missing)} missing; for example: {EXAMPLE}")


def _refuse_beside_table(extra: ScheduleFiles, asked: dict[str, Any]) -> None:
    flags = [*extra.files(), *(["--compare"] if "compare" in asked else [])]
    if flags:
        raise UsageError(f"{flags[0]} is of one schedule, --table answers many")


def _row(**fields: Any) -> Answer:  # noqa: ANN401 - the vocabulary is checked by its schema
    """Return an answer whose results are cells."""
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
