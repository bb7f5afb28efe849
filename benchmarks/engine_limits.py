"""Cliffs: neighbouring questions whose throughput differs by more than a factor of 1.5.

Run `python benchmarks/engine_limits.py [engine ...]`. For every engine and two deployments, grids
over prompt length, output length, requests in flight and static batch are estimated; where the
throughput of two grid points differs by more than the factor, or one of them is rejected, the gap
is halved until the points are neighbours. What is left then is a cliff: it is printed with the
warning or error that the answer leads with. A rejection that a limit of memory explains (exit code
4) is listed apart.
"""

from __future__ import annotations

import argparse
import itertools
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.verbs.estimate import estimate_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FACTOR: Final = 1.5
ENGINES: Final = ("vllm", "sglang", "trtllm", "ideal")
DEPLOYMENTS: Final[tuple[Mapping[str, Any], ...]] = (
    {"model": "meta-llama/Llama-3.1-8B", "system": "h100_sxm", "tp": 1, "format": None},
    {"model": "meta-llama/Llama-3.1-70B", "system": "b200_sxm", "tp": 4, "format": "fp8"},
)
ISL: Final = tuple(2**power for power in range(4, 18))
OSL: Final = tuple(2**power for power in range(14))
LOADS: Final = (1, 4, 16, 64, 256)
RATE: Final = "output_tokens_per_s_per_gpu"


class Pair(NamedTuple):
    """Two questions that differ in one field."""

    asked: Mapping[str, Any]
    field: str
    low: int
    high: int


def main() -> None:
    """Print the cliffs of the named engines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", nargs="*", default=ENGINES)
    for engine in parser.parse_args().engine:
        start_s = time.process_time()
        found, asked = cliffs_of(engine)
        spent_s = time.process_time() - start_s
        print(f"{engine}: {len(found)} cliffs, {asked:,} questions, {spent_s:.0f} CPU-s")
        for line in found:
            print("  " + line)


def cliffs_of(engine: str) -> tuple[list[str], int]:
    """Return the cliffs of an engine, one line each, and the number of questions.

    Throughput is in requests/s, as twice the output legitimately doubles output tokens/s; more
    requests in flight may raise it in proportion.
    """
    known: dict[tuple[tuple[str, Any], ...], tuple[float, str]] = {}
    pairs = list(_pairs(engine))
    while True:
        answer_all(known, [_point(pair, value) for pair in pairs for value in pair[2:]])
        pairs = [pair for pair in pairs if _differ(known, pair)]
        if all(pair.high == pair.low + 1 for pair in pairs):
            break
        halves = [half for pair in pairs for half in _halves(pair)]
        answer_all(known, [_point(pair, value) for pair in halves for value in pair[2:]])
        pairs = [half for half in halves if _differ(known, half)]
    return [_line(known, pair) for pair in pairs], len(known)


def _pairs(engine: str) -> Iterator[Pair]:
    """Yield neighbours on the grids."""
    for deployment in DEPLOYMENTS:
        base = {**deployment, "engine": engine, "batch": None, "concurrency": None}
        served = {**base, "mode": "aggregated"}
        for load, osl in itertools.product(LOADS, (1, 128, 1024)):
            asked = {**served, "concurrency": load, "osl": osl}
            yield from (Pair(asked, "isl", a, b) for a, b in itertools.pairwise(ISL))
        for load, isl in itertools.product(LOADS, (128, 4096, 8192, 32768)):
            asked = {**served, "concurrency": load, "isl": isl}
            yield from (Pair(asked, "osl", a, b) for a, b in itertools.pairwise(OSL))
        for isl, osl in itertools.product((128, 4096, 8192, 32768), (128, 1024)):
            asked = {**served, "isl": isl, "osl": osl}
            loads = itertools.pairwise((*LOADS, 512))
            yield from (Pair(asked, "concurrency", a, b) for a, b in loads)
            asked = {**base, "mode": "static", "isl": isl, "osl": osl}
            yield from (Pair(asked, "batch", a, b) for a, b in itertools.pairwise(LOADS))


def _point(pair: Pair, value: int) -> dict[str, Any]:
    return {**pair.asked, pair.field: value}


def _key(point: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((name, value) for name, value in point.items() if value is not None))


def answer_all(
    known: dict[tuple[tuple[str, Any], ...], tuple[float, str]], points: Sequence[dict[str, Any]]
) -> None:
    """Add the throughput of points that are not known yet, with the first warning or the error."""
    new = {_key(point): point for point in points if _key(point) not in known}
    if not new:
        return
    rows = list(new.values())
    table = {name: [row.get(name) for row in rows] for name in rows[0]}
    found = estimate_table(table).columns
    names = (RATE, "error_code", "error", "warnings")
    for key, rate, code, error, warnings in zip(new, *(found[name] for name in names), strict=True):
        known[key] = (
            (rate / new[key]["osl"], str(warnings)) if not code else (0.0, f"{code}: {error}")
        )


def _differ(known: Mapping[Any, tuple[float, str]], pair: Pair) -> bool:
    low, high = (known[_key(_point(pair, value))][0] for value in pair[2:])
    if not low or not high:
        return bool(low or high)
    more = pair.high / pair.low if pair.field in ("concurrency", "batch") else 1.0
    return low > FACTOR * high or high > FACTOR * more * low


def _halves(pair: Pair) -> Iterator[Pair]:
    if pair.high == pair.low + 1:
        yield pair
        return
    middle = (pair.low + pair.high) // 2
    yield pair._replace(high=middle)
    yield pair._replace(low=middle)


def _line(known: Mapping[Any, tuple[float, str]], pair: Pair) -> str:
    told = {name: value for name, value in pair.asked.items() if value is not None}
    (low, _), (high, said) = (known[_key(_point(pair, value))] for value in pair[2:])
    where = " ".join(f"{name}={value}" for name, value in told.items() if name != "engine")
    return (
        f"{where}: {pair.field} {pair.low} -> {pair.high}: {low:.4g} -> {high:.4g} requests/s/GPU;"
        f" {said[:200]}"
    )


if __name__ == "__main__":
    main()
