"""Change of a benchmark and of perplexity by the number formats of a deployment."""

from __future__ import annotations

import csv
import math
from functools import cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from perfatlas.files import shipped_table, shipped_text
from perfatlas.formats import get_format
from perfatlas.quantities import InvalidSpecError, resolve_name
from perfatlas.quantization.model import (
    BENCHMARKS,
    EXTRAPOLATED,
    PERCENT,
    PERPLEXITY,
    Evaluations,
    shipped_model,
)
from perfatlas.quantization.noise import Roundings, tensor_noise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray
    from perfatlas.quantization.model import AccuracyModel

PAIRS: Final = "data/accuracy/pairs.csv"


SCALES: Final = {"percent": 1.0, "fraction": PERCENT}


MAX_NOISE_RATIO: Final = 1.5  # factor of the noise of pairs within which predictions are made


MEDIAN_PARAMETERS_B: Final = 30.0  # of the pairs, where a source does not state them


Standing = Literal["exact", "published", "extrapolated", "declined"]
ACCURACY: Final = ("accuracy_delta", "accuracy_delta_low", "accuracy_delta_high")
DEFAULT_METHOD: Final = "ptq"
DEFAULT_BENCHMARK: Final = "mmlu"
FIT_SOURCE: Final = (
    "accuracy: 560 published pairs of 19 families, data/accuracy/pairs.csv and sources.toml"
)
NORMAL_95: Final = 1.6449
UNKNOWN: Final = (math.nan, math.nan, math.nan)
NOTHING: Final = (0.0, 0.0, 0.0)


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
    benchmarks = shipped_table(BENCHMARKS)
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
                questions=float(row["n_eval"] or benchmarks[row["benchmark"]]["questions"]),
                baseline=before,
                change=change,
                source=row["source"],
            )
        )
    return tuple(pairs), declined


def evaluations_of(pairs: list[Pair] | tuple[Pair, ...]) -> Evaluations:
    """Return the questions that pairs answer.

    Args:
        pairs: Published pairs (N).
    """
    benchmarks = shipped_table(BENCHMARKS)
    rows = [benchmarks[pair.benchmark] for pair in pairs]
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


def support(cases: Evaluations, pairs: Sequence[Pair], model: AccuracyModel) -> Support:
    """Return how far pairs support predictions: the one rule of extrapolation and refusal.

    Args:
        cases: Questions (N).
        pairs: Pairs that the model is fitted to.
        model: The model that weighs noise.
    """
    cells = {pair.cell for pair in pairs}
    tasks = set(evaluations_of(tuple(pairs)).tasks)
    published = model.total_noise(evaluations_of(tuple(pairs)))
    total_N = model.total_noise(cases)
    beyond_N = (total_N > MAX_NOISE_RATIO * published.max()) | (
        total_N * MAX_NOISE_RATIO < published.min()
    )
    unknown_N = np.array([name not in tasks for name in cases.tasks])
    named = zip(cases.roundings, cases.methods, strict=True)
    return Support(
        extrapolated=np.array([cell not in cells for cell in named]),
        declined=(total_N > 0.0) & (beyond_N | unknown_N),
    )


class Quantized(NamedTuple):
    """The number formats of a deployment and how they were reached."""

    gemm: str  # Format of dense layers
    moe: str  # Format of experts; that of dense layers without experts
    kv: str  # Format of the KV cache
    method: str = DEFAULT_METHOD  # Quantization method, of `METHODS`
    benchmark: str = DEFAULT_BENCHMARK  # Benchmark, of `benchmark_names`
    parameters_b: float = MEDIAN_PARAMETERS_B  # Parameters of the model [1e9]


class Change(NamedTuple):
    """Change by quantization, against the same model in bf16."""

    delta: tuple[float, float, float]  # Low end of the 90% interval, median and high end [points]
    ratio: tuple[float, float, float]  # Likewise of the perplexity over that of bf16
    repeated: float  # Standard deviation of a difference between repeated evaluations [points]
    # exact without quantization; published where pairs have the format and method; extrapolated
    # with a wider interval; declined without values
    standing: Standing
    # Rounding of weights, activations and cache, the noisier of dense layers and experts
    roundings: Roundings
    noise: tuple[float, float, float]  # Noise over signal of each

    @property
    def is_none(self) -> bool:
        """Whether the difference is within 90% of repeated evaluations."""
        return abs(self.delta[1]) <= NORMAL_95 * self.repeated

    @property
    def note(self) -> str:
        """The change in a sentence."""
        if self.standing == "declined":
            return (
                "accuracy: declined, as no published pair has so much or so little noise, or a"
                " task of this kind"
            )
        if self.standing == "exact":
            return "accuracy: nothing is quantized"
        wider = f"; extrapolated, interval of {EXTRAPOLATED:g} times the spread"
        within = "; within the spread of repeated evaluations: no difference"
        return (
            "accuracy: predicted from the noise of formats and published pairs, split by family;"
            f" repeated evaluations differ by {self.repeated:.2f} points (standard deviation)"
            f"{within if self.is_none else ''}{wider if self.standing == 'extrapolated' else ''}"
        )


def benchmark_names() -> tuple[str, ...]:
    """Return the benchmarks whose scores are predicted."""
    return tuple(name for name in shipped_table(BENCHMARKS) if name != PERPLEXITY)


@cache
def format_change(case: Quantized) -> Change:
    """Return the change of a benchmark and of perplexity by number formats.

    Args:
        case: Formats, method, benchmark and size.

    Raises:
        InvalidSpecError: There is no such benchmark.
        UnsupportedError: There is no such format.

    Example:
        >>> from perfatlas.quantization import Quantized, format_change
        >>> fp8 = format_change(Quantized("fp8_dynamic", "fp8_dynamic", "bf16", "rtn"))
        >>> fp4 = format_change(Quantized("nvfp4", "nvfp4", "bf16", "rtn"))
        >>> fp4.delta[1] < fp8.delta[1] < 0.5
        True
    """
    row = shipped_table(BENCHMARKS)[
        resolve_name(
            case.benchmark,
            benchmark_names(),
            what="benchmark",
            lists=", ".join(benchmark_names()),
            error=InvalidSpecError,
        )
    ]
    kv = get_format(case.kv).rounding[0]
    choices = [Roundings(*get_format(name).rounding, kv) for name in (case.gemm, case.moe)]
    worst = max(
        choices, key=lambda roundings: float(tensor_noise([roundings], [case.method]).sum())
    )
    weights, activations, cache_noise = tensor_noise([worst], [case.method])[0].tolist()
    each = (weights, activations, cache_noise)
    if worst.exact:
        return Change(NOTHING, (1.0, 1.0, 1.0), 0.0, "exact", worst, each)
    questions = Evaluations(
        roundings=[worst, worst],
        methods=[case.method, case.method],
        tasks=[row["task"], PERPLEXITY],
        parameters_b=np.full(2, case.parameters_b),
        scores=np.array([row["score"], 0.0], np.float64),
        chances=np.array([row["chance"], 0.0], np.float64),
        questions=np.array([row["questions"], 0.0], np.float64),
    )
    model = shipped_model()
    supported = support(questions, published_pairs()[0], model)
    repeated = float(model.repeated_spread(questions)[0])
    if supported.declined[0]:
        return Change(UNKNOWN, UNKNOWN, repeated, "declined", worst, each)
    beyond = bool(supported.extrapolated[0])
    points, logs = model.quantiles(questions, EXTRAPOLATED if beyond else 1.0).tolist()
    return Change(
        (points[0], points[1], points[2]),
        (math.exp(logs[0]), math.exp(logs[1]), math.exp(logs[2])),
        repeated,
        "extrapolated" if beyond else "published",
        worst,
        each,
    )


def change_columns(candidates: list[Quantized]) -> dict[str, FloatArray]:
    """Return the change of a benchmark of each deployment with its interval, by name (C,).

    Args:
        candidates: Formats of each, few of them distinct (C).

    Returns:
        Points, NaN where declined.
    """
    delta_C3 = np.array([format_change(case).delta for case in candidates]).reshape(-1, 3)
    low_C, middle_C, high_C = delta_C3.T
    return dict(zip(ACCURACY, (middle_C, low_C, high_C), strict=True))
