"""Requests of an AIPerf run, from its per-request records (`profile_export.jsonl`).

Source: ai-dynamo/aiperf, docs/tutorials/working-with-profile-exports.md. One object per line with
`metadata` (request_start_ns, request_end_ns, x_correlation_id of the user session, turn_index,
benchmark_phase, was_cancelled), `metrics` (input_sequence_length and output_sequence_length, each
{value, unit}) and `error`. Records of early versions have timestamp_ns and credit_phase instead,
and their end follows from the metric request_latency.
Limits: Tested on hand-written rows in the documented format. Records are written when requests end;
they are sorted by start. `inputs.json` of the same run contains texts, not tokens.

Shape legend: N requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.quantities import counted
from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.serving.traces import reading
from perfatlas.serving.traces.blocks import jsonl_blocks, refuse
from perfatlas.serving.traces.fields import TraceField

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from perfatlas.serving.traces.blocks import Block

    Int = NDArray[np.int64]
    Row = Mapping[str, object]

_TICKS_PER_NS: Final = TICKS_PER_SECOND // 10**9
_NS_PER_MS: Final = 10**6
_FIELDS: Final = (
    TraceField(name="request_start_ns", kind="whole"),
    TraceField(name="request_end_ns", kind="whole"),
    TraceField(name="input_sequence_length", kind="tokens", low=1),
    TraceField(name="output_sequence_length", kind="tokens", low=1),
    TraceField(name="x_correlation_id", kind="label"),
    TraceField(name="turn_index", kind="tokens", low=0),
)


def read_aiperf(
    path: str | Path, window: reading.TraceWindow = reading.WHOLE_TRACE
) -> reading.Trace:
    """Return the requests of an AIPerf run, with the earliest at time 0.

    The pause before a later turn is the time between the end of the previous turn and its start.

    Args:
        path: A `profile_export.jsonl`.

    Limits: Failed, cancelled and warm-up requests are excluded, with a warning. A turn after an
        excluded one arrives at its recorded time.
    """
    clock = reading.TraceClock(ticks=_TICKS_PER_NS, relative=False)
    trace = reading.GrowingTrace(path=path, clock=clock, window=window)
    left_out: Counter[str] = Counter()
    blocks = (
        block._replace(table=_no_table, rows=partial(_flat_rows, path, block, left_out))
        for block in jsonl_blocks(path, {})
    )
    for rows in trace.rows(blocks, _FIELDS):
        cells = rows.cells
        if not rows.number_B.size:
            continue
        trace.add(
            rows,
            "request_start_ns",
            isl=cells["input_sequence_length"],
            osl=cells["output_sequence_length"],
            session=cells["x_correlation_id"],
            turn=cells["turn_index"],
            taken=cells["request_end_ns"] - cells["request_start_ns"],
        )
    trace.warnings += [
        f"{counted(count, 'request')} excluded: {why}" for why, count in left_out.items()
    ]
    columns = trace.columns()
    reading.sort_by_arrival(trace, columns, refuse_unsorted=False)
    columns["session"] = reading.session_numbers(columns["session"])
    columns["pause"] = _pauses(trace, columns)
    session_N = columns["session"] + 1  # 0 for none
    turns_S = np.zeros(session_N.max() + 1, np.int64)
    np.maximum.at(turns_S, session_N, columns["turn"] + 1)
    lacking_S = turns_S > np.bincount(session_N)
    columns["partial"] = np.where(lacking_S[session_N], 1, columns.get("partial", 0))
    return reading.close(trace, columns)


def _no_table() -> None:
    """Return no Arrow table, as records are nested and mostly unused."""


def _flat_rows(path: str | Path, block: Block, left_out: Counter[str]) -> Iterator[tuple[int, Row]]:
    """Yield the successful records, with the required fields at the top level."""
    for number, row in block.rows():
        metadata = row.get("metadata")
        if not isinstance(metadata, Mapping):
            files = "inputs.json contains texts without token counts: " if "data" in row else ""
            if "turns" in row:
                files = "a dag_jsonl contains texts without token counts: "
            hint = f"{files}read the profile_export.jsonl of the same run"
            raise refuse(path, f"line {number}", f"missing 'metadata' of a request; {hint}")
        why = _exclusion_reason(row, metadata)
        if why:
            left_out[why] += 1
            continue
        metrics = row.get("metrics")
        values = metrics if isinstance(metrics, Mapping) else {}
        flat: dict[str, object] = {
            name: metric["value"]
            for name, metric in values.items()
            if isinstance(metric, Mapping) and "value" in metric
        }
        start_ns = metadata.get("timestamp_ns")
        latency_ms = flat.get("request_latency")
        if isinstance(start_ns, int) and isinstance(latency_ms, float):
            flat["request_start_ns"] = start_ns
            flat["request_end_ns"] = start_ns + round(latency_ms * _NS_PER_MS)
        yield number, flat | dict(metadata)


def _exclusion_reason(row: Row, metadata: Row) -> str:
    if metadata.get("benchmark_phase", metadata.get("credit_phase", "profiling")) == "warmup":
        return "of the warm-up phase"
    if metadata.get("was_cancelled"):
        return "cancelled"
    return "failed" if row.get("error") is not None else ""


def _pauses(trace: reading.GrowingTrace, columns: dict[str, Int]) -> Int:
    """Return the pause before each request (N,) [ps], -1 where its time of arrival applies."""
    duration_N = columns.pop("taken") * _TICKS_PER_NS
    session_N, turn_N, arrival_N = columns["session"], columns["turn"], columns["arrival"]
    order_N = np.lexsort((turn_N, session_N))
    before_N, after_N = order_N[:-1], order_N[1:]
    follows_N = (session_N[before_N] == session_N[after_N]) & (session_N[after_N] >= 0)
    follows_N &= turn_N[after_N] == turn_N[before_N] + 1
    follows_N &= before_N < after_N  # a turn that starts before its previous one did not wait
    gap_N = arrival_N[after_N] - (arrival_N[before_N] + duration_N[before_N])
    overlapping = int(np.count_nonzero(follows_N & (gap_N < 0)))
    if overlapping:
        trace.warnings.append(
            f"{counted(overlapping, 'turn')} began before the end of the previous turn: no pause"
        )
    pause_N = np.full(arrival_N.shape[0], -1, np.int64)
    pause_N[after_N] = np.where(follows_N, np.maximum(gap_N, 0), -1)
    return pause_N
