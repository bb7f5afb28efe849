"""The request file of perfatlas: CSV, JSON Lines or Parquet with `arrival_s isl osl`.

Optional columns: `prefix_hash_ids` (a list of integers, one per started block of the prompt, equal
where the prompts are equal up to the end of the block; in CSV "1 2 3" or "[1, 2, 3]"), `session`
(number or text; empty or negative for none) and `turn` (a whole number that rises in a session).
Other columns are ignored.

Shape legend: N requests, B rows of a block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files import table_format
from perfatlas.serving.trace_blocks import csv_blocks, jsonl_blocks, parquet_blocks, refuse
from perfatlas.serving.trace_fields import NO_LABEL, Field, read_columns
from perfatlas.serving.traces import (
    SECONDS,
    WHOLE,
    GrowingTrace,
    Trace,
    Window,
    close,
    session_numbers,
    sort_by_arrival,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from perfatlas.serving.trace_blocks import Block

    Int = NDArray[np.int64]

_FIELDS: Final = (
    Field(name="arrival_s", kind="number", low=0),
    Field(name="isl", kind="tokens", low=1),
    Field(name="osl", kind="tokens", low=1),
    Field(name="prefix_hash_ids", kind="hashes", required=False),
    Field(name="session", kind="label", required=False),
    Field(name="turn", kind="tokens", low=0, required=False),
)
_NO_LIMIT: Final = 1 << 31  # of a block, where no prompt has more than one
_NAMES: Final = tuple(field.name for field in _FIELDS)
_REQUIRED: Final = tuple(field.name for field in _FIELDS if field.required)


def read_own(path: str | Path, window: Window = WHOLE, hash_block: int = 0) -> Trace:
    r"""Return the requests of a file in perfatlas's own format.

    Args:
        path: A .csv, .jsonl or .parquet file.
        window: Which part to read.
        hash_block: Tokens of a hashed block; 0 takes the one that the numbers of hashes imply.

    Raises:
        InvalidSpecError: The file cannot be read, or a row is not what the format says; the
            message names line and column.

    Limits: `arrival_s` holds for every turn; no think time is read.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from perfatlas.serving.trace_own import read_own
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder) / "requests.csv"
        ...     _ = file.write_text("arrival_s,isl,osl\n0,512,64\n0.25,2048,16\n")
        ...     read_own(file).requests.arrival_N.tolist()
        [0, 250000000000]
    """
    trace = GrowingTrace(path=path, clock=SECONDS, window=window)
    for block in _blocks(path):
        rows = read_columns(path, block, _FIELDS)
        none_B = np.full(rows.number_B.shape[0], NO_LABEL, np.int64)
        named = {"session": rows.cells.get("session", none_B)}
        if "turn" in rows.cells:
            named["turn"] = rows.cells["turn"]
        trace.add(rows, "arrival_s", isl=rows.cells["isl"], osl=rows.cells["osl"], **named)
        if trace.full:
            break
    columns = trace.columns()
    talks = bool(np.any(columns["session"] != NO_LABEL))
    sort_by_arrival(trace, columns, refuse_unsorted=talks)
    columns["session"] = session_numbers(columns["session"])
    if "turn" in columns:
        _check_turns(trace, columns)
    block_tokens = _hash_block(trace, columns, hash_block) if columns["hash"].size else 0
    return close(trace, columns, block_tokens)


def _blocks(path: str | Path) -> Iterator[Block]:
    import pyarrow as pa

    schema: dict[str, Any] = {"arrival_s": pa.float64(), "isl": pa.int64(), "osl": pa.int64()}
    schema |= {"prefix_hash_ids": pa.string(), "session": pa.string(), "turn": pa.int64()}
    suffix = table_format(path)
    if suffix == ".csv":
        return csv_blocks(path, schema, _REQUIRED)
    if suffix == ".parquet":
        return parquet_blocks(path, _NAMES, _REQUIRED)
    schema["prefix_hash_ids"] = pa.list_(pa.int64())
    if isinstance(_first_row(path).get("session"), int):
        schema["session"] = pa.int64()
    return jsonl_blocks(path, schema)


def _first_row(path: str | Path) -> dict[str, object]:
    for block in jsonl_blocks(path, {}):
        for _, row in block.rows():
            return dict(row)
    raise refuse(path, "", "holds no requests")


def _check_turns(trace: GrowingTrace, columns: dict[str, Int]) -> None:
    """Refuse turns that do not rise in their session, and turns of no session."""
    session_N, turn_N = columns["session"], columns["turn"]
    alone_N = (session_N < 0) & (turn_N > 0)
    order_N = np.argsort(session_N, kind="stable")
    follows_N = np.diff(session_N[order_N]) == 0
    follows_N &= session_N[order_N[1:]] >= 0
    falls_N = np.zeros_like(alone_N)
    falls_N[order_N[1:]] = follows_N & (np.diff(turn_N[order_N]) <= 0)
    for wrong_N, rule in (
        (alone_N, "is a turn of no session; give its session, or turn 0"),
        (falls_N, "does not come after the turn of its session that arrived before it"),
    ):
        if wrong_N.any():
            row = int(np.argmax(wrong_N))
            place = trace.place_of(int(columns["number"][row]))
            raise refuse(trace.path, place, f"turn = {turn_N[row]} {rule}")


def _hash_block(trace: GrowingTrace, columns: dict[str, Int], given: int) -> int:
    """Return the tokens of a hashed block: what is given, or what all rows allow."""
    isl_N, count_N = columns["isl"], columns["count"]
    bare_N = count_N == 0
    if bare_N.any():
        place = trace.place_of(int(columns["number"][np.argmax(bare_N)]))
        raise refuse(trace.path, place, "no prefix_hash_ids; give them in all rows or in none")
    # count = ceil(isl / block) holds from ceil(isl / count) to (isl - 1) // (count - 1)
    low_N = -(-isl_N // count_N)
    high_N = np.where(count_N > 1, (isl_N - 1) // np.maximum(count_N - 1, 1), _NO_LIMIT)
    low, high = int(low_N.max()), int(high_N.min())
    block = given or _only_block(low, high)
    wrong_N = (low_N > (block or low)) | (high_N < (block or low))
    if wrong_N.any():
        row = int(np.argmax(wrong_N))
        raise refuse(
            trace.path,
            trace.place_of(int(columns["number"][row])),
            f"{count_N[row]} prefix_hash_ids for {isl_N[row]} tokens; "
            + (f"blocks of {given} tokens" if given else "no size of block fits this and all other")
            + (f" make {-(-isl_N[row] // given)}" if given else " rows: one id per started block"),
        )
    if block is None:
        raise refuse(
            trace.path,
            "",
            f"prefix_hash_ids fit blocks of {low} to {high if high < _NO_LIMIT else 'any'} tokens; "
            "say which with hash_block",
        )
    if not given and low != high:
        trace.warnings.append(
            f"prefix_hash_ids fit blocks of {low} to {high} tokens; {block} is taken, the only "
            "power of two among them"
        )
    return block


def _only_block(low: int, high: int) -> int | None:
    """Return the size of block that is alone, or the only power of two, from low to high."""
    powers = [1 << bit for bit in range(31) if low <= 1 << bit <= high]
    if low == high:
        return low
    return powers[0] if len(powers) == 1 else None
