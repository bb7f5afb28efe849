"""Azure LLM inference traces: timestamps to 100 ns, prompt and output tokens.

Source: Azure/AzurePublicDataset, data/AzureLLMInferenceTrace_{conv,code}.csv (2023) and the week of
2024 with the same columns and timestamps with a time zone; Patel et al., Splitwise, ISCA 2024.
Limits: The trace has no users or conversations, so no prefixes are shared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.serving.traces import reading
from perfatlas.serving.traces.blocks import csv_blocks
from perfatlas.serving.traces.fields import TraceField, csv_schema

if TYPE_CHECKING:
    from pathlib import Path

_WALL_CLOCK: Final = reading.TraceClock(ticks=TICKS_PER_SECOND // 10**9, relative=False)
_FIELDS: Final = (
    TraceField(name="TIMESTAMP", kind="stamp"),
    TraceField(name="ContextTokens", kind="tokens", low=1),
    TraceField(name="GeneratedTokens", kind="tokens", low=1),
)


def read_azure(
    path: str | Path, window: reading.TraceWindow = reading.WHOLE_TRACE
) -> reading.Trace:
    """Return the requests of an Azure trace, with the earliest at time 0."""
    trace = reading.GrowingTrace(path=path, clock=_WALL_CLOCK, window=window)
    for rows in trace.rows(csv_blocks(path, *csv_schema(_FIELDS)), _FIELDS):
        trace.add(
            rows, "TIMESTAMP", isl=rows.cells["ContextTokens"], osl=rows.cells["GeneratedTokens"]
        )
    columns = trace.columns()
    reading.sort_by_arrival(trace, columns, refuse_unsorted=False)
    return reading.close(trace, columns)
