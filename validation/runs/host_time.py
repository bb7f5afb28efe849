"""Share of the error of serving runs explained by constant host times per engine.

The scored predictions do not use this. Two constants per engine, the time per layer of a step and
doubling of synchronising ranks, and the time per layer of a prompt, are fitted to half of the
networks and applied to the other half, and vice versa.

Shape legend: N runs, P constants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.fitting import simplex_search

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.operators import FloatArray

Row = dict[str, Any]
START_S: Final = 20e-6  # per layer
BOUNDS: Final = (
    np.log(1e-9),
    np.log(1e-3),
)  # bounds of the logarithm: none, and more than host time
FEWEST: Final = 20  # fewest runs of a half for a fit
EVALUATIONS: Final = 400


def halves(networks: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return every other network by name, and the rest.

    Example:
        >>> from validation.runs.host_time import halves
        >>> halves(["b", "a", "c", "a"])
        (('a', 'c'), ('b',))
    """
    known = sorted(set(networks))
    return tuple(known[::2]), tuple(known[1::2])


class HalfFit(NamedTuple):
    """Constants of one engine and the networks they were fitted on [s]."""

    engine: str
    networks: tuple[str, ...]
    per_layer_and_doubling_s: float
    per_layer_of_a_prompt_s: float


def cross_fitted(rows: Sequence[Row]) -> tuple[dict[str, float], list[HalfFit]]:
    """Return the TPOT of every run with the constants fitted to the other half, and the constants.

    Args:
        rows: From `predict_runs`; runs of an engine with too few in the other half are excluded.

    Returns:
        Run -> TPOT [s], and the constants of every half.
    """
    found: dict[str, float] = {}
    fits: list[HalfFit] = []
    for engine in sorted({row["backend"] for row in rows}):
        own = [row for row in rows if row["backend"] == engine and row["tpot_s"] is not None]
        first, second = halves([row["network"] for row in own])
        for seen, scored in ((first, second), (second, first)):
            known = [row for row in own if row["network"] in seen]
            asked = [row for row in own if row["network"] in scored]
            if len(known) < FEWEST or not asked:
                continue
            constants_P = fit_constants(known)
            fits.append(HalfFit(engine, seen, *constants_P.tolist()))
            times_N = _predicted(asked, constants_P)
            found |= dict(zip((row["id"] for row in asked), times_N.tolist(), strict=True))
    return found, fits


def fit_constants(rows: Sequence[Row]) -> FloatArray:
    """Return the best time per layer and doubling of ranks, and per layer of a prompt (P,) [s].

    Args:
        rows: From `predict_runs`, without errors.
    """
    measured_N = np.array([row["tpot_measured_s"] for row in rows])

    def loss(logarithm_P: FloatArray) -> float:
        inside = np.clip(logarithm_P, *BOUNDS)
        outside = float(np.abs(logarithm_P - inside).sum())
        times_N = _predicted(rows, np.exp(inside))
        return float(np.mean(np.abs(np.log(times_N / measured_N)))) + outside

    start, high = np.full(2, np.log(START_S)), np.full(2, BOUNDS[1])
    best_P = simplex_search(loss, start, high, step=1.0, evaluations=EVALUATIONS)
    return np.exp(np.clip(best_P, *BOUNDS))


def _predicted(rows: Sequence[Row], constants_P: FloatArray) -> FloatArray:
    """Return TPOT with the constants added (N,) [s]."""
    layers = np.array([row["layers"] for row in rows], np.float64)
    prompts = np.array([(row["on_rank"] - 1) / row["asked_osl"] for row in rows], np.float64)
    ranks = np.array([row["tp"] * row["attention_dp"] for row in rows], np.float64)
    plain = np.array([row["tpot_s"] for row in rows], np.float64)
    each_N = np.log2(ranks) * constants_P[0] + prompts * constants_P[1]
    times_N: FloatArray = plain + layers * each_N
    return times_N


def fit_note(fitted: Mapping[str, float]) -> str:
    """Return the note on the row with fitted host time."""
    return (
        f"{len(fitted)} runs with two constants per engine (time per layer and doubling of ranks,"
        " and time per layer of a prompt) fitted on every other network by name and applied to"
        " the others, and vice versa"
    )
