"""Single fields of Slurm accounting: durations, states, GPUs, job names, times."""

from __future__ import annotations

import datetime as dt
import re
from functools import lru_cache
from typing import Final, NamedTuple

from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.reliability.telemetry.history import NOT_TOLD
from perfatlas.reliability.telemetry.reading import checked_s, moment_of

# Source: sacct(1), JOB STATE CODES, Slurm 25.11, with LAUNCH_FAILED and RECONFIG_FAIL of 24.05 on.
STATES: Final = (
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "COMPLETING", "CONFIGURING", "DEADLINE", "FAILED",
    "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PENDING", "PREEMPTED", "RECONFIG_FAIL",
    "REQUEUED", "RESIZING", "REVOKED", "RUNNING", "STAGE_OUT", "STOPPED", "SUSPENDED", "TIMEOUT",
)  # fmt: skip
UNKNOWN_TIMES: Final = ("", "unknown", "none", "n/a", "invalid", "(null)")
MAX_GPUS: Final = 10**9  # limit of the GPUs of a job
_DURATION: Final = re.compile(
    r"(?:(?P<d>\d{1,9})-(?=\d+:\d+:))?(?:(?P<h>\d{1,9}):)?(?P<m>\d{1,9}):(?P<s>\d+(?:\.\d+)?)",
    re.ASCII,
)
_SECONDS: Final = re.compile(r"[0-9]{1,12}")
_JOB: Final = re.compile(
    r"(?P<base>\d+)(?:_(?P<task>\d+|\[[^\]]*\]?)|\+(?P<part>\d+))?(?:\.(?P<step>[\w+-]+))?",
    re.ASCII,
)
_SIZES: Final = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_TRES_VALUE: Final = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)n?", re.ASCII)


class JobName(NamedTuple):
    """The parts of a job id."""

    job: str  # Job, with array task or component of a heterogeneous job: 12, 12_3, 12+1
    step: str  # Step, "" for the whole job
    waiting: bool  # Whether it represents pending array tasks: 12_[3-7%2]


@lru_cache(maxsize=64)
def job_name(text: str) -> JobName:
    """Return the parts of a job id.

    Args:
        text: 12, 12_3, 12_[3-7%2], 12+1, each also with a step: 12.batch, 12_3.extern, 12.0.

    Example:
        >>> from perfatlas.reliability.telemetry.formats.slurm_fields import job_name
        >>> job_name("12_3.batch")
        JobName(job='12_3', step='batch', waiting=False)
    """
    match = _JOB.fullmatch(text.strip())
    if match is None:
        raise InvalidSpecError(f"{repr_for_error(text)} is not a job id (12, 12_3, 12+1, 12.batch)")
    whole, dot, step = text.strip().partition(".")
    return JobName(whole, step if dot else "", (match["task"] or "").startswith("["))


@lru_cache(maxsize=1024)
def duration_s(text: str) -> float:
    """Return a duration of accounting [s]; NaN where not recorded.

    Args:
        text: [[D-]HH:]MM:SS[.fraction], as in "8371-10:29:20" or "00:00.275", or whole seconds.

    Example:
        >>> from perfatlas.reliability.telemetry.formats.slurm_fields import duration_s
        >>> duration_s("1-02:03:04.5")
        93784.5
    """
    plain = text.strip()
    if plain.lower() in (*UNKNOWN_TIMES, "unlimited", "partition_limit"):
        return NOT_TOLD
    if _SECONDS.fullmatch(plain):
        return float(plain)
    match = _DURATION.fullmatch(plain)
    if match is None:
        raise InvalidSpecError(
            f"{repr_for_error(text)} is not a duration; expected a form such as 1-02:03:04"
        )
    hours, minutes, seconds = int(match["h"] or 0), int(match["m"]), float(match["s"])
    too_large = seconds >= 60 or (match["h"] and minutes >= 60) or (match["d"] and hours >= 24)
    if too_large:
        raise InvalidSpecError(f"{repr_for_error(text)} is not a duration: a part is too large")
    return int(match["d"] or 0) * 86400.0 + hours * 3600.0 + minutes * 60.0 + seconds


def state_name(text: str) -> str:
    """Return a job state without additions of sacct; "" where it is unknown.

    Args:
        text: Such as "CANCELLED by 1234" or, cut at a column's width, "CANCELLED+".

    Example:
        >>> from perfatlas.reliability.telemetry.formats.slurm_fields import state_name
        >>> state_name("CANCELLED by 1234"), state_name("OUT_OF_ME+")
        ('CANCELLED', 'OUT_OF_MEMORY')
    """
    words = text.split()
    if not words:
        return ""
    word = words[0].upper()
    if word.endswith("+"):
        fitting = [state for state in STATES if state.startswith(word[:-1])]
        return fitting[0] if len(fitting) == 1 else ""
    return word if word in STATES else ""


@lru_cache(maxsize=1024)
def gpus_of(tres: str) -> int:
    """Return the GPUs in a list of trackable resources, 0 for none.

    Args:
        tres: Such as "cpu=96,gres/gpu=8,gres/gpu:h100=8,mem=62500G,node=1". The untyped count is
            the sum of the typed ones, so only one of them is used.

    Example:
        >>> from perfatlas.reliability.telemetry.formats.slurm_fields import gpus_of
        >>> gpus_of("cpu=96,gres/gpu:h100=4,gres/gpu:l40s=2,mem=1T")
        6
    """
    whole: float | None = None
    typed = 0.0
    for item in tres.split(","):
        name, _, value = item.strip().partition("=")
        if name.split(":")[0] != "gres/gpu":
            continue
        match = _TRES_VALUE.fullmatch(value.strip())
        if match is None:
            raise InvalidSpecError(
                f"resources {repr_for_error(tres)}: {repr_for_error(value)} is not an amount"
            )
        amount = float(match[1]) * _SIZES.get(match[2], 1)
        if name == "gres/gpu":
            whole = amount
        else:
            typed += amount
    gpus = typed if whole is None else whole
    if gpus > MAX_GPUS:
        raise InvalidSpecError(f"resources {repr_for_error(tres)}: more than {MAX_GPUS:,} GPUs")
    return int(gpus)


class LocalTime(NamedTuple):
    """A local time."""

    readings: tuple[float, ...]  # The one or two possible times [s since 1970-01-01 UTC]
    exists: bool  # Whether clocks showed it


@lru_cache(maxsize=1 << 14)
def local_time(text: str, zone: str) -> LocalTime | None:
    """Return a time of sacct in its time zone, None where not recorded."""
    plain = text.strip()
    if plain.lower() in UNKNOWN_TIMES:
        return None
    if plain.isascii() and plain.isdigit():
        return LocalTime((checked_s(float(plain), plain),), exists=True)
    try:
        moment = moment_of(plain, zone)
    except InvalidSpecError as problem:
        text = f"{problem}; run sacct with SLURM_TIME_FORMAT=standard"
        raise InvalidSpecError(text) from problem
    first, second = (checked_s(moment.replace(fold=fold).timestamp(), plain) for fold in (0, 1))
    back = dt.datetime.fromtimestamp(first, moment.tzinfo)
    exists = back.replace(tzinfo=None, fold=0) == moment.replace(tzinfo=None, fold=0)
    return LocalTime((first,) if first == second or not exists else (first, second), exists)
