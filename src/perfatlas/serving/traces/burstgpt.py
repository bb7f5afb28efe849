"""BurstGPT traces: seconds, prompt and response tokens, including failed requests.

Source: HPMLL/BurstGPT releases. Columns `Timestamp` [s], `Request tokens`, `Response tokens` (0 for
a failed request), `Model`, `Total tokens`, `Log Type`; the third release adds `Session ID` and
`Elapsed time`.
Limits: Tested on hand-written rows in the documented format, not on a file of the release. Recorded
times are used for all turns, without think times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.serving.traces.blocks import csv_blocks, refuse
from perfatlas.serving.traces.fields import NO_LABEL, Field, csv_schema
from perfatlas.serving.traces.reading import (
    WHOLE_TRACE,
    Clock,
    GrowingTrace,
    Trace,
    Window,
    close,
    session_numbers,
    sort_by_arrival,
)

if TYPE_CHECKING:
    from pathlib import Path

_SINCE_MIDNIGHT: Final = Clock(ticks=TICKS_PER_SECOND, relative=False)
_FIELDS: Final = (
    Field(name="Timestamp", kind="number"),
    Field(name="Request tokens", kind="tokens", low=0),
    Field(name="Response tokens", kind="tokens", low=0),
    Field(name="Session ID", kind="label", required=False),
)


def read_burstgpt(path: str | Path, window: Window = WHOLE_TRACE) -> Trace:
    """Return the answered requests of a BurstGPT trace, with the earliest at time 0.

    Args:
        path: A CSV file.
        window: Part to read, counted from the first answered row; the releases span months.

    Raises:
        InvalidSpecError: The file cannot be read, or a row is invalid; the message contains the
            line.
    """
    trace = GrowingTrace(path=path, clock=_SINCE_MIDNIGHT, window=window)
    failed = 0
    for rows in trace.rows(csv_blocks(path, *csv_schema(_FIELDS)), _FIELDS):
        answered_B = rows.cells["Response tokens"] > 0
        failed += int(np.count_nonzero(~answered_B))
        answered = rows.only(answered_B)
        isl_B = answered.cells["Request tokens"]
        if (isl_B == 0).any():
            place = f"{answered.place} {answered.number_B[np.argmin(isl_B)]}"
            raise refuse(
                path, place, "Request tokens = 0 for an answered request; it must be at least 1"
            )
        none_B = np.full(isl_B.shape[0], NO_LABEL, np.int64)
        session_B = answered.cells.get("Session ID", none_B)
        osl_B = answered.cells["Response tokens"]
        trace.add(answered, "Timestamp", isl=isl_B, osl=osl_B, session=session_B)
    if failed:
        trace.warnings.append(f"{failed} failed requests without response tokens; excluded")
    columns = trace.columns()
    sort_by_arrival(trace, columns, refuse_unsorted=False)
    columns["session"] = session_numbers(columns["session"])
    return close(trace, columns)
