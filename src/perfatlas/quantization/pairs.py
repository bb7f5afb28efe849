"""Published pairs: scores of a model before and after quantization."""

from __future__ import annotations

import csv
import math
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.files import shipped_table, shipped_text
from perfatlas.quantization.model import BENCHMARKS, PERCENT, Evaluations
from perfatlas.quantization.noise import Roundings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.quantization.model import AccuracyModel

PAIRS: Final = "data/accuracy/pairs.csv"
SCALES: Final = {"percent": 1.0, "fraction": PERCENT}
MAX_NOISE_RATIO: Final = 1.5  # factor of the noise of pairs within which predictions are made
MEDIAN_PARAMETERS_B: Final = 30.0  # of the pairs, where a source does not state them


class Pair(NamedTuple):
    """One published pair."""

    family: str  # Family of the model
    model: str  # As the source names it
    parameters_b: float  # Parameters [1e9]
    roundings: Roundings  # Roundings of weights, activations and cache
    method: str  # Quantization method
    benchmark: str  # A key of benchmarks.toml
    questions: float  # Questions evaluated, 0 for perplexity
    baseline: float  # Score before, in points; perplexity as it is
    change: float  # Points lost (negative) or gained; the logarithm of the ratio of perplexities
    source: str  # A key of sources.toml

    @property
    def cell(self) -> tuple[Roundings, str]:
        """Format and method."""
        return self.roundings, self.method


@cache
def published_pairs() -> tuple[tuple[Pair, ...], dict[str, int]]:
    """Return the usable published pairs, and the number of declined ones by reason."""
    known = shipped_table(BENCHMARKS)
    pairs, declined = [], dict[str, int]()
    for row in csv.DictReader(shipped_text(PAIRS).splitlines()):
        if row["declined"]:
            declined[row["declined"]] = declined.get(row["declined"], 0) + 1
            continue
        before, after = float(row["baseline"]), float(row["quantized"])
        factor = SCALES.get(row["scale"])
        if factor is not None:
            before, change = before * factor, (after - before) * factor
        else:
            change = after - before if row["scale"] == "nat" else math.log(after / before)
        pairs.append(
            Pair(
                family=row["family"],
                model=row["model"],
                parameters_b=float(row["params_b"] or MEDIAN_PARAMETERS_B),
                roundings=Roundings(row["weights"], row["activations"], row["kv"]),
                method=row["method"],
                benchmark=row["benchmark"],
                questions=float(row["n_eval"] or known[row["benchmark"]]["questions"]),
                baseline=before,
                change=change,
                source=row["source"],
            )
        )
    return tuple(pairs), declined


def asked_of(pairs: list[Pair] | tuple[Pair, ...]) -> Evaluations:
    """Return the questions that pairs answer.

    Args:
        pairs: Published pairs (N).
    """
    known = shipped_table(BENCHMARKS)
    rows = [known[pair.benchmark] for pair in pairs]
    return Evaluations(
        roundings=[pair.roundings for pair in pairs],
        methods=[pair.method for pair in pairs],
        tasks=[row["task"] for row in rows],
        parameters_b=np.array([pair.parameters_b for pair in pairs]),
        scores=np.array([pair.baseline for pair in pairs]),
        chances=np.minimum([row["chance"] for row in rows], [pair.baseline for pair in pairs]),
        questions=np.array([pair.questions for pair in pairs]),
    )


class Support(NamedTuple):
    """How far published pairs support predictions, each (N,)."""

    # No pair has this format by this method; the interval is widened
    extrapolated: NDArray[np.bool_]
    # The noise is beyond that of all pairs, or no pair has a task of this kind
    declined: NDArray[np.bool_]


def support(asked: Evaluations, pairs: Sequence[Pair], model: AccuracyModel) -> Support:
    """Return how far pairs support predictions: the one rule of extrapolation and refusal.

    Args:
        asked: Questions (N).
        pairs: Pairs that the model is fitted to.
        model: The model that weighs noise.
    """
    cells = {pair.cell for pair in pairs}
    tasks = set(asked_of(tuple(pairs)).tasks)
    published = model.total_noise(asked_of(tuple(pairs)))
    total_N = model.total_noise(asked)
    beyond_N = (total_N > MAX_NOISE_RATIO * published.max()) | (
        total_N * MAX_NOISE_RATIO < published.min()
    )
    unknown_N = np.array([name not in tasks for name in asked.tasks])
    named = zip(asked.roundings, asked.methods, strict=True)
    return Support(
        extrapolated=np.array([cell not in cells for cell in named]),
        declined=(total_N > 0.0) & (beyond_N | unknown_N),
    )
