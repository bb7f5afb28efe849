"""Request and agent traces of Dynamo (`dynamo.request.trace.v1`, `dynamo.agent.trace.v1`).

One event per line, alone or as `event` beside a `timestamp`. A `request_end` has
event_time_unix_ms, `request` with request_received_ms, total_time_ms, output_tokens and `replay`
(trace_block_size, input_length, input_sequence_hashes: one per started block, each of the whole
prompt up to its end), and, for agents, `agent_context` with the agent (trajectory_id or program_id,
or session_id in newer traces) and its parent (parent_trajectory_id and so on), whose requests the
file must have. Tools run within the pauses between requests, so that events of tools are not
needed.

Source: ai-dynamo/dynamo, docs on request replay tracing and agent tracing.
Limits: Tested on hand-written rows in the documented format.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.quantities import counted, repr_for_error
from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.serving.traces import reading
from perfatlas.serving.traces.blocks import jsonl_blocks, refuse
from perfatlas.serving.traces.fields import TraceField
from perfatlas.serving.traces.waits import close_agents

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from perfatlas.serving.traces.blocks import Block

    Row = Mapping[str, object]

_TICKS_PER_MS: Final = TICKS_PER_SECOND // 1000
_AGENT: Final = ("trajectory_id", "program_id", "session_id")  # newest traces have the last alone
_FIELDS: Final = (
    TraceField(name="request_received_ms", kind="whole"),
    TraceField(name="event_time_unix_ms", kind="whole"),
    TraceField(name="total_time_ms", kind="pause", low=0),
    TraceField(name="input_length", kind="tokens", low=1),
    TraceField(name="output_tokens", kind="tokens", low=0),
    TraceField(name="trace_block_size", kind="tokens", low=1),
    TraceField(name="input_sequence_hashes", kind="hashes"),
    TraceField(name="agent", kind="label"),
    TraceField(name="parent", kind="label"),
)


def read_dynamo(
    path: str | Path, window: reading.TraceWindow = reading.WHOLE_TRACE
) -> reading.Trace:
    """Return the requests of a Dynamo trace, with the earliest at time 0.

    Limits: Requests without an agent arrive at their recorded time.
    """
    clock = reading.TraceClock(ticks=_TICKS_PER_MS, relative=False)
    trace = reading.GrowingTrace(path=path, clock=clock, window=window)
    blocks = (
        block._replace(table=lambda: None, rows=partial(_requests, path, block))
        for block in jsonl_blocks(path, {})
    )
    size = silent = 0
    for rows in trace.rows(blocks, _FIELDS):
        cells = rows.cells
        if not rows.number_B.size:
            continue
        size = size or int(cells["trace_block_size"][0])
        other_B = cells["trace_block_size"] != size
        if other_B.any():
            row = int(np.argmax(other_B))
            problem = f"trace_block_size = {cells['trace_block_size'][row]}; previous rows have"
            raise refuse(path, f"line {rows.number_B[row]}", f"{problem} {size}")
        reading.check_hash_counts(path, rows, cells["input_length"], size)
        start_B, total_B = cells["request_received_ms"], cells["total_time_ms"]
        end_B = np.where(np.isnan(total_B), cells["event_time_unix_ms"] - start_B, total_B)
        silent += int((cells["output_tokens"] == 0).sum())
        trace.add(
            rows,
            "request_received_ms",
            isl=cells["input_length"],
            osl=np.maximum(cells["output_tokens"], 1),
            session=cells["agent"],
            parent=cells["parent"],
            taken=np.rint(np.maximum(end_B, 0) * _TICKS_PER_MS).astype(np.int64),
        )
    if silent:
        trace.warnings.append(f"{counted(silent, 'request')} without output tokens: 1 is used")
    return close_agents(trace, trace.columns(), size)


def _requests(path: str | Path, block: Block) -> Iterator[tuple[int, Row]]:
    """Yield the ends of requests, with the required fields at the top level."""
    for number, line in block.rows():
        event = line.get("event", line)
        kind = event.get("event_type") if isinstance(event, Mapping) else None
        if not isinstance(event, Mapping) or not isinstance(kind, str):
            problem = f"event_type = {repr_for_error(kind)}; expected an event of a Dynamo trace"
            raise refuse(path, f"line {number}", f"{problem}, such as request_end")
        if kind != "request_end":
            continue
        parts: list[Row] = []
        for holder, name in ((event, "request"), (event.get("request"), "replay")):
            part = holder.get(name) if isinstance(holder, Mapping) else None
            if not isinstance(part, Mapping):
                hint = "; enable replay metadata of the request trace" if name == "replay" else ""
                raise refuse(path, f"line {number}", f"missing object {name!r} of a request{hint}")
            parts.append(part)
        agent = event.get("agent_context") or {}
        if not isinstance(agent, Mapping):
            problem = f"agent_context = {repr_for_error(agent)} is not an object {{...}}"
            raise refuse(path, f"line {number}", problem)
        row = {**parts[0], **parts[1], "event_time_unix_ms": event.get("event_time_unix_ms")}
        for kind, prefix in (("agent", ""), ("parent", "parent_")):
            name = next((f"{prefix}{one}" for one in _AGENT if agent.get(f"{prefix}{one}")), "")
            row[kind] = agent.get(name)
            if name and type(row[kind]) not in {str, int}:
                problem = f"{name} = {repr_for_error(row[kind])}: expected text or a whole number"
                raise refuse(path, f"line {number}", problem)
        yield number, row
