"""Change of perplexity and of benchmarks by quantization, with its 90% interval.

Shape legend: N questions, Z values of the unexplained spread.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.files import shipped_table
from perfatlas.quantization.noise import tensor_noise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.quantization.noise import Roundings

MODEL: Final = "data/accuracy/model.toml"
BENCHMARKS: Final = "data/accuracy/benchmarks.toml"
PERPLEXITY: Final = "perplexity"
METHODS: Final = (
    *("rtn", "tuned_rtn", "gptq", "awq", "autoround", "smoothquant", "rotation", "qat", "ptq"),
)
TASKS: Final = (
    *("perplexity", "commonsense", "knowledge", "maths", "code", "reasoning", "instructions"),
    "long_context",
)
PERCENT: Final = 100.0
REFERENCE_PARAMETERS_B: Final = 10.0
QUANTILES: Final = (0.05, 0.5, 0.95)
SPREAD_Z: Final = np.linspace(-4.0, 4.0, 81)
DENSITY_Z: Final = np.exp(-(SPREAD_Z**2) / 2.0) / np.sum(np.exp(-(SPREAD_Z**2) / 2.0))
# published changes of perplexity carry rounding and differences of code of a tenth of themselves
RELATIVE_NOISE: Final = 0.1
BISECTIONS: Final = 40
MAX_LOG_DAMAGE: Final = 3.0  # of the damage: perplexity has grown e^20 times, and no score is left
EXTRAPOLATED: Final = 1.5  # factor of the spread beyond published formats and methods
MIN_DENSITY: Final = 1e-12


class Evaluations(NamedTuple):
    """Evaluations whose change is predicted, each (N,)."""

    roundings: Sequence[Roundings]  # Roundings of weights, activations and cache
    methods: Sequence[str]  # Quantization methods, of `METHODS`
    tasks: Sequence[str]  # Kinds of tasks, of `TASKS`
    parameters_b: FloatArray  # Parameters [1e9]
    scores: FloatArray  # Score of the unquantized model [points]
    chances: FloatArray  # Score of guessing [points]
    questions: FloatArray  # Questions of the benchmark, 0 for perplexity


@dataclass(frozen=True, kw_only=True)
class AccuracyModel:
    """Parameters of the damage that noise does, fitted to published pairs.

    Damage is exp(level + exponent ln(noise) + method + task + size ln(parameters)); a score loses
    the share 1 - exp(-damage) of what it has above guessing, and the logarithm of perplexity grows
    by the damage.
    """

    level: float  # Logarithm of the damage of noise 1 on perplexity by rounding to nearest
    exponent: float  # Power of the noise
    weights: float  # Weight of the noise of weights, relative to that of activations
    kv: float  # Weight of the noise of the cache, likewise
    size: float  # Change of the logarithm of the damage with that of the parameters
    spread: float  # Standard deviation of the logarithm of the damage
    # variance of a difference over that of two independent evaluations, over the amplitude of noise
    paired: float
    floor: float  # Least standard deviation of a difference [points]
    ratio_floor: float  # Likewise of the logarithm of a ratio of perplexities
    methods: Mapping[str, float]  # Change by method
    tasks: Mapping[str, float]  # Change by kind of task

    def total_noise(self, cases: Evaluations) -> FloatArray:
        """Return the weighted noise over signal of weights, activations and cache (N,)."""
        weights_N, activations_N, kv_N = tensor_noise(cases.roundings, cases.methods).T
        total_N: FloatArray = self.weights * weights_N + activations_N + self.kv * kv_N
        return total_N

    def log_damage(self, cases: Evaluations) -> FloatArray:
        """Return the logarithm of the damage of each question, -inf without noise (N,)."""
        by_method_N = np.array([self.methods[name] for name in cases.methods])
        by_task_N = np.array([self.tasks[name] for name in cases.tasks])
        size_N = self.size * np.log(cases.parameters_b / REFERENCE_PARAMETERS_B)
        with np.errstate(divide="ignore"):
            log_noise_N = np.log(self.total_noise(cases))
        log_N: FloatArray = self.level + self.exponent * log_noise_N + by_method_N + by_task_N
        return log_N + size_N

    def repeated_spread(self, cases: Evaluations) -> FloatArray:
        """Return the standard deviation of a difference between repeated evaluations (N,).

        In points, or of the logarithm of a ratio of perplexities. Answers change where the margin
        of a token is below the noise, and so their share grows as its amplitude.
        """
        share_N = cases.scores / PERCENT
        variance_N = 2.0 * share_N * (1.0 - share_N) / np.maximum(cases.questions, 1.0)
        changed_N = np.minimum(self.paired * np.sqrt(self.total_noise(cases)), 1.0)
        points_N = np.hypot(PERCENT * np.sqrt(changed_N * variance_N), self.floor)
        return np.where(_is_ratio(cases), self.ratio_floor, points_N)

    def outcomes(
        self, cases: Evaluations, widening: FloatArray | float = 1.0
    ) -> tuple[FloatArray, FloatArray]:
        """Return the change at each value of the spread and the noise about it, both (N, Z).

        Args:
            widening: Factor of the spread, above 1 for an extrapolation (N,).
        """
        spread_NZ = self.spread * np.multiply.outer(widening + 0.0 * cases.scores, SPREAD_Z)
        damage_NZ = np.exp(np.minimum(self.log_damage(cases)[:, None] + spread_NZ, MAX_LOG_DAMAGE))
        room_N1 = (cases.scores - cases.chances)[:, None]
        ratio_N1 = _is_ratio(cases)[:, None]
        change_NZ = np.where(ratio_N1, damage_NZ, room_N1 * np.expm1(-damage_NZ))
        relative_NZ = np.where(ratio_N1, RELATIVE_NOISE * damage_NZ, 0.0)
        return change_NZ, np.hypot(self.repeated_spread(cases)[:, None], relative_NZ)

    def quantiles(self, cases: Evaluations, widening: FloatArray | float = 1.0) -> FloatArray:
        """Return the lower end, median and upper end of the 90% interval of each change (N, 3).

        Args:
            widening: As for `outcomes`.

        Returns:
            Points; the logarithm of the ratio for perplexity.
        """
        from scipy.special import ndtr  # late: estimates load no scipy

        change_NZ, noise_NZ = self.outcomes(cases, widening)
        quantiles = []
        for share in QUANTILES:
            low_N = np.full(len(cases.methods), -2.0 * PERCENT)
            high_N = np.full(len(cases.methods), PERCENT)
            for _ in range(BISECTIONS):
                middle_N = (low_N + high_N) / 2.0
                below_N = ndtr((middle_N[:, None] - change_NZ) / noise_NZ) @ DENSITY_Z
                low_N = np.where(below_N < share, middle_N, low_N)
                high_N = np.where(below_N < share, high_N, middle_N)
            quantiles.append((low_N + high_N) / 2.0)
        return np.stack(quantiles, axis=1)

    def log_likelihood(self, cases: Evaluations, changes: FloatArray) -> FloatArray:
        """Return the logarithm of the density of published changes (N,).

        Args:
            changes: As from `quantiles` (N,).
        """
        change_NZ, noise_NZ = self.outcomes(cases)
        deviation_NZ = (changes[:, None] - change_NZ) / noise_NZ
        density_NZ = np.exp(-(deviation_NZ**2) / 2.0) / noise_NZ
        log_N: FloatArray = np.log(density_NZ @ DENSITY_Z + MIN_DENSITY)
        return log_N


def _is_ratio(cases: Evaluations) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.array([name == PERPLEXITY for name in cases.tasks])


@cache
def shipped_model() -> AccuracyModel:
    """Return the model that is fitted to all shipped pairs."""
    table = shipped_table(MODEL)
    return AccuracyModel(**table["parameters"], methods=table["methods"], tasks=table["tasks"])
