"""Local times of accounting, one by one or as columns.

Shape legend: R rows.
"""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.telemetry.formats.slurm_fields import UNKNOWN_TIMES
from perfatlas.reliability.telemetry.reading import checked_s, moment_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_HOUR_S: Final = 3600
_WRITTEN: Final = len("2026-01-02T03:04:05")


class LocalTime(NamedTuple):
    """A local time.

    Args:
        readings: The one or two possible times [s since 1970-01-01 UTC].
        exists: Whether clocks showed it.
    """

    readings: tuple[float, ...]
    exists: bool


@lru_cache(maxsize=1 << 14)
def local_time(text: str, zone: str) -> LocalTime | None:
    """Return a time of sacct in its time zone, None where not recorded.

    Raises:
        InvalidSpecError: It is not a time, or lies outside the years 1970 to 2199.
    """
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


def local_seconds(texts: Sequence[str], zone: str) -> NDArray[np.float64] | None:
    """Return times of sacct [s since 1970-01-01 UTC] (R,), NaN where not recorded.

    Args:
        texts: The times as written (R,).

    Returns:
        None where a time is not in the usual form, ambiguous or nonexistent: such times are read
        one by one.
    """
    known_R = np.fromiter(map(len, texts), np.int64, len(texts)) == _WRITTEN
    seconds_R = np.full(len(texts), np.nan)
    usual = list(texts) if known_R.all() else [text for text in texts if len(text) == _WRITTEN]
    if len(usual) < len(texts):
        others = {text for text in texts if len(text) != _WRITTEN}
        if not all(text.strip().lower() in UNKNOWN_TIMES for text in others):
            return None
    if not usual:
        return seconds_R
    try:
        naive_R = np.array(usual, "datetime64[s]").astype(np.int64)
    except ValueError:
        return None
    hour_H, of_R = np.unique(naive_R // _HOUR_S, return_inverse=True)
    offsets = [_offset_s(hour, zone) for hour in hour_H.tolist()]
    if None in offsets:
        return None
    seconds_R[known_R] = naive_R - np.array(offsets, np.float64)[of_R]
    return seconds_R


@lru_cache(maxsize=1 << 16)
def _offset_s(hour: int, zone: str) -> float | None:
    """Return the offset of a whole local hour from UTC [s], None where it is not one offset."""
    found = set[float]()
    for naive_s in (hour * _HOUR_S, (hour + 1) * _HOUR_S - 1):
        moment = dt.datetime.fromtimestamp(naive_s, dt.UTC).replace(tzinfo=None)
        try:
            time = local_time(moment.isoformat(), zone)
        except InvalidSpecError:
            return None
        if time is None or not time.exists or len(time.readings) > 1:
            return None
        found.add(naive_s - time.readings[0])
    return found.pop() if len(found) == 1 else None
