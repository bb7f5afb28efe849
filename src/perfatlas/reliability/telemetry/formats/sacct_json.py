"""Slurm accounting as job runs, from `sacct --json`.

Source: the data_parser plugins v0.0.37 to v0.0.42 of Slurm, which differ in states, optional
    numbers and resources; tested on hand-written records, as no cluster output was available.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.reliability.telemetry.formats.options import Imported, ImportOptions
from perfatlas.reliability.telemetry.formats.run_failures import run_failures
from perfatlas.reliability.telemetry.formats.slurm_fields import gpus_of, state_name
from perfatlas.reliability.telemetry.history import (
    NOT_TOLD,
    UNFINISHED,
    JobRuns,
    Run,
    RunsBuilder,
    count_hosts,
    lone_host,
    why_no_run,
)
from perfatlas.reliability.telemetry.reading import (
    LogFile,
    Tally,
    epoch_seconds,
    refuse,
    stream_items,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

FORMAT_NAME: Final = "sacct_json"
LARGEST_COUNTER: Final = 2**53  # limit of Slurm's counters
_Value = TypeVar("_Value")


def read(paths: Sequence[str | Path], options: ImportOptions) -> Imported:
    """Return the history in logs of this format.

    Args:
        options: Information that the logs omit.

    Raises:
        InvalidSpecError: A log is invalid.
    """
    del options
    runs = read_sacct_json(paths)
    return Imported(run_failures(runs), runs)


def read_sacct_json(paths: Sequence[str | Path]) -> JobRuns:
    """Return the runs in the output of `sacct -a -D --json`; each run once over all files.

    Args:
        paths: Files of one cluster; they may overlap.

    Raises:
        InvalidSpecError: A file cannot be read, is not such output or is truncated, or a field is
            invalid; the message names file, record and field.
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
        raise refuse(path, number, f"{repr_for_error(item)} is not a job", unit="record")
    field = _JsonFields(path, number, item)
    state = state_name(field.text("state", "current"))
    start_s = field.time("start")
    reason = why_no_run("", state, field.text("state", "current") or "?", waiting=False)
    if not reason and math.isnan(start_s):
        reason = "job that never started"
    if reason:
        tally.ignore(reason, number)
        return None
    end_s = NOT_TOLD if state in UNFINISHED else field.time("end")
    if end_s < start_s:
        raise field.wrong("time.end", "is before time.start")
    host_count = field.read("nodes", count_hosts)
    return Run(
        job=field.job(),
        state=state,
        submit_s=field.time("submission"),
        start_s=start_s,
        end_s=end_s,
        hosts=field.text("nodes") if host_count else "",
        host_count=host_count,
        gpus=field.gpus(),
        status=field.number("exit_code", "return_code"),
        signal=field.number("exit_code", "signal", "id") or field.number("exit_code", "signal"),
        failed_node=field.read("failed_node", lone_host),
        reason=field.text("state", "reason"),
        run=field.text("sluid") or str(field.number("restart_cnt") or ""),
    )


class _JsonFields:
    """The fields of a job in JSON, in the shapes of all data_parser versions."""

    def __init__(self, path: str | Path, number: int, item: Mapping[str, Any]) -> None:
        self.path = path
        self.record = number
        self.item = item

    def get(self, *names: str) -> Any:  # noqa: ANN401
        """Return a nested value, None where a level is missing."""
        value: Any = self.item
        for name in names:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    def text(self, *names: str) -> str:
        """Return a text, of lists (states since v0.0.40) the first."""
        value = self.get(*names)
        if isinstance(value, list) and value:
            value = value[0]
        return value if isinstance(value, str) else ""

    def number(self, *names: str) -> int:
        """Return a whole number, bare or as {"set": ..., "infinite": ..., "number": ...}."""
        value = self.get(*names)
        if isinstance(value, Mapping):
            value = value.get("number") if value.get("set", True) else 0
        if not isinstance(value, int) or isinstance(value, bool):
            return 0
        if abs(value) > LARGEST_COUNTER:
            raise self.wrong(".".join(names), f"{repr_for_error(value)} exceeds Slurm's counters")
        return value

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
            raise self.wrong(f"time.{name}", str(problem)) from problem

    def job(self) -> str:
        """Return the job id with array task or component."""
        number = self.number("job_id")
        if number <= 0:
            raise self.wrong("job_id", "is missing or not a number")
        array_job, task = self.number("array", "job_id"), self.get("array", "task_id")
        told = task.get("set", True) if isinstance(task, Mapping) else task is not None
        if array_job and told:
            return f"{array_job}_{self.number('array', 'task_id')}"
        part = self.number("het", "job_id")
        return f"{part}+{self.number('het', 'job_offset')}" if part else str(number)

    def read(self, name: str, parse: Callable[[str], _Value]) -> _Value:
        """Return a parsed text of the job."""
        return self.parsed(name, self.text(name), parse)

    def parsed(self, name: str, text: str, parse: Callable[[str], _Value]) -> _Value:
        """Return a parsed text; errors name its position."""
        try:
            return parse(text)
        except InvalidSpecError as problem:
            raise self.wrong(name, str(problem)) from problem

    def gpus(self) -> int:
        """Return the allocated GPUs."""
        allocated = self.get("tres", "allocated")
        if isinstance(allocated, list):
            items = [item for item in allocated if isinstance(item, Mapping)]
            told = [f"{item.get('type')}/{item.get('name')}={item.get('count')}" for item in items]
            allocated = ",".join(text for text in told if text.startswith("gres/gpu"))
        text = allocated if isinstance(allocated, str) else ""
        return self.parsed("tres.allocated", text, gpus_of)

    def wrong(self, name: str, problem: str) -> InvalidSpecError:
        """Return an error for a field."""
        return refuse(self.path, self.record, problem, column=name, unit="record")
