"""Traces that are tables: Helios, Acme, and the task table of Alibaba's GPU trace of 2020."""

from __future__ import annotations

import csv
import datetime as dt
import math
from typing import TYPE_CHECKING, Final, TextIO

from perfatlas.files import open_text
from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.reliability.jobs.traces.reading import NEVER_RAN, NO_END, NO_GPU, Reading, Row

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

SLURM_COLUMNS: Final = (
    "job_id", "user", "gpu_num", "node_num", "state", "submit_time", "start_time", "end_time"
)  # fmt: skip
TASK_COLUMNS: Final = (
    "job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu",
    "plan_mem", "plan_gpu", "gpu_type",
)  # fmt: skip
LONGEST_LINE: Final = 1 << 17  # characters
_NOTHING: Final = ("", "none", "nan", "nat", "null", "unknown")


def read_helios(path: Path) -> Reading:
    """Return the jobs of a `cluster_log.csv` of Helios.

    Raises:
        InvalidSpecError: A missing column, or an invalid field.

    Source: README of S-Lab-System-Group/HeliosData: local times without time zone; states
        COMPLETED, CANCELLED, FAILED, TIMEOUT, NODE_FAIL.
    """
    return _slurm_like(path)


def read_acme(path: Path) -> Reading:
    """Return the jobs of a `trace_seren.csv` or `trace_kalos.csv` of Acme.

    Raises:
        InvalidSpecError: A missing column, or an invalid field.

    Source: README of InternLM/AcmeTrace: times with time zone; the class is the column `type`.
        `duration` of Kalos counts from submission, so run time is taken from start and end.
    """
    return _slurm_like(path, kind="type")


def _slurm_like(path: Path, *, kind: str = "state") -> Reading:
    reading = Reading(path)
    for line, fields in _table(reading, (*SLURM_COLUMNS, kind), ()):
        gpus = _whole(reading, line, fields, "gpu_num")
        start_s = _moment(reading, line, fields, "start_time")
        end_s = _moment(reading, line, fields, "end_time")
        submit_s = _moment(reading, line, fields, "submit_time")
        if gpus < 1:
            reading.ignore(NO_GPU, line)
        elif math.isnan(submit_s):
            reading.ignore("no submission time", line)
        elif math.isnan(start_s):
            reading.ignore(NEVER_RAN, line)
        elif math.isnan(end_s):
            reading.ignore(NO_END, line)
        else:
            nodes = max(_whole(reading, line, fields, "node_num"), 1)
            user, ended = fields["user"], fields["state"]
            run_s = end_s - start_s
            reading.add(Row(line, submit_s, run_s, gpus, nodes, user, fields[kind], ended))
    return reading


def read_alibaba(path: Path) -> Reading:
    """Return the tasks of `pai_task_table.csv`, each as a separate gang.

    Args:
        path: The file, with or without a header line.

    Raises:
        InvalidSpecError: A missing column, or an invalid field.

    Source: README of alibaba/clusterdata, cluster-trace-gpu-v2020: seconds from an unknown origin;
        `plan_gpu` in percent of a GPU for each of `inst_num` instances.

    Limits: fractional GPUs are rounded up per task, as GPUs are not shared here; submission is the
        launch of the task, as the trace does not include earlier waiting. Users are in another
        table of the trace.
    """
    reading = Reading(path)
    for line, fields in _table(reading, TASK_COLUMNS, TASK_COLUMNS):
        share = _number(reading, line, fields, "plan_gpu")
        count = _number(reading, line, fields, "inst_num")
        start_s = _number(reading, line, fields, "start_time")
        end_s = _number(reading, line, fields, "end_time")
        if not share > 0.0:
            reading.ignore(NO_GPU, line)
        elif math.isnan(start_s) or not count >= 1.0:
            reading.ignore(NEVER_RAN, line)
        elif math.isnan(end_s) or fields["status"] in ("Running", "Waiting"):
            reading.ignore(NO_END, line)
        else:
            gpus = math.ceil(share * count / 100.0 - 1e-9)
            ended = fields["status"]
            reading.add(Row(line, start_s, end_s - start_s, gpus, 0, "all", ended, ended))
    return reading


def _table(
    reading: Reading, wanted: Sequence[str], default: Sequence[str]
) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield data rows, numbered as in the file; `default` names the columns without a header."""
    with open_text(reading.path, "trace", most_bytes=None) as file:
        rows = _rows(reading, file)
        _, names = next(rows, (0, None))
        if names is None:
            raise InvalidSpecError(f"trace '{reading.path}' is empty")
        first: list[list[str]] = []
        if default and wanted[0] not in names:
            names, first = list(default), [names]
        missing = [name for name in wanted if name not in names]
        if missing:
            raise InvalidSpecError(
                f"trace '{reading.path}' lacks the columns {', '.join(missing)}; it has "
                f"{', '.join(names[:30])}"
            )
        for at, row in enumerate(first, 1):
            yield at, _fields(reading, at, names, row)
        for at, row in rows:
            if row:
                yield at, _fields(reading, at, names, row)


def _rows(reading: Reading, file: TextIO) -> Iterator[tuple[int, list[str]]]:
    """Yield rows with their lines; invalid CSV raises an error with its line."""
    rows = csv.reader(_lines(reading, file))
    try:
        for row in rows:
            yield rows.line_num, row
    except csv.Error as problem:
        raise reading.wrong(rows.line_num, f"not CSV: {problem}") from problem


def _lines(reading: Reading, file: TextIO) -> Iterator[str]:
    """Yield lines with their line ends, of limited length."""
    at = 0
    while line := file.readline(LONGEST_LINE):
        at += 1
        if len(line) == LONGEST_LINE:
            raise reading.wrong(
                at, f"the line exceeds {LONGEST_LINE:,} characters; is the file a table?"
            )
        yield line


def _fields(
    reading: Reading, line: int, names: Sequence[str], row: Sequence[str]
) -> Mapping[str, str]:
    if len(row) != len(names):
        raise reading.wrong(
            line, f"{len(row)} fields, expected {len(names)}; is the file truncated?"
        )
    return dict(zip(names, row, strict=True))


def _number(reading: Reading, line: int, fields: Mapping[str, str], name: str) -> float:
    text = fields[name].strip()
    if text.lower() in _NOTHING:
        return math.nan
    try:
        value = float(text)
    except ValueError:
        raise reading.wrong(line, f"{name} = {repr_for_error(text)} is not a number") from None
    if not math.isfinite(value) or value < 0.0:
        raise reading.wrong(line, f"{name} = {repr_for_error(text)}: expected zero or more")
    return value


def _whole(reading: Reading, line: int, fields: Mapping[str, str], name: str) -> int:
    value = _number(reading, line, fields, name)
    if math.isnan(value):
        return 0
    if value != int(value):
        raise reading.wrong(line, f"{name} = {value:g} is not a whole number")
    return int(value)


def _moment(reading: Reading, line: int, fields: Mapping[str, str], name: str) -> float:
    """Return a time [s since 1970], NaN where there is none; local times count as UTC."""
    text = fields[name].strip()
    if text.lower() in _NOTHING:
        return math.nan
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise reading.wrong(line, f"{name} = {repr_for_error(text)} is not a time") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return moment.timestamp()
