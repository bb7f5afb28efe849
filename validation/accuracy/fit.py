"""Fits of the model of accuracy, and its error tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.optimize import minimize

from perfatlas import quantization

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import FloatArray

SAMPLES: Final = 2**20
POSITIVE: Final = ("weights", "kv", "spread", "paired", "floor", "ratio_floor")
SCALARS: Final = ("level", "exponent", "size", *POSITIVE)
START: Final = {
    "level": 1.0,
    "exponent": 0.8,
    "size": -0.2,
    "weights": 1.0,
    "kv": 1.0,
    "spread": 0.8,
    "paired": 5.0,
    "floor": 0.4,
    "ratio_floor": 0.003,
}
# standard deviations that penalties draw towards the start: chosen before the first fit
PRIORS: Final = {
    "level": 2.0,
    "exponent": 0.3,
    "size": 0.3,
    "weights": 0.7,
    "kv": 0.7,
    "spread": 0.5,
    "paired": 0.5,
    "floor": 0.5,
    "ratio_floor": 0.5,
}
OFFSET_PRIOR: Final = 0.7


def model_of(values: FloatArray) -> quantization.AccuracyModel:
    """Return the model of a vector of parameters.

    Args:
        values: Those of `SCALARS`, of methods and of tasks; positive ones as logarithms.
    """
    scalars = {
        name: float(np.exp(x)) if name in POSITIVE else float(x)
        for name, x in zip(SCALARS, values, strict=False)
    }
    rest = values[len(SCALARS) :].tolist()
    methods = dict(
        zip(quantization.METHODS, [0.0, *rest[: len(quantization.METHODS) - 1]], strict=True)
    )
    tasks = dict(
        zip(quantization.TASKS, [0.0, *rest[len(quantization.METHODS) - 1 :]], strict=True)
    )
    return quantization.AccuracyModel(**scalars, methods=methods, tasks=tasks)


def fitted(pairs: Sequence[quantization.Pair]) -> quantization.AccuracyModel:
    """Return the model of greatest penalised likelihood.

    Pairs of a family count by the square root of their number, so that one family does not decide.
    """
    cases = quantization.evaluations_of(list(pairs))
    changes = np.array([pair.change for pair in pairs])
    families = [pair.family for pair in pairs]
    weights = np.array([families.count(name) ** -0.5 for name in families])
    start = np.array([np.log(START[n]) if n in POSITIVE else START[n] for n in SCALARS])
    offsets = len(quantization.METHODS) + len(quantization.TASKS) - 2
    start = np.concatenate([start, np.zeros(offsets)])
    widths = np.array([*(PRIORS[name] for name in SCALARS), *[OFFSET_PRIOR] * offsets])

    def loss(values: FloatArray) -> float:
        fit = float(weights @ model_of(values).log_likelihood(cases, changes))
        return float(np.sum(((values - start) / widths) ** 2)) / 2.0 - fit

    best = minimize(loss, start, method="L-BFGS-B", options={"maxiter": 60})
    return model_of(best.x)


def error_table() -> dict[str, dict[str, float]]:
    """Return the SQNR of every rounding by distribution, to a thousandth [dB]."""
    values = quantization.shaped_values(SAMPLES)
    return {
        name: {shape: round(quantization.sqnr_db(v, rounding), 3) for shape, v in values.items()}
        for name, rounding in quantization.ROUNDINGS.items()
    }
