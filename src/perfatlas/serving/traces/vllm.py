r"""Requests of vLLM: from a result file of `vllm bench serve`, or from a server log.

Source: vllm-project/vllm. `vllm bench serve --save-result --save-detailed` writes one object with
the lists start_times [s of a monotonic clock], input_lens, output_lens and errors (text, empty for
a success), one entry per request. A server with `--enable-log-requests` logs "Received request ID:
... params: SamplingParams(..., max_tokens=N, ...), prompt_token_ids: [...]"; from 0.11 on the token
ids are in a line "Request ID details: ..." at level DEBUG before it.
Limits: Tested on hand-written files in the documented format. A log has times to the second and the
maximum instead of the actual output tokens; `--max-log-len` truncates token ids without notice. A
result file is read at once, up to 1 GiB.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perfatlas.files import check_regular
from perfatlas.quantities import counted, did_you_mean, repr_for_error
from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.serving.traces import reading
from perfatlas.serving.traces.blocks import Block, line_blocks, refuse
from perfatlas.serving.traces.fields import TraceField

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_RESULT_BYTES: Final = 1 << 30
_MONOTONIC: Final = reading.TraceClock(ticks=TICKS_PER_SECOND, relative=False)
_LISTS: Final = ("start_times", "input_lens", "output_lens")
_FIELDS: Final = (
    TraceField(name="start_times", kind="number"),
    TraceField(name="input_lens", kind="tokens", low=1),
    TraceField(name="output_lens", kind="tokens", low=1),
)
# INFO 09-10 19:10:43 [logger.py:40] Received request cmpl-1: ...
_LINE: Final = re.compile(
    r"(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)\b.*?(?:Received request|Request) (\S+?)(?: details)?: "
)
_TOKEN_IDS: Final = re.compile(r"prompt_token_ids: (?:\[([\d, ]*)\]|None)")
_MAX_TOKENS: Final = re.compile(r"\bmax_tokens=(\d+)")
_LEAP_YEAR: Final = 2000  # logs have no year; this one has all days


def read_vllm(path: str | Path, window: reading.TraceWindow = reading.WHOLE_TRACE) -> reading.Trace:
    """Return the requests of a vLLM benchmark or server log, with the earliest at time 0.

    Args:
        path: A result file (an object in braces) or a log.
    """
    trace = reading.GrowingTrace(path=path, clock=_MONOTONIC, window=window)
    blocks = _result_blocks(trace) if _is_object(path) else _log_blocks(trace)
    for rows in trace.rows(blocks, _FIELDS):
        if rows.number_B.size:
            cells = rows.cells
            trace.add(rows, "start_times", isl=cells["input_lens"], osl=cells["output_lens"])
    columns = trace.columns()
    reading.sort_by_arrival(trace, columns, refuse_unsorted=False)
    return reading.close(trace, columns)


def _is_object(path: str | Path) -> bool:
    for _, data in line_blocks(path):
        if data.strip():
            return data.lstrip().startswith(b"{")
    return False


def _no_table() -> None:
    """Return no Arrow table."""


def _result_blocks(trace: reading.GrowingTrace) -> Iterator[Block]:
    path = Path(trace.path)
    check_regular(path, "trace")
    size = path.stat().st_size
    if size > MAX_RESULT_BYTES:
        raise refuse(
            path,
            "",
            f"{size} bytes; the limit of a result file is {MAX_RESULT_BYTES}: write its "
            "start_times, input_lens and output_lens as columns arrival_s, isl, osl of a CSV file",
        )
    try:
        result = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as problem:
        raise refuse(
            path,
            "",
            f"is not a single JSON object ({problem}); files created with --append-result contain "
            "several runs: split it into one file per run",
        ) from problem
    for name in _LISTS:
        if not isinstance(result.get(name), list):
            raise refuse(
                path,
                "",
                f"missing list {name!r} in the result{did_you_mean(name, list(result))}; run vllm "
                "bench serve with --save-result --save-detailed",
            )
    lengths = {name: len(result[name]) for name in _LISTS}
    if len(set(lengths.values())) != 1:
        raise refuse(path, "", f"lists of different lengths: {lengths}")
    errors = result.get("errors")
    rows = partial(_result_rows, trace, result, errors if isinstance(errors, list) else [])
    yield Block(row_word="request", first=1, table=_no_table, rows=rows)


def _result_rows(
    trace: reading.GrowingTrace, result: Mapping[str, list[object]], errors: list[object]
) -> Iterator[tuple[int, Mapping[str, object]]]:
    failed = 0
    for number, cells in enumerate(zip(*(result[name] for name in _LISTS), strict=True), 1):
        unanswered = cells[2] == 0 or (number <= len(errors) and bool(errors[number - 1]))
        if unanswered:
            failed += 1
            continue
        yield number, dict(zip(_LISTS, cells, strict=True))
    if failed:
        trace.warnings.append(f"{counted(failed, 'request')} excluded: failed or without tokens")


def _log_blocks(trace: reading.GrowingTrace) -> Iterator[Block]:
    trace.warnings.append(
        "logs contain the maximum output of a request, which is used as its output length, and "
        "times to the second"
    )
    waiting: dict[str, int] = {}
    clock = _LogClock()
    for first, data in line_blocks(trace.path):
        rows = partial(_log_rows, trace, (first, data), waiting, clock)
        yield Block(row_word="line", first=first, table=_no_table, rows=rows)


class _LogClock:
    """Seconds of log timestamps without a year: the year changes when the month decreases."""

    def __init__(self) -> None:
        self._year, self._month = _LEAP_YEAR, 1

    def seconds(self, month: int, day: int, hour: int, minute: int, second: int) -> float:
        if month < self._month:
            self._year += 1
        self._month = month
        moment = dt.datetime(self._year, month, day, hour, minute, second, tzinfo=dt.UTC)
        return moment.timestamp()


def _log_rows(
    trace: reading.GrowingTrace, lines: tuple[int, bytes], waiting: dict[str, int], clock: _LogClock
) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Yield the requests received in lines of a log.

    `waiting` holds the prompt tokens of requests whose details precede their reception.
    """
    first, data = lines
    for number, line in enumerate(data.split(b"\n"), first):
        text = line.decode("utf-8", "replace")
        head = _LINE.search(text)
        if head is None:
            continue
        request = head[6]
        # prompts precede the ids and may contain the same text: the last match is vLLM's own
        ids = list(_TOKEN_IDS.finditer(text))
        if ids and ids[-1][1] is not None:
            waiting[request] = len(ids[-1][1].split(",")) if ids[-1][1].strip() else 0
        if "Received request " not in head[0]:
            continue
        most = list(_MAX_TOKENS.finditer(text))
        if request not in waiting or not most:
            missing = "max_tokens" if request in waiting else "prompt_token_ids"
            raise refuse(
                trace.path,
                f"line {number}",
                f"missing {missing} of request {repr_for_error(request)}; vLLM logs token ids at"
                " level DEBUG (VLLM_LOGGING_LEVEL=DEBUG), and max_tokens if the request sets it",
            )
        try:
            start_s = clock.seconds(*(int(part) for part in head.groups()[:5]))
        except ValueError as problem:
            raise refuse(
                trace.path, f"line {number}", f"invalid time of day: {problem}"
            ) from problem
        yield (
            number,
            {
                "start_times": start_s,
                "input_lens": waiting.pop(request),
                "output_lens": int(most[-1][1]),
            },
        )
