"""Azure LLM inference traces: timestamps to 100 ns, prompt and output tokens.

Source: Azure/AzurePublicDataset, data/AzureLLMInferenceTrace_{conv,code}.csv (2023) and the week of
2024 with the same columns and timestamps with a time zone; Patel et al., Splitwise, ISCA 2024.
Limits: The trace has no users or conversations, so no prefixes are shared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.serving.traces.blocks import csv_blocks
from perfatlas.serving.traces.fields import Field, csv_schema
from perfatlas.serving.traces.reading import (
    WHOLE_TRACE,
    Clock,
    GrowingTrace,
    Trace,
    Window,
    close,
    sort_by_arrival,
)

if TYPE_CHECKING:
    from pathlib import Path

_WALL_CLOCK: Final = Clock(ticks=TICKS_PER_SECOND // 10**9, relative=False)
_FIELDS: Final = (
    Field(name="TIMESTAMP", kind="stamp"),
    Field(name="ContextTokens", kind="tokens", low=1),
    Field(name="GeneratedTokens", kind="tokens", low=1),
)


def read_azure(path: str | Path, window: Window = WHOLE_TRACE) -> Trace:
    """Return the requests of an Azure trace, with the earliest at time 0.

    Args:
        path: A CSV file.
        window: Part to read, counted from the first row.

    Raises:
        InvalidSpecError: The file cannot be read, or a row is invalid; the message contains the
            line.
    """
    trace = GrowingTrace(path=path, clock=_WALL_CLOCK, window=window)
    for rows in trace.rows(csv_blocks(path, *csv_schema(_FIELDS)), _FIELDS):
        trace.add(
            rows, "TIMESTAMP", isl=rows.cells["ContextTokens"], osl=rows.cells["GeneratedTokens"]
        )
    columns = trace.columns()
    sort_by_arrival(trace, columns, refuse_unsorted=False)
    return close(trace, columns)
