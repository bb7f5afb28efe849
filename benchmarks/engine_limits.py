"""Cliffs: neighbouring questions whose throughput differs by more than a factor of 1.5.

    python benchmarks/engine_limits.py [engine ...] [--page benchmarks/engine_limits.md]

For every engine and two deployments, grids over prompt length, output length, requests in flight
and static batch are estimated; where the throughput of two grid points differs by more than the
factor, or one of them is rejected, the gap is halved until the points are neighbours. What is left
then is a cliff: it is printed with what the answer begins with, its bottleneck or its error, and
with its explanation; exits 1 where one has none. `--page` renews the sections of the engines.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.answer import BOTTLENECK
from perfatlas.quantities import InfeasibleError, counted
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
MAX_IN_FLIGHT: Final = 512  # requests in flight
LOADED: Final = ("isl", "osl", "concurrency", "batch")
NEARLY: Final = 1.05  # a step is longer, as its context is
RATE: Final = "output_tokens_per_s_per_gpu"


HEAD: Final = """\
# Cliffs of engines

Where one more token, request or sequence costs much more than one. This page was written by

    python benchmarks/engine_limits.py {engines} --page benchmarks/engine_limits.md

which estimates each engine on grids over prompt length, output length, requests in flight and
static batch, with the limits that the engine documents ([estimate.md](../docs/estimate.md)), and
looks for *cliffs*: neighbouring values whose throughput in requests/s differs by more than a factor
of {factor}, or of which one is refused. More requests in flight may raise it in proportion.

The deployments are {deployments}.
Prompts have {isl}, outputs {osl} tokens, and up to {load} requests are in flight.
A cliff that several questions share is listed once, with their number.
"""


class Pair(NamedTuple):
    """Two questions that differ in one field."""

    asked: Mapping[str, Any]
    field: str
    low: int
    high: int


class Cliff(NamedTuple):
    """Neighbouring questions of different throughput."""

    pair: Pair
    low: float  # Throughput of the lower value [requests/s/GPU], 0 where it is refused
    high: float  # Throughput of the upper value, likewise
    said: str  # What the answer of the slower one begins with: its bottleneck, or its error


def main() -> int:
    """Print the cliffs of the named engines; return 1 where one has no explanation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", nargs="*", default=ENGINES)
    parser.add_argument("--page", type=Path, help="also write the list as Markdown")
    asked = parser.parse_args()
    sections, unexplained = {}, 0
    for engine in asked.engine:
        start_s = time.process_time()
        found, count = cliffs_of(engine)
        spent_s = time.process_time() - start_s
        print(f"{engine}: {len(found)} cliffs, {count:,} questions, {spent_s:.0f} CPU-s")
        for cliff in found:
            print("  " + _line(cliff), flush=True)
        unexplained += sum(not explanation(cliff) for cliff in found)
        sections[engine] = section(engine, found, count)
    if asked.page is not None:
        write_page(asked.page, sections)
    return int(unexplained > 0)


def cliffs_of(engine: str) -> tuple[list[Cliff], int]:
    """Return the cliffs of an engine, and the number of questions.

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
    return [_cliff(known, pair) for pair in pairs], len(known)


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
            loads = itertools.pairwise((*LOADS, MAX_IN_FLIGHT))
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


def _cliff(known: Mapping[Any, tuple[float, str]], pair: Pair) -> Cliff:
    (low, low_said), (high, high_said) = (known[_key(_point(pair, value))] for value in pair[2:])
    return Cliff(pair, low, high, high_said if high < low else low_said)


def _where(pair: Pair) -> str:
    """Return the question of a cliff without its engine."""
    given = {name: value for name, value in pair.asked.items() if value is not None}
    return " ".join(f"{name}={value}" for name, value in given.items() if name != "engine")


def _line(cliff: Cliff) -> str:
    pair = cliff.pair
    return (
        f"{_where(pair)}: {pair.field} {pair.low} -> {pair.high}: {cliff.low:.4g} ->"
        f" {cliff.high:.4g} requests/s/GPU; {cliff.said[:200]}"
        f" ({explanation(cliff) or 'NOT EXPLAINED'})"
    )


def explanation(cliff: Cliff) -> str:
    """Return why a cliff is right, or what the answer says about it; "" for neither."""
    pair = cliff.pair
    if cliff.said.startswith(InfeasibleError.error_code):
        return "memory is full: the error says what fits"
    if cliff.said.startswith(BOTTLENECK):
        return "the answer begins with the bottleneck and what removes it"
    in_proportion = cliff.low * pair.low <= NEARLY * cliff.high * pair.high
    if pair.field == "osl" and cliff.high and in_proportion:
        return "each output token takes a step, and a prompt this short takes hardly longer"
    return ""


def write_page(path: Path, sections: Mapping[str, str]) -> None:
    """Write the list of cliffs; sections of other engines stay as they are.

    Args:
        sections: Markdown by engine.
    """
    parts = path.read_text("utf-8").split("\n## ")[1:] if path.exists() else []
    kept = {part.partition("\n")[0]: f"## {part.rstrip()}\n" for part in parts}
    kept |= sections
    head = HEAD.format(
        engines=" ".join(kept),
        factor=FACTOR,
        deployments=" and ".join(
            f"{deployment['model']} on {deployment['system']}" for deployment in DEPLOYMENTS
        ),
        isl=f"{ISL[0]:,} to {ISL[-1]:,}",
        osl=f"{OSL[0]:,} to {OSL[-1]:,}",
        load=MAX_IN_FLIGHT,
    )
    path.write_text("\n".join([head, *kept.values()]), "utf-8")


def section(engine: str, cliffs: Sequence[Cliff], count: int) -> str:
    """Return the cliffs of an engine as Markdown: those of one deployment, field and cause once.

    Args:
        engine: Name of the engine.
        count: Number of questions.
    """
    lines = [f"## {engine}", "", f"{count:,} questions, {counted(len(cliffs), 'cliff')}.", ""]
    if not cliffs:
        return "\n".join(lines)
    groups: dict[tuple[str, ...], list[Cliff]] = {}
    for cliff in cliffs:
        asked = cliff.pair.asked
        key = (str(asked["model"]), str(asked["mode"]), cliff.pair.field, explanation(cliff))
        groups.setdefault(key, []).append(cliff)
    lines += [
        "| cliffs | model | mode | first of them | requests/s/GPU | why | the answer begins |",
        "|---|---|---|---|---|---|---|",
    ]
    for (model, mode, field, why), found in groups.items():
        one = found[0]
        rates = " to ".join(f"{rate:.4g}" if rate else "refused" for rate in (one.low, one.high))
        asked = {**one.pair.asked, field: f"{one.pair.low} to {one.pair.high}"}
        load = ", ".join(f"{n} {asked[n]}" for n in LOADED if asked.get(n) is not None)
        text = one.said.partition(": ")[2] if why.startswith("memory") else one.said
        text = text[:300].replace("|", "/").replace("\n", " ")
        cells = [str(len(found)), model.rpartition("/")[2], mode, load, rates, why, text]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main())
