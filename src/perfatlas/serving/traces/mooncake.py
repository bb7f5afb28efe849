"""Mooncake traces: times in milliseconds, prompts as hashes of 512-token blocks.

Source: kvcache-ai/Mooncake, FAST25-release/traces. One object per line: timestamp [ms],
input_length, output_length, hash_ids; equal ids mean equal prompts up to the end of the block.
Two extensions of ai-dynamo/dynamo, docs on DynoSim. With session_id alone, a turn is sent `delay`
[ms] after the end of the previous one, or as much as their timestamps differ. With request_id, a
row is sent delay + tool_wait_ms after the end of all requests in wait_for, or at its timestamp if
there are none; branches and prefix_reset repeat what wait_for and hash_ids say. Blocks of extended
traces may have another size, which follows from the numbers of hashes.
Limits: Timestamps are coarse (the conversation trace has 1,180 distinct ones for 12,031 requests);
they are used unchanged, with a warning. Requests that wait for each other are one session, with a
warning if they have several session_id.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from perfatlas.quantities import repr_for_error
from perfatlas.serving.requests import TICKS_PER_SECOND, whole_ticks
from perfatlas.serving.traces import reading
from perfatlas.serving.traces.blocks import jsonl_blocks, refuse
from perfatlas.serving.traces.fields import TraceField, arrow_types
from perfatlas.serving.traces.own import HashedBlocks
from perfatlas.serving.traces.waits import Waits
from perfatlas.vocabulary.fields import MAX_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from perfatlas.serving.traces.blocks import Block

    Row = Mapping[str, object]

HASH_BLOCK: Final = 512
_MILLISECONDS: Final = reading.TraceClock(ticks=TICKS_PER_SECOND // 1000, relative=True)
_FIELDS: Final = (
    TraceField(name="timestamp", kind="number", low=0),
    TraceField(name="input_length", kind="tokens", low=1),
    TraceField(name="output_length", kind="tokens", low=1),
    TraceField(name="hash_ids", kind="hashes"),
)
_EXTENDED: Final = (
    *_FIELDS[:3],
    TraceField(name="hash_ids", kind="hashes", required=False),
    TraceField(name="session_id", kind="label"),
    TraceField(name="request_id", kind="label"),
    TraceField(name="wait_for", kind="labels"),
    TraceField(name="pause_s", kind="pause", low=0),
)
# other names of fields
_ALIASES: Final = {
    "input_length": "input_tokens",
    "output_length": "output_tokens",
    "timestamp": "created_time",
}


def read_mooncake(
    path: str | Path, window: reading.TraceWindow = reading.WHOLE_TRACE
) -> reading.Trace:
    """Return the requests of a Mooncake trace."""
    first = next((row for block in jsonl_blocks(path, {}) for _, row in block.rows()), {})
    if not {"session_id", "request_id"}.isdisjoint(first):
        return _read_extended(path, window)
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


def _read_extended(path: str | Path, window: reading.TraceWindow) -> reading.Trace:
    """Return the requests of sessions, or of agents whose requests wait for others."""
    trace = reading.GrowingTrace(path=path, clock=_MILLISECONDS, window=window)
    sizes = HashedBlocks(path, column="hash_ids")
    again = partial(jsonl_blocks, path, {})
    waits = Waits(trace, ("request_id", "wait_for", ""), again, joins=True)
    last_ms: dict[object, object] = {}
    blocks = (
        block._replace(table=lambda: None, rows=partial(_timed_rows, path, block, last_ms))
        for block in again()
    )
    for rows in trace.rows(blocks, _EXTENDED):
        sizes.narrow(rows._replace(cells={**rows.cells, "isl": rows.cells["input_length"]}))
        named = {"session": rows.cells["session_id"]}
        if (place_B := waits.add(rows, named["session"])) is not None:
            named["id"] = place_B
        pause_B = rows.cells["pause_s"]
        named["pause"] = np.where(pause_B >= 0, whole_ticks(np.nan_to_num(pause_B)), -1)
        isl_B, osl_B = rows.cells["input_length"], rows.cells["output_length"]
        trace.add(rows, "timestamp", isl=isl_B, osl=osl_B, **named)
    columns = trace.columns()
    after = None
    if "id" in columns:
        order_N, after = waits.order(columns)
        reading.reorder(columns, order_N)
        columns["pause"] = np.where(np.diff(after[0]) > 0, columns["pause"], -1)
    else:
        reading.reorder(columns, np.argsort(columns["arrival"], kind="stable"))
    columns["session"] = reading.session_numbers(columns["session"])
    usual = bool(sizes.hashed) and sizes.low <= HASH_BLOCK <= sizes.high
    return reading.close(
        trace, columns, HASH_BLOCK if usual else sizes.tokens(trace.warnings), after
    )


def _timed_rows(
    path: str | Path, block: Block, last_ms: dict[object, object]
) -> Iterator[tuple[int, Row]]:
    """Yield the rows with their pause, and a time of arrival for those that have none.

    Args:
        last_ms: Time of the last turn of each session, updated in place.
    """
    for number, cells in block.rows():
        if "dependencies" in cells:
            problem = "dependencies with triggers are not supported; give wait_for and delay"
            raise refuse(path, f"line {number}", problem)
        row = dict(cells)
        for name, other in _ALIASES.items():
            if name not in row and other in row:
                row[name] = row[other]
        delay_ms = _delay_ms(path, number, cells)
        pause_ms = delay_ms or 0.0
        session, stamp = str(row.get("session_id")), row.get("timestamp")
        if row.get("wait_for"):
            row |= {"pause_s": pause_ms / 1e3, "timestamp": 0 if stamp is None else stamp}
        elif row.get("request_id") is not None:
            row["pause_s"] = None
        elif session in last_ms:
            before = last_ms[session]
            if isinstance(stamp, (int, float)) and isinstance(before, (int, float)):
                pause_ms = max(stamp - before, 0) if delay_ms is None else delay_ms
                row["timestamp"] = max(stamp, before)
            else:
                row["timestamp"] = before if stamp is None else stamp
            row["pause_s"] = pause_ms / 1e3
        if pause_ms > MAX_S * 1e3:
            problem = f"is sent {pause_ms:g} ms after the requests before it; delay and"
            problem += f" tool_wait_ms, or the time between turns, are at most {MAX_S * 1e3:g} ms"
            raise refuse(path, f"line {number}", problem)
        if row.get("session_id") is not None:
            last_ms[session] = row.get("timestamp")
        yield number, row


def _delay_ms(path: str | Path, number: int, cells: Row) -> float | None:
    """Return the pause that a row states [ms], None if it states none."""
    stated_ms = list[float]()
    for name in ("delay", "delay_ms", "tool_wait_ms"):
        delay = cells.get(name)
        if delay is None or (name == "delay_ms" and stated_ms):
            continue
        problem = f"{name} = {repr_for_error(delay)}"
        if type(delay) not in {int, float}:
            raise refuse(path, f"line {number}", f"{problem}: expected a number of milliseconds")
        if not 0 <= cast("float", delay) <= MAX_S * 1e3:
            problem += f"; it must be from 0 to {MAX_S * 1e3:g} milliseconds"
            raise refuse(path, f"line {number}", problem)
        stated_ms.append(cast("float", delay))
    return sum(stated_ms) if stated_ms else None
