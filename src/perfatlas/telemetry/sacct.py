"""Slurm accounting as job runs: `sacct -P` text and `sacct --json`.

Source: sacct(1) of Slurm 25.11; text tested on outputs of a production cluster (facebookresearch/
gcm, gcm/tests/data, MIT) and on rows written by hand; JSON on records written by hand after
data_parser v0.0.37 to v0.0.42, since no file of a cluster was at hand.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from perfatlas.quantities import InvalidSpecError, shown
from perfatlas.telemetry.counts import Tally
from perfatlas.telemetry.history import NOT_TOLD
from perfatlas.telemetry.hostlist import expand_hosts
from perfatlas.telemetry.job_runs import UNFINISHED, JobRuns, Run, RunsBuilder
from perfatlas.telemetry.json_stream import stream_items
from perfatlas.telemetry.lines import LogFile
from perfatlas.telemetry.places import refuse
from perfatlas.telemetry.sacct_records import sacct_records
from perfatlas.telemetry.slurm_fields import (
    UNKNOWN_TIMES,
    duration_s,
    exit_code,
    gpus_of,
    job_name,
    state_name,
)
from perfatlas.telemetry.stamps import epoch_seconds, moment_of, zone_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from perfatlas.telemetry.sacct_records import Record

REQUIRED: Final = ("JobID", "State", "Start", "End")
_Value = TypeVar("_Value")
_ZONE_ASKED: Final = (
    "sacct writes local times without a zone; say which it was: zone='UTC', or a name such as "
    "'Europe/Berlin'"
)
_TWICE: Final = "local time that occurs twice, settled by the elapsed time"
_TWICE_OPEN: Final = "local time that occurs twice, taken as the first"
_MISSING_HOUR: Final = "local time that does not exist, taken as an hour later"


def read_sacct(paths: Sequence[str | Path], *, zone: str | None) -> JobRuns:
    """Return the runs in the text of `sacct -a -D -X -P`; of all files, each run once.

    Args:
        paths: Files of one cluster; they may overlap.
        zone: Time zone sacct ran in.

    Raises:
        InvalidSpecError: A file cannot be read, lacks a column, ends inside a record, or a field is
            not what it should be; the message names file, line and column. No zone is given.

    Limits: Without -D, runs that were requeued are not in the output, and nothing tells. A row with
        an end before its start is refused: accounting lost it.
    """
    if zone is None:
        raise InvalidSpecError(_ZONE_ASKED)
    zone_of(zone)
    runs = RunsBuilder()
    for path in paths:
        file = LogFile(path)
        tally = Tally(path=path, unit="lines")
        for record in sacct_records(file, REQUIRED, tally):
            run = _run_of(path, record, zone, tally)
            if run is not None:
                runs.add(run, record.line, tally)
        runs.end_file(tally.close(total=file.count, data_hash=file.data_hash))
    return runs.close()


def _run_of(path: str | Path, record: Record, zone: str, tally: Tally) -> Run | None:
    """Return the run of a record, or None where it is none, counted with its reason."""
    field = _Fields(path, record)
    name = field.read("JobID", job_name)
    state = state_name(record.fields["State"])
    reason = _why_not(name.step, state, record.fields["State"], waiting=name.waiting)
    start = field.read("Start", lambda text: _local(text, zone))
    if not reason and start is None:
        reason = "job that never started"
    if reason or start is None:
        tally.ignore(reason, record.line)
        return None
    end = field.read("End", lambda text: _local(text, zone))
    if state in UNFINISHED:
        end = None
    elapsed_s = field.read("ElapsedRaw" if field.has("ElapsedRaw") else "Elapsed", duration_s)
    start_s, end_s = _settled(start, end, elapsed_s, tally, record.line)
    if end_s < start_s:
        raise refuse(path, record.line, "is before the column 'Start'", column="End")
    submit = field.read("Submit", lambda text: _local(text, zone))
    status, signal = field.read("ExitCode", exit_code)
    hosts = record.fields.get("NodeList", "")
    field.read("NodeList", expand_hosts)
    return Run(
        job=name.job,
        state=state,
        submit_s=NOT_TOLD if submit is None else submit.timestamp(),
        start_s=start_s,
        end_s=end_s,
        hosts="" if not expand_hosts(hosts) else hosts,
        gpus=field.read("AllocTRES", gpus_of),
        status=status,
        signal=signal,
        failed_node=_one_host(field),
        reason=record.fields.get("Reason", ""),
        run=record.fields.get("SLUID", "") or record.fields.get("Restarts", ""),
    )


class _Fields:
    """The fields of a record; what cannot be read is refused with its place."""

    def __init__(self, path: str | Path, record: Record) -> None:
        self.path = path
        self.record = record

    def has(self, name: str) -> bool:
        """Tell whether the output has a column."""
        return name in self.record.fields

    def read(self, name: str, parse: Callable[[str], _Value]) -> _Value:
        """Return a field; one that the output lacks reads as the empty text."""
        try:
            return parse(self.record.fields.get(name, ""))
        except InvalidSpecError as problem:
            raise refuse(self.path, self.record.line, str(problem), column=name) from problem


def _why_not(step: str, state: str, written: str, *, waiting: bool) -> str:
    if step:
        return "step of a job"
    if not state:
        return f"state {written.split(maxsplit=1)[0]} is not known"
    if waiting or state == "PENDING":
        return "job that never started"
    return ""


def _one_host(field: _Fields) -> str:
    hosts: tuple[str, ...] = field.read("FailedNode", expand_hosts)
    return hosts[0] if len(hosts) == 1 else ""


def _local(text: str, zone: str) -> dt.datetime | None:
    """Return a time of sacct in its zone, None where accounting has none."""
    plain = text.strip()
    if plain.lower() in UNKNOWN_TIMES:
        return None
    if plain.isdigit():
        return dt.datetime.fromtimestamp(int(plain), zone_of(zone))
    try:
        return moment_of(plain, zone)
    except InvalidSpecError as problem:
        text = f"{problem}; run sacct with SLURM_TIME_FORMAT=standard"
        raise InvalidSpecError(text) from problem


def _settled(
    start: dt.datetime, end: dt.datetime | None, elapsed_s: float, tally: Tally, line: int
) -> tuple[float, float]:
    """Return start and end [s since 1970-01-01 UTC], NaN for no end; local times made unique."""
    for moment in (start, end):
        if moment is not None and not _exists(moment):
            tally.repair(_MISSING_HOUR, line)
    starts = _readings(start)
    ends = [NOT_TOLD] if end is None else _readings(end)
    if len(starts) == len(ends) == 1:
        return starts[0], ends[0]
    pairs = [(first, last) for first in starts for last in ends]
    if math.isnan(elapsed_s) or end is None:
        tally.repair(_TWICE_OPEN, line)
        return pairs[0]
    tally.repair(_TWICE, line)
    return min(pairs, key=lambda pair: abs(pair[1] - pair[0] - elapsed_s))


def _readings(moment: dt.datetime) -> list[float]:
    """Return the one or two times that a local time may be [s since 1970-01-01 UTC]."""
    first, second = (moment.replace(fold=fold).timestamp() for fold in (0, 1))
    return [first] if first == second or not _exists(moment) else [first, second]


def _exists(moment: dt.datetime) -> bool:
    back = dt.datetime.fromtimestamp(moment.timestamp(), moment.tzinfo)
    return back.replace(tzinfo=None, fold=0) == moment.replace(tzinfo=None, fold=0)


def read_sacct_json(paths: Sequence[str | Path]) -> JobRuns:
    """Return the runs in the output of `sacct -a -D --json`; of all files, each run once.

    Args:
        paths: Files of one cluster; they may overlap.

    Raises:
        InvalidSpecError: A file cannot be read, is no such output or is cut off, or a field is not
            what it should be; the message names file, record and field.
    """
    runs = RunsBuilder()
    for path in paths:
        file = LogFile(path)
        tally = Tally(path=path, unit="records")
        total = 0
        for total, item in stream_items(file, "jobs"):
            run = _json_run(path, total, item, tally)
            if run is not None:
                runs.add(run, total, tally)
        runs.end_file(tally.close(total=total, data_hash=file.data_hash))
    return runs.close()


def _json_run(path: str | Path, number: int, item: Any, tally: Tally) -> Run | None:  # noqa: ANN401
    if not isinstance(item, Mapping):
        raise refuse(path, number, f"{shown(item)} is not a job")
    field = _JsonFields(path, number, item)
    state = state_name(field.text("state", "current"))
    start_s = field.time("start")
    reason = _why_not("", state, field.text("state", "current") or "?", waiting=False)
    if not reason and math.isnan(start_s):
        reason = "job that never started"
    if reason:
        tally.ignore(reason, number)
        return None
    end_s = NOT_TOLD if state in UNFINISHED else field.time("end")
    if end_s < start_s:
        raise refuse(path, number, "is before time.start", column="time.end")
    hosts = field.text("nodes")
    failed = field.hosts(field.text("failed_node"))
    return Run(
        job=field.job(),
        state=state,
        submit_s=field.time("submission"),
        start_s=start_s,
        end_s=end_s,
        hosts=hosts if field.hosts(hosts) else "",
        gpus=field.gpus(),
        status=field.number("exit_code", "return_code"),
        signal=field.number("exit_code", "signal", "id") or field.number("exit_code", "signal"),
        failed_node=failed[0] if len(failed) == 1 else "",
        reason=field.text("state", "reason"),
        run=field.text("sluid") or str(field.number("restart_cnt") or ""),
    )


class _JsonFields:
    """The fields of a job in JSON, in the shapes that versions of data_parser gave them."""

    def __init__(self, path: str | Path, number: int, item: Mapping[str, Any]) -> None:
        self.path = path
        self.record = number
        self.item = item

    def get(self, *names: str) -> Any:  # noqa: ANN401
        """Return a nested value, None where a part of the way is missing."""
        value: Any = self.item
        for name in names:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    def text(self, *names: str) -> str:
        """Return a text; lists of one or more texts (states since v0.0.40) give the first."""
        value = self.get(*names)
        if isinstance(value, list) and value:
            value = value[0]
        return value if isinstance(value, str) else ""

    def number(self, *names: str) -> int:
        """Return a whole number, bare or as {"set": ..., "infinite": ..., "number": ...}."""
        value = self.get(*names)
        if isinstance(value, Mapping):
            value = value.get("number") if value.get("set", True) else 0
        return value if isinstance(value, int) and not isinstance(value, bool) else 0

    def time(self, name: str) -> float:
        """Return a time [s since 1970-01-01 UTC]; accounting writes 0 for none."""
        value = self.get("time", name)
        if isinstance(value, Mapping):
            value = value.get("number") if value.get("set", True) else 0
        if value in (None, 0):
            return NOT_TOLD
        try:
            return epoch_seconds(value, None)
        except InvalidSpecError as problem:
            raise refuse(self.path, self.record, str(problem), column=f"time.{name}") from problem

    def job(self) -> str:
        """Return the job id with array task or part."""
        number = self.number("job_id")
        if number <= 0:
            raise refuse(self.path, self.record, "is missing or no number", column="job_id")
        array_job, task = self.number("array", "job_id"), self.get("array", "task_id")
        told = task.get("set", True) if isinstance(task, Mapping) else task is not None
        if array_job and told:
            return f"{array_job}_{self.number('array', 'task_id')}"
        part = self.number("het", "job_id")
        return f"{part}+{self.number('het', 'job_offset')}" if part else str(number)

    def hosts(self, text: str) -> tuple[str, ...]:
        """Return the hosts of a list."""
        try:
            return expand_hosts(text)
        except InvalidSpecError as problem:
            raise refuse(self.path, self.record, str(problem), column="nodes") from problem

    def gpus(self) -> int:
        """Return the GPUs allocated."""
        allocated = self.get("tres", "allocated")
        if isinstance(allocated, str):
            return gpus_of(allocated)
        if not isinstance(allocated, list):
            return 0
        items = [item for item in allocated if isinstance(item, Mapping)]
        names = [f"{item.get('type')}/{item.get('name')}" for item in items]
        counts = [item.get("count") for item in items]
        pairs = [f"{n}={c}" for n, c in zip(names, counts, strict=True) if n.startswith("gres/gpu")]
        return gpus_of(",".join(pairs))
