"""Slurm accounting as job runs, from the text of `sacct -P`.

Source: sacct(1) of Slurm 25.11; tested on outputs of a production cluster (facebookresearch/gcm,
gcm/tests/data, MIT) and on hand-written rows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.telemetry import history, reading
from perfatlas.reliability.telemetry.formats import slurm_fields
from perfatlas.reliability.telemetry.formats.options import Imported, ImportOptions
from perfatlas.reliability.telemetry.formats.run_failures import run_failures
from perfatlas.reliability.telemetry.formats.sacct_records import sacct_records

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FORMAT_NAME: Final = "sacct"
REQUIRED: Final = ("JobID", "State", "Start", "End")
_ZONE_ASKED: Final = (
    "sacct writes local times without time zone; set zone, --zone UTC, or a name such as"
    " 'Europe/Berlin'"
)
_TWICE: Final = "ambiguous local time, resolved by the elapsed time"
_TWICE_ORDER: Final = "ambiguous local time, resolved by the end being after the start"
_TWICE_OPEN: Final = "ambiguous local time, taken as the first"
_MISSING_HOUR: Final = "nonexistent local time, taken as an hour later"


def read(paths: Sequence[str | Path], options: ImportOptions) -> Imported:
    """Return the history in logs of this format."""
    runs = read_sacct(paths, zone=options.clock.zone)
    return Imported(run_failures(runs), runs)


def read_sacct(paths: Sequence[str | Path], *, zone: str | None) -> history.JobRuns:
    """Return the runs in the text of `sacct -a -D -X -P`; each run once over all files.

    Args:
        paths: Files of one cluster; they may overlap.

    Raises:
        InvalidSpecError: A file cannot be read, lacks a column, ends inside a record, or a field is
            invalid; the message names file, line and column. Or no time zone is set.

    Limits: without -D the output silently lacks requeued runs. A row with an end before its start
        raises an error.
    """
    if zone is None:
        raise InvalidSpecError(_ZONE_ASKED)
    reading.zone_of(zone)
    runs = history.RunsBuilder()
    for path in paths:
        file = reading.LogFile(path)
        for record in sacct_records(file, REQUIRED):
            run = _run(record, zone, file.tally)
            if run is not None:
                runs.add(run, record.number, file.tally)
        runs.end_file(file.close())
    return runs.close()


def _run(record: reading.LogRecord, zone: str, tally: reading.FileCounts) -> history.JobRun | None:
    """Return the run of a record, or None and count the reason."""
    name = record.read("JobID", slurm_fields.job_name)
    written = record.fields["State"]
    state = slurm_fields.state_name(written)
    start = record.read("Start", slurm_fields.local_time, zone)
    if name.step or not state or name.waiting or state == "PENDING" or start is None:
        reason = "step of a job" if name.step else "job that never started"
        if not (name.step or state):
            reason = f"state {(written.split() or ['?'])[0]} is unknown"
        tally.ignore(reason, record.number)
        return None
    end = record.read("End", slurm_fields.local_time, zone)
    if state in history.UNFINISHED:
        end = None
    elapsed = "ElapsedRaw" if "ElapsedRaw" in record.fields else "Elapsed"
    elapsed_s = record.read(elapsed, slurm_fields.duration_s)
    start_s, end_s = _unambiguous(start, end, elapsed_s, tally, record.number)
    if end_s < start_s:
        raise record.wrong("is before the column 'Start'", "End")
    submit = record.read("Submit", slurm_fields.local_time, zone)
    host_count = record.read("NodeList", history.count_hosts)
    return history.JobRun(
        job=name.job,
        state=state,
        submit_s=history.NOT_TOLD if submit is None else submit.readings[0],
        start_s=start_s,
        end_s=end_s,
        hosts=record.fields["NodeList"] if host_count else "",
        host_count=host_count,
        gpus=record.read("AllocTRES", slurm_fields.gpus_of),
        failed_node=record.read("FailedNode", history.lone_host),
        run=record.get("SLUID") or record.get("Restarts") or "",
    )


def _unambiguous(
    start: slurm_fields.LocalTime,
    end: slurm_fields.LocalTime | None,
    elapsed_s: float,
    tally: reading.FileCounts,
    line: int,
) -> tuple[float, float]:
    """Return unambiguous start and end [s since 1970-01-01 UTC], NaN for no end."""
    for moment in (start, end):
        if moment is not None and not moment.exists:
            tally.repair(_MISSING_HOUR, line)
    ends = (history.NOT_TOLD,) if end is None else end.readings
    if len(start.readings) == len(ends) == 1:
        return start.readings[0], ends[0]
    every = [(first, last) for first in start.readings for last in ends]
    pairs = [pair for pair in every if not pair[1] < pair[0]] or every
    if end is not None and not math.isnan(elapsed_s):
        tally.repair(_TWICE, line)
        return min(pairs, key=lambda pair: abs(pair[1] - pair[0] - elapsed_s))
    tally.repair(_TWICE_ORDER if len(pairs) == 1 else _TWICE_OPEN, line)
    return pairs[0]
