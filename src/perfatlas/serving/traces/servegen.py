"""Traffic generated from ServeGen clients, each with rate, burstiness and lengths by window.

ServeGen describes clients; it is not a log to replay. A folder contains for each client i
`chunk-i-trace.csv` without a header (start of a window [s], rate [1/s], coefficient of variation of
the gaps, Gamma or Weibull or empty for no traffic, its shape, its scale) and `chunk-i-dataset.json`
(start of a window -> `input_tokens` and `output_tokens`, each a table {tokens: share} as text).

Source: alibaba/ServeGen; Xiang et al., ServeGen, NSDI 2026.
Limits: Tested on hand-written files in the published format, and on one trace file of the
repository, but no dataset. The scale of a fitted distribution contradicts the rate of its window
(for the first client of m-small, 14,137 requests in 600 s have a fitted mean gap of 10 ms, not
42 ms), so gaps keep the shape and are scaled to the window. Prompt and output lengths are drawn
independently, as the dataset has no joint distribution.

Shape legend: W windows, K lengths of a table, B requests of a window of a client, N requests.
"""

from __future__ import annotations

import bisect
import itertools
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.files import Number, check_regular
from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error, significant
from perfatlas.serving.requests import (
    LONGEST_TOKENS,
    TICKS_PER_SECOND,
    plain_requests,
    stream,
)
from perfatlas.serving.traces.blocks import line_blocks, refuse
from perfatlas.serving.traces.reading import Trace
from perfatlas.vocabulary.fields import LONGEST_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfatlas.serving.requests import Purpose

    Int = NDArray[np.int64]

MAX_REQUESTS: Final = 10**8  # per call: 4.8 GB of columns
_PATTERNS: Final = ("Gamma", "Weibull")
_TRACE_NAME: Final = re.compile(r"chunk-(\d+)-trace\.csv")
_PURPOSES: Final[tuple[Purpose, Purpose]] = ("isl", "osl")
_LENGTHS: Final = ("input_tokens", "output_tokens")
_SUM_TOLERANCE: Final = 1e-3  # of the sum of shares, which are rounded to a few digits


@dataclass(frozen=True, kw_only=True)
class Span:
    """Time span and clients to generate.

    Args:
        start_s: Start, which becomes time 0 [s].
        end_s: End, exclusive [s].
        rate_factor: Factor on the number of requests of every window.
        first_client: Number of the first client.
        clients: Number of clients from there on, in order of their numbers; None for all.

    Raises:
        InvalidSpecError: A value is out of range.
    """

    start_s: float
    end_s: float
    rate_factor: float = 1.0
    first_client: int = 0
    clients: int | None = None

    def __post_init__(self) -> None:
        """Validate the span."""
        if not 0.0 <= self.start_s < self.end_s < math.inf:
            raise InvalidSpecError(
                f"span from {self.start_s} s to {self.end_s} s; the start must be at least 0 and "
                "before the end"
            )
        if self.end_s - self.start_s > LONGEST_S:
            raise InvalidSpecError(
                f"span of {self.end_s - self.start_s:g} s; the limit is {LONGEST_S:g} s"
            )
        if not 0.0 < self.rate_factor < math.inf:
            raise InvalidSpecError(f"rate_factor = {self.rate_factor}; it must be positive")


class _Window(NamedTuple):
    start_s: float
    end_s: float
    rate: float
    pattern: str
    shape: float


class _Table(NamedTuple):
    """Cumulative distribution of the lengths of a window."""

    tokens_K: Int
    sum_K: NDArray[np.float64]


_Tables = list[tuple[float, tuple[_Table, _Table]]]


def generate_servegen(folder: str | Path, span: Span, seed: int) -> Trace:
    """Return requests of ServeGen clients during a span.

    A window of a client has the recorded number of requests times the rate factor, with fractions
    rounded at random. Gaps are drawn from the window's distribution and scaled to fill it. Each
    window of each client has its own random streams, so that more clients or a longer span do not
    change the others.

    Args:
        folder: Folder with the chunks.
        span: Time span and clients.
        seed: Random seed.

    Raises:
        InvalidSpecError: A file is missing or invalid, or there are no requests; the message
            contains the file and the problem.
    """
    parts: list[tuple[NDArray[np.float64], Int, Int]] = []
    without = total = 0
    for client, path in _clients(Path(folder), span):
        windows = [w for w in _read_windows(path) if w.rate > 0.0 and w.start_s < span.end_s]
        windows = [w for w in windows if w.end_s > span.start_s]
        if not windows:
            continue
        tables = _read_tables(path.with_name(f"chunk-{client}-dataset.json"))
        for window in windows:
            lengths = _tables_at(tables, window.start_s)
            if lengths is None:
                without += 1
                continue
            expected = window.rate * (window.end_s - window.start_s) * span.rate_factor
            if total + expected > MAX_REQUESTS:
                raise refuse(
                    path,
                    f"window at {window.start_s:g} s",
                    f"{significant(total + expected)} requests so far; the maximum is"
                    f" {MAX_REQUESTS}: use "
                    "a shorter span or a lower rate_factor",
                )
            parts.append(_window_requests(window, span, lengths, (seed, client)))
            total += parts[-1][0].shape[0]
    time_N = np.concatenate([part[0] for part in parts]) if parts else np.zeros(0)
    if not time_N.shape[0]:
        raise refuse(
            folder, "", f"no client sends requests from {span.start_s:g} s to {span.end_s:g} s"
        )
    order_N = np.argsort(time_N, kind="stable")
    arrival_N = np.rint(time_N[order_N] * TICKS_PER_SECOND).astype(np.int64)
    isl_N = np.concatenate([part[1] for part in parts])[order_N]
    osl_N = np.concatenate([part[2] for part in parts])[order_N]
    warnings = (
        (f"{without} windows of clients precede any table of lengths; excluded",) if without else ()
    )
    return Trace(plain_requests(arrival_N, isl_N, osl_N), warnings)


def _window_requests(
    window: _Window, span: Span, lengths: tuple[_Table, _Table], who: tuple[int, int]
) -> tuple[NDArray[np.float64], Int, Int]:
    """Return times after the start of the span [s], prompt and output lengths of a window (B,)."""
    seed, client = who
    place = (client, round(1000 * window.start_s))
    time_B = _window_times(window, span.rate_factor, stream(seed, "arrivals", *place))
    isl_B, osl_B = (
        _drawn(table, stream(seed, purpose, *place).random(time_B.shape))
        for table, purpose in zip(lengths, _PURPOSES, strict=True)
    )
    # Draw the whole window, then cut it, so that requests do not depend on the span.
    inside_B = (time_B >= span.start_s) & (time_B < span.end_s)
    return time_B[inside_B] - span.start_s, isl_B[inside_B], osl_B[inside_B]


def _clients(folder: Path, span: Span) -> list[tuple[int, Path]]:
    try:
        paths = list(folder.iterdir())
    except OSError as problem:
        raise refuse(folder, "", f"cannot be read: {problem.strerror}") from problem
    found = ((_TRACE_NAME.fullmatch(path.name), path) for path in paths)
    clients = sorted((int(name[1]), path) for name, path in found if name)
    if not clients:
        raise refuse(
            folder, "", "contains no chunk-<number>-trace.csv; choose the folder of one model"
        )
    kept = [client for client in clients if client[0] >= span.first_client]
    return kept[: span.clients]


def _read_windows(path: Path) -> list[_Window]:
    rows = list(_window_rows(path))
    starts = [row[0] for row in rows]
    for number, (start, after) in enumerate(itertools.pairwise(starts), 2):
        if after <= start:
            raise refuse(path, f"line {number}", f"window at {after:g} s follows {start:g} s")
    # the last window is as long as the previous one
    ends = [*starts[1:], 2 * starts[-1] - starts[-2]] if len(starts) > 1 else [starts[0] + 600.0]
    return [
        _Window(start, end, rate, pattern, shape)
        for (start, rate, pattern, shape), end in zip(rows, ends, strict=True)
    ]


def _window_rows(path: Path) -> Iterator[tuple[float, float, str, float]]:
    """Yield start, rate, pattern and shape of each window."""
    for first, data in line_blocks(path):
        for number, line in enumerate(data.split(b"\n"), first):
            if not line.strip():
                continue
            cells = line.decode("utf-8", "replace").strip().split(",")
            place = f"line {number}"
            if len(cells) != 6:
                names = "start, rate, cv, pattern, shape, scale"
                raise refuse(path, place, f"{len(cells)} cells instead of six: {names}")
            start, rate, _, shape, _ = (_number(path, place, cells[i]) for i in (0, 1, 2, 4, 5))
            pattern = cells[3].strip()
            if pattern and pattern not in _PATTERNS:
                hint = did_you_mean(pattern, _PATTERNS)
                raise refuse(path, place, f"unknown pattern {repr_for_error(pattern)}{hint}")
            if pattern and rate > 0.0 and shape == 0.0:
                raise refuse(path, place, f"{pattern} with shape 0; it must be positive")
            yield start, rate if pattern else 0.0, pattern, shape


def _number(path: Path, place: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if problem := Number(least=0.0).problem(number if math.isfinite(number) else math.nan):
        raise refuse(path, place, f"{repr_for_error(text)}{problem}")
    return number


def _window_times(window: _Window, factor: float, draw: np.random.Generator) -> NDArray[np.float64]:
    """Return the arrivals of a window in ascending order (B,) [s]."""
    length_s = window.end_s - window.start_s
    expected = window.rate * length_s * factor
    whole = round(expected)
    near = abs(expected - whole) <= 1e-6 * expected  # the rate is a rounded count over 600 s
    count = whole if near else math.floor(expected + draw.random())
    if window.pattern == "Gamma":
        gap_B = draw.standard_gamma(window.shape, count + 1)
    else:
        gap_B = draw.weibull(window.shape, count + 1)
    sum_B = np.cumsum(gap_B)
    total = sum_B[-1] if sum_B[-1] > 0.0 else 1.0
    return window.start_s + length_s * np.minimum(sum_B[:-1] / total, np.nextafter(1.0, 0.0))


def _read_tables(path: Path) -> _Tables:
    """Return the length tables of a client in order of the start of their window."""
    check_regular(path, "trace")
    try:
        document = json.loads(path.read_bytes())
    except OSError as problem:
        raise refuse(path, "", f"cannot be read: {problem.strerror}") from problem
    except (ValueError, RecursionError) as problem:
        raise refuse(path, "", f"is not JSON: {problem}") from problem
    if not isinstance(document, dict):
        raise refuse(path, "", "is not an object of windows")
    tables = []
    for start, fields in document.items():
        place = f"window {repr_for_error(start)}"
        start_s = _number(path, place, start)
        if not isinstance(fields, dict):
            raise refuse(path, place, f"{repr_for_error(fields)} is not an object of tables")
        pair = [_read_table(path, place, fields, name) for name in _LENGTHS]
        if pair[0] is not None and pair[1] is not None:
            tables.append((start_s, (pair[0], pair[1])))
    return sorted(tables, key=lambda table: table[0])


def _read_table(path: Path, place: str, fields: dict[str, object], name: str) -> _Table | None:
    """Return a table {tokens: share}; None if it is empty."""
    text = fields.get(name)
    if not isinstance(text, str):
        raise refuse(path, place, f"missing table {name!r}{did_you_mean(name, list(fields))}")
    inner = text.strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        raise refuse(
            path, place, f"{name} = {repr_for_error(text)} is not a table {{tokens: share}}"
        )
    pairs = [pair.split(":") for pair in inner[1:-1].split(",") if pair.strip()]
    if not pairs:
        return None
    try:
        pair_K2 = np.array(pairs, np.float64).reshape(len(pairs), 2)
    except ValueError as problem:
        raise refuse(path, place, f"{name}: {problem}") from problem
    tokens_K, share_K = pair_K2[np.argsort(pair_K2[:, 0])].T
    whole = np.all((tokens_K >= 0) & (tokens_K <= LONGEST_TOKENS) & (tokens_K % 1 == 0))
    if not whole or not np.all(share_K >= 0) or not abs(share_K.sum() - 1) <= _SUM_TOLERANCE:
        raise refuse(
            path,
            place,
            f"{name}: integer lengths with shares that sum to 1 are required; they sum to "
            f"{share_K.sum():.6g}",
        )
    sum_K = np.cumsum(share_K)
    return _Table(np.maximum(tokens_K, 1).astype(np.int64), sum_K / sum_K[-1])


def _tables_at(tables: _Tables, start_s: float) -> tuple[_Table, _Table] | None:
    """Return the latest tables that start by a time; None if there are none."""
    begun = bisect.bisect_right(tables, start_s, key=lambda table: table[0])
    return tables[begun - 1][1] if begun else None


def _drawn(table: _Table, share_B: NDArray[np.float64]) -> Int:
    place_B = np.searchsorted(table.sum_K, share_B, side="right")
    drawn_B: Int = table.tokens_K[np.minimum(place_B, table.tokens_K.shape[0] - 1)]
    return drawn_B
