"""Random scenarios, and laws of which each is asked in pairs of scenarios.

A law holds where the second answer of a pair is at least as large (or as small) as the first,
within a tolerance of rounding. `python -m tests.laws.random_questions 1000` prints every violation.
"""

from __future__ import annotations

import math
import random
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.verbs.estimate import estimate_table
from tests.laws.support import MODELS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Fields = dict[str, Any]

SYSTEMS: Final = ("a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm", "l40s", "gb200")
ENGINES: Final = ("vllm", "sglang", "trtllm", "ideal")
ROUNDING: Final = 1e-9


@dataclass(frozen=True, kw_only=True)
class Law:
    """A statement about pairs of scenarios.

    Args:
        name: What it says.
        pair: Two scenarios of a drawn one.
        column: The result that is compared.
        grows: Whether the second result is at least the first; otherwise at most.
    """

    name: str
    pair: Callable[[Fields, random.Random], tuple[Fields, Fields]]
    column: str
    grows: bool = True


def drawn(rng: random.Random, **fixed: Any) -> Fields:  # noqa: ANN401 - names of the vocabulary
    """Return a random scenario; sizes are log-uniform, with values beside powers of two."""
    return {
        "model": rng.choice(MODELS),
        "system": rng.choice(SYSTEMS),
        "engine": rng.choice(ENGINES),
        "tp": rng.choice((1, 2, 4, 8)),
        "isl": log_uniform(rng, 1, 16384),
        "osl": log_uniform(rng, 1, 1024),
        "format": rng.choice(("bf16", "fp8")),
        "tier": rng.choice(("auto", "bound")),
        **fixed,
    }


def log_uniform(rng: random.Random, least: int, most: int) -> int:
    size = round(math.exp(rng.uniform(math.log(least), math.log(most))))
    return max(least, min(most, size + rng.choice((0, 0, 0, 1, -1))))


def tiers(fields: Fields, rng: random.Random) -> tuple[Fields, Fields]:
    """Continuous batching in tier bound and in tier physics."""
    asked = {
        **fields,
        "mode": "aggregated",
        "method": "formula",
        "concurrency": log_uniform(rng, 1, 512),
    }
    return {**asked, "tier": "bound"}, {**asked, "tier": "physics"}


def memory_bandwidths(fields: Fields, rng: random.Random) -> tuple[Fields, Fields]:
    """More memory bandwidth in tier bound, static or continuous."""
    asked = {**fields, "tier": "bound"}
    if rng.random() < 0.5:
        asked |= {
            "mode": "aggregated",
            "method": "formula",
            "concurrency": log_uniform(rng, 1, 512),
        }
    else:
        asked["batch"] = log_uniform(rng, 1, 512)
    scale = rng.choice((1.05, 1.3, 2.0))
    rates = {"a100_sxm": 2.039, "h100_sxm": 3.35, "h200_sxm": 4.8, "b200_sxm": 8.0}
    rates |= {"l40s": 0.864, "gb200": 8.0}
    systems = [
        f"{fields['system']}{{device.memory.bandwidth={rates[fields['system']] * by:.6g}TB/s}}"
        for by in (scale, 1.0)
    ]
    return {**asked, "system": systems[0]}, {**asked, "system": systems[1]}


def unlimited_tiers(fields: Fields, rng: random.Random) -> tuple[Fields, Fields]:
    """As `tiers`, with a front end that sends the output in groups and so limits no rate.

    Where the front end limits the rate, the latency of a request is given: an earlier first token
    then leaves more time for the others.
    """
    bound, physics = tiers(fields, rng)
    return _unlimited(bound), _unlimited(physics)


def unlimited_bandwidths(fields: Fields, rng: random.Random) -> tuple[Fields, Fields]:
    """As `memory_bandwidths`, with a front end that limits no rate."""
    more, less = memory_bandwidths(fields, rng)
    return _unlimited(more), _unlimited(less)


def _unlimited(fields: Fields) -> Fields:
    if fields["engine"] == "ideal" or fields.get("mode") != "aggregated":
        return fields
    return {**fields, "stream_interval": fields["osl"]}


def static_batches(fields: Fields, rng: random.Random) -> tuple[Fields, Fields]:
    """A static batch, and one of twice its size, both of captured CUDA graphs.

    Other sizes are padded, by up to 2 times: one of twice the size may be less efficient.
    """
    batch = 2 ** rng.randint(0, 8)
    return {**fields, "batch": batch}, {**fields, "batch": 2 * batch}


def prompts(fields: Fields, rng: random.Random) -> tuple[Fields, Fields]:
    """A prompt, and a longer one."""
    longer = max(fields["isl"] + 1, round(fields["isl"] * rng.choice((1.01, 1.2, 2.0))))
    asked = {**fields, "batch": log_uniform(rng, 1, 64)}
    return asked, {**asked, "isl": longer}


LAWS: Final = (
    Law(name="TTFT: tier physics >= tier bound", pair=tiers, column="ttft_s"),
    Law(name="TPOT: tier physics >= tier bound", pair=unlimited_tiers, column="tpot_s"),
    Law(
        name="throughput: tier physics <= tier bound",
        pair=tiers,
        column="output_tokens_per_s_per_gpu",
        grows=False,
    ),
    Law(name="TTFT with more memory bandwidth", pair=memory_bandwidths, column="ttft_s"),
    Law(name="TPOT with more memory bandwidth", pair=unlimited_bandwidths, column="tpot_s"),
    Law(name="latency: tier physics >= tier bound", pair=tiers, column="request_latency_s"),
    Law(
        name="latency with more memory bandwidth",
        pair=memory_bandwidths,
        column="request_latency_s",
    ),
    Law(
        name="throughput at twice the batch",
        pair=static_batches,
        column="output_tokens_per_s_per_gpu",
    ),
    Law(name="TTFT of a longer prompt", pair=prompts, column="ttft_s"),
)


@dataclass(frozen=True, kw_only=True)
class Violation:
    """A pair of scenarios that breaks a law.

    Args:
        law: Name of the law.
        fields: The first scenario.
        other: Fields of the second scenario that differ.
        by: Relative size.
    """

    law: str
    fields: Fields
    other: Fields
    by: float


def violations(law: Law, draws: int, seed: int) -> tuple[list[Violation], int]:
    """Return the pairs that break a law, and the number of pairs that were answered.

    Args:
        seed: Seed of the draws.
    """
    rng = random.Random(f"{law.name} {seed}")  # noqa: S311 - draws of a test
    pairs = [law.pair(drawn(rng), rng) for _ in range(draws)]
    first, second = (_answers([pair[side] for pair in pairs], law.column) for side in (0, 1))
    change = np.log(second / first) * (1.0 if law.grows else -1.0)
    found = []
    for n in np.flatnonzero(change < -ROUNDING).tolist():
        a, b = pairs[n]
        other = {name: value for name, value in b.items() if a[name] != value}
        found.append(Violation(law=law.name, fields=a, other=other, by=float(-change[n])))
    return found, int(np.isfinite(change).sum())


def _answers(rows: Sequence[Mapping[str, Any]], column: str) -> np.ndarray[Any, Any]:
    """Return a result of scenarios, NaN where they are refused or not defined."""
    names = {name for row in rows for name in row}
    table = {name: [row.get(name) for row in rows] for name in names}
    columns = estimate_table(table).columns
    values = [np.nan if value in (None, "") else float(value) for value in columns[column]]
    answers = np.array(values, dtype=np.float64)
    answers[answers <= 0.0] = np.nan
    return answers


def main() -> int:
    """Print the violations of all laws, and return how many laws are broken."""
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    broken = 0
    for law in LAWS:
        found, answered = violations(law, draws, seed=0)
        broken += bool(found)
        worst = max((one.by for one in found), default=0.0)
        sys.stdout.write(f"{law.name}: {len(found)} of {answered} pairs, to {worst:.1%}\n")
        for one in sorted(found, key=lambda one: -one.by)[:8]:
            sys.stdout.write(f"  {one.by:.2%} {one.fields} -> {one.other}\n")
    return broken


if __name__ == "__main__":
    sys.exit(main())
