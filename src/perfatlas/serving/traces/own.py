"""The request file of perfatlas: CSV, JSON Lines or Parquet with `arrival_s isl osl`.

Optional columns: `prefix_hash_ids` (a list of integers, one per started block of the prompt, equal
if the prompts are equal up to the end of the block; in CSV "1 2 3" or "[1, 2, 3]"), `session`
(number or text; empty or negative for none), `turn` (an integer that increases in a session),
`pause_s`, and `id` (number or text), `after` (a list of ids) and `parent` (an id). Other columns
are ignored.

A row with `after` or `parent` waits for the end of all these requests of its session, and then for
`pause_s` (0 if empty). In a file where no row has them, a row with `pause_s` waits for the previous
row of its session. All other rows arrive at `arrival_s`.

Shape legend: N requests, B rows of a block.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.files import load_arrow, table_format, unpacked_name
from perfatlas.serving.requests import whole_ticks
from perfatlas.serving.traces import reading
from perfatlas.serving.traces.blocks import csv_blocks, jsonl_blocks, parquet_blocks, refuse
from perfatlas.serving.traces.fields import NO_LABEL, TraceField, arrow_types
from perfatlas.serving.traces.waits import Waits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from perfatlas.quantities import InvalidSpecError
    from perfatlas.serving.traces.blocks import Block
    from perfatlas.serving.traces.fields import Columns

    Int = NDArray[np.int64]

_FIELDS: Final = (
    TraceField(name="arrival_s", kind="number", low=0),
    TraceField(name="isl", kind="tokens", low=1),
    TraceField(name="osl", kind="tokens", low=1),
    TraceField(name="prefix_hash_ids", kind="hashes", required=False),
    TraceField(name="session", kind="label", required=False),
    TraceField(name="turn", kind="tokens", low=0, required=False),
    TraceField(name="pause_s", kind="pause", low=0, required=False),
    TraceField(name="id", kind="label", required=False),
    TraceField(name="after", kind="labels", required=False),
    TraceField(name="parent", kind="label", required=False),
)
_NO_LIMIT: Final = 1 << 31  # of the block size, if no prompt has more than one block
_NAMES: Final = tuple(field.name for field in _FIELDS)
_REQUIRED: Final = tuple(field.name for field in _FIELDS if field.required)


def read_own(
    path: str | Path, window: reading.TraceWindow = reading.WHOLE_TRACE, hash_block: int = 0
) -> reading.Trace:
    """Return the requests of a file in perfatlas's own format.

    Args:
        path: A .csv, .jsonl or .parquet file; text may be gzip-compressed, as .csv.gz.
        hash_block: Tokens per hashed block; 0 infers it from the numbers of hashes.

    Limits: Where rows wait, `arrival_s` only sets the order in which a closed loop begins them.
    """
    trace = reading.GrowingTrace(path=path, clock=reading.SECONDS, window=window)
    blocks = HashedBlocks(path, hash_block)
    waits = Waits(trace, ("id", "after", "parent"), partial(_blocks, path))
    for rows in trace.rows(_blocks(path), _FIELDS):
        blocks.narrow(rows)
        none_B = np.full(rows.number_B.shape[0], NO_LABEL, np.int64)
        named = {"session": rows.cells.get("session", none_B)}
        if "turn" in rows.cells:
            named["turn"] = rows.cells["turn"]
        if (place_B := waits.add(rows, named["session"])) is not None:
            named["id"] = place_B
        pause_B = rows.cells.get("pause_s", np.full(none_B.size, np.nan))
        named["pause"] = np.where(pause_B >= 0, whole_ticks(np.nan_to_num(pause_B)), -1)
        trace.add(rows, "arrival_s", isl=rows.cells["isl"], osl=rows.cells["osl"], **named)
    columns = trace.columns()
    after = None
    if waits.given:
        order_N, after = waits.order(columns)
        reading.reorder(columns, order_N)
        waiting_N = np.diff(after[0]) > 0
        columns["pause"] = np.where(waiting_N, np.maximum(columns["pause"], 0), -1)
    else:
        talks = bool(np.any(columns["session"] != NO_LABEL))
        reading.sort_by_arrival(trace, columns, refuse_unsorted=talks)
    columns["session"] = reading.session_numbers(columns["session"])
    if "turn" in columns:
        _check_turns(trace, columns)
    if after is None:  # a first turn waits for none
        follows_N = columns["session"] >= 0
        follows_N[np.unique(columns["session"], return_index=True)[1]] = False
        columns["pause"] = np.where(follows_N, columns["pause"], -1)
    return reading.close(trace, columns, blocks.tokens(trace.warnings), after)


def _blocks(path: str | Path) -> Iterator[Block]:
    pa = load_arrow()
    schema = arrow_types(_FIELDS)
    suffix = table_format(unpacked_name(path))
    if suffix == ".csv":
        return csv_blocks(
            path, schema | dict.fromkeys(("prefix_hash_ids", "after"), pa.string()), _REQUIRED
        )
    if suffix == ".parquet":
        return parquet_blocks(path, _NAMES, _REQUIRED)
    first = next((row for block in jsonl_blocks(path, {}) for _, row in block.rows()), None)
    if first is None:
        raise refuse(path, "", "contains no requests")
    for name in ("session", "id", "parent"):
        if isinstance(first.get(name), int):
            schema[name] = pa.int64()
    return jsonl_blocks(path, schema)


def _check_turns(trace: reading.GrowingTrace, columns: dict[str, Int]) -> None:
    """Check that turns increase within their session, and have a session."""
    session_N, turn_N = columns["session"], columns["turn"]
    alone_N = (session_N < 0) & (turn_N > 0)
    order_N = np.argsort(session_N, kind="stable")
    follows_N = np.diff(session_N[order_N]) == 0
    follows_N &= session_N[order_N[1:]] >= 0
    falls_N = np.zeros_like(alone_N)
    falls_N[order_N[1:]] = follows_N & (np.diff(turn_N[order_N]) <= 0)
    for wrong_N, rule in (
        (alone_N, "has no session; set its session, or use turn 0"),
        (falls_N, "is not greater than that of the previous arrival in its session"),
    ):
        if wrong_N.any():
            row = int(np.argmax(wrong_N))
            position = trace.position_of(int(columns["number"][row]))
            raise refuse(trace.path, position, f"turn = {turn_N[row]} {rule}")


@dataclass
class HashedBlocks:
    """The sizes of a hashed block that are consistent with the rows read so far."""

    path: str | Path
    given: int = 0
    column: str = "prefix_hash_ids"
    low: int = 1
    high: int = _NO_LIMIT
    hashed: bool | None = None

    def narrow(self, rows: Columns) -> None:
        """Restrict the sizes by the rows of a block."""
        count_B, isl_B = rows.count_B, rows.cells["isl"]
        if self.hashed is None and count_B.size:
            self.hashed = bool(count_B[0])
        odd_B = (count_B > 0) != self.hashed
        if odd_B.any():
            rule = "they must be in all rows or none"
            raise self._refused(rows, odd_B, f"{self._count(rows, odd_B)}; {rule}")
        if self.given and self.hashed:
            reading.check_hash_counts(self.path, rows, isl_B, self.given)
        elif self.hashed:
            # count = ceil(isl / block) holds from ceil(isl / count) to (isl - 1) // (count - 1)
            low_B = -(-isl_B // count_B)
            high_B = np.where(count_B > 1, (isl_B - 1) // np.maximum(count_B - 1, 1), _NO_LIMIT)
            lows_B = np.maximum(np.maximum.accumulate(low_B), self.low)
            highs_B = np.minimum(np.minimum.accumulate(high_B), self.high)
            wrong_B = lows_B > highs_B
            if wrong_B.any():
                counted = f"{self._count(rows, wrong_B)} for {isl_B[np.argmax(wrong_B)]} tokens"
                problem = "no block size fits this and the previous rows (one id per started block)"
                raise self._refused(rows, wrong_B, f"{counted}; {problem}")
            if lows_B.size:
                self.low, self.high = int(lows_B[-1]), int(highs_B[-1])

    def _refused(self, rows: Columns, wrong_B: NDArray[np.bool_], problem: str) -> InvalidSpecError:
        return refuse(self.path, f"{rows.row_word} {rows.number_B[np.argmax(wrong_B)]}", problem)

    def _count(self, rows: Columns, wrong_B: NDArray[np.bool_]) -> str:
        return f"{rows.count_B[np.argmax(wrong_B)]} {self.column}"

    def tokens(self, warnings: list[str]) -> int:
        """Return the tokens per block, given or inferred from all rows; 0 without hashes."""
        if not self.hashed:
            return 0
        powers = [1 << bit for bit in range(31) if self.low <= 1 << bit <= self.high]
        if self.given or self.low == self.high:
            return self.given or self.low
        if len(powers) != 1:
            high = str(self.high) if self.high < _NO_LIMIT else "any"
            problem = f"{self.column} fit blocks of {self.low} to {high} tokens"
            raise refuse(self.path, "", f"{problem}; set hash_block")
        warnings.append(
            f"{self.column} fit blocks of {self.low} to {self.high} tokens; {powers[0]} is "
            "used, the only power of two among them"
        )
        return powers[0]
