"""Mooncake traces: times in milliseconds, prompts as hashes of 512-token blocks.

Source: kvcache-ai/Mooncake, FAST25-release/traces. One object per line: timestamp [ms],
input_length, output_length, hash_ids; equal ids mean equal prompts up to the end of the block.
Limits: Timestamps are coarse (the conversation trace has 1,180 distinct ones for 12,031 requests);
they are used unchanged, with a warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.serving.traces import reading
from perfatlas.serving.traces.blocks import jsonl_blocks
from perfatlas.serving.traces.fields import TraceField, arrow_types

if TYPE_CHECKING:
    from pathlib import Path

HASH_BLOCK: Final = 512
_MILLISECONDS: Final = reading.TraceClock(ticks=TICKS_PER_SECOND // 1000, relative=True)
_FIELDS: Final = (
    TraceField(name="timestamp", kind="number", low=0),
    TraceField(name="input_length", kind="tokens", low=1),
    TraceField(name="output_length", kind="tokens", low=1),
    TraceField(name="hash_ids", kind="hashes"),
)


def read_mooncake(
    path: str | Path, window: reading.TraceWindow = reading.WHOLE_TRACE
) -> reading.Trace:
    """Return the requests of a Mooncake trace."""
    trace = reading.GrowingTrace(path=path, clock=_MILLISECONDS, window=window)
    for rows in trace.rows(jsonl_blocks(path, arrow_types(_FIELDS)), _FIELDS):
        isl_B = rows.cells["input_length"]
        reading.check_hash_counts(path, rows, isl_B, HASH_BLOCK)
        trace.add(rows, "timestamp", isl=isl_B, osl=rows.cells["output_length"])
    columns = trace.columns()
    reading.sort_by_arrival(trace, columns, refuse_unsorted=False)
    arrival_N = columns["arrival"]
    stamps = 1 + int(np.count_nonzero(np.diff(arrival_N)))
    if 1 < stamps <= arrival_N.shape[0] // 2:
        trace.warnings.append(
            f"{arrival_N.shape[0]:,} requests have only {stamps:,} distinct arrival times and thus "
            "arrive in batches; spread_batches spreads each batch until the next one"
        )
    return reading.close(trace, columns, HASH_BLOCK)
