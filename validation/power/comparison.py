"""Predicted and measured power: kernels, served models, and clocks and locks."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from validation.power import (
    Watts,
    held_out,
    kernel_watts,
    power_error,
    power_splits,
    score_loads,
    served_power,
)
from validation.power.figures import clock_figures
from validation.scoring import scores_beside_constant

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray
    from validation.power import ServedPower

Row = dict[str, Any]


def validate_power(measurements: Path) -> dict[str, Any]:
    """Return the errors of predicted power.

    Args:
        measurements: Folder `measurements` of the repository.

    Returns:
        `kernels`: watts of measured kernels, held out by geometry; `served`: W/GPU of served
        models, with the measured rate given and end to end, with the shipped energies and with
        factors fitted to all other models; `loads`: sustained loads that no energy is fitted to,
        not blind; `ratios`: J/token of B200 over H100 in matched runs; `figures`: named figures
        with their error.

    Raises:
        MissingDependencyError: The measured tables, the shared file or the folder of sustained
            loads are missing.
    """
    served = served_power()
    return {
        "kernels": _kernels(),
        "loads": score_loads(measurements),
        "served": _served(served),
        "ratios": [_ratios(served)],
        "figures": _clocks(),
        "left_out": [{"reason": text, "rows": n} for text, n in served.refused.items()],
    }


def _kernels() -> list[Row]:
    found, rows = kernel_watts(), []
    watts = Watts(found.measured_w, found.dynamic_w, found.active_w, found.on_w, found.cap_w)
    tables, kernels = np.array(found.table), power_splits().kernels
    for name, samples in product(dict.fromkeys(found.table), kernels["samples"]):
        own = (tables == name) & (found.samples >= samples)
        some, goal = watts.take(own), kernels["goal_mape"]
        constant = np.abs(np.median(some.measured) / some.measured - 1.0).mean()
        predicted, inside = held_out(some, found.fold[own])
        rows.append(
            {
                "table": name,
                "samples": samples,
                **_row(predicted, some.measured, goal),
                "shipped_mape": power_error(some.predicted(), some.measured)["mape"],
                "constant_mape": float(constant),
                "inside_90": float(inside.mean()),
            }
        )
    return rows


def _served(served: ServedPower) -> list[Row]:
    splits, rows = power_splits().served, []
    gpus, models = served.text("gpu"), served.text("model")
    rate = served.end_w / served.end_j
    for gpu, goal in splits["goal_mape"].items():
        own = gpus == gpu
        shipped_goal = splits["goal_mape_from_h100"] if gpu == "B200" else None
        end_w = served.dynamic_w / served.rate * rate
        timed_w = served.timed_w()
        ways = {
            "measured rate": (served.dynamic_w, served.active_w),
            "end to end": (end_w, np.zeros_like(end_w)),
        }
        intervals = {
            "measured rate": (
                served.low * timed_w,
                np.minimum(served.high * timed_w, served.cap_w),
            ),
            "end to end": (served.end_low_w, served.end_high_w),
        }
        for way, parts in ways.items():
            low_w, high_w = intervals[way]
            covered = (low_w <= served.measured_w) & (served.measured_w <= high_w)
            watts = Watts(served.measured_w, *parts, served.on_w, served.cap_w).take(own)
            predicted, inside = held_out(watts, models[own])
            about = {"gpu": gpu, "given": way}
            rows.append(
                {
                    **about,
                    "energies": "as shipped",
                    **_row(watts.predicted(), watts.measured, shipped_goal),
                    "inside_90": float(covered[own].mean()),
                    **_scores(watts, (low_w[own], high_w[own]), models[own]),
                }
            )
            rows.append(
                {
                    **about,
                    "energies": "factors of other models",
                    **_row(predicted, watts.measured, goal),
                    "inside_90": float(inside.mean()),
                }
            )
    return rows


def _scores(
    watts: Watts, limits_w: tuple[FloatArray, FloatArray], models: NDArray[Any]
) -> dict[str, float | None]:
    """Return the interval score, and that of a constant width fitted to all other models."""
    predicted_w = watts.predicted()
    low, high = (np.log(end_w / predicted_w) for end_w in limits_w)
    return scores_beside_constant(
        np.log(watts.measured / predicted_w), (low, high), models.tolist()
    )


def _row(predicted: FloatArray, measured: FloatArray, goal: float | None) -> Row:
    found: Row = dict(power_error(predicted, measured))
    met = goal is not None and found["mape"] <= goal
    return found | {"goal_mape": goal, "goal_met": "-" if goal is None else "yes" if met else "no"}


def _ratios(served: ServedPower) -> Row:
    """Return predicted and measured J/token of B200 over H100, end to end."""
    names, splits = power_splits().served["matched"], power_splits().served
    keys = [tuple(row[name] for name in names) for row in served.rows]
    gpus = served.text("gpu")
    old = {key: n for n, key in enumerate(keys) if gpus[n] == "H100"}
    pairs = [(n, old[key]) for n, key in enumerate(keys) if gpus[n] == "B200" and key in old]
    new_N, old_N = np.array(pairs, np.int64).T
    measured = served.measured_j[new_N] / served.measured_j[old_N]
    timed_j = served.timed_w() / served.rate
    timed = timed_j[new_N] / timed_j[old_N]
    end = served.end_j[new_N] / served.end_j[old_N]
    goal = splits["goal_ratio_median"]
    error = float(np.median(np.abs(timed / measured - 1.0)))
    return {
        "runs": len(pairs),
        "measured_median": float(np.median(measured)),
        "timed_median": float(np.median(timed)),
        "end_median": float(np.median(end)),
        "timed_median_error": error,
        "end_median_error": float(np.median(np.abs(end / measured - 1.0))),
        "goal_error": goal,
        "goal_met": "yes" if error <= goal else "no",
    }


def _clocks() -> list[Row]:
    """Return published figures of clocks, locks and racks."""
    return [
        {
            "figure": name,
            "measured": published,
            "predicted": found,
            "error": found / published - 1.0,
        }
        for name, published, found in clock_figures()
    ]
