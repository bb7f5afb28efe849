"""Choices among measured deployments by prediction: ranks, regret, limits that are missed.

Shape legend: N rows.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.stats import spearmanr

from perfatlas.studies import probability_at_most
from validation.runs.predictions import answered, grouped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import FloatArray

    Row = dict[str, Any]

QUESTION: Final = ("network", "system", "precision", "isl", "osl")
GROUPS: Final = {
    "plan, load": (*QUESTION, "backend"),
    "plan": (*QUESTION, "backend", "concurrency"),
    "plan, engine": (*QUESTION, "concurrency"),
}
MIN_DEPLOYMENTS: Final = 3  # deployments of a group
MIN_RANKED: Final = 4  # of a rank correlation
LIMITS: Final = (0.25, 0.5, 0.75)  # quantiles of the measured TPOT of a group
PROBABILITIES: Final = (0.5, 0.8, 0.95)


def ranked_groups(rows: Sequence[Row]) -> list[Row]:
    """Return how well predictions rank the deployments of each group, a row per kind of group.

    Deployments of a group differ in their plan and, by kind, in load or engine. Throughput is
    concurrency x osl / (TTFT + TPOT (osl - 1)) per GPU. The regret is the measured throughput that
    the deployment with the highest predicted one lacks, relative to the highest measured one.

    Args:
        rows: From `predict_runs`.
    """
    return [{"groups_of": name, **_scores(rows, key)} for name, key in GROUPS.items()]


def _scores(rows: Sequence[Row], names: Sequence[str]) -> Row:
    regrets, random, ranks, count = [], [], [], 0
    for members in grouped(answered(rows), lambda r: tuple(r[n] for n in names)).values():
        if len(members) < MIN_DEPLOYMENTS:
            continue
        count += len(members)
        measured_N, predicted_N = _rates(members, "_measured_s"), _rates(members, "_s")
        best = float(measured_N.max())
        regrets.append(1.0 - float(measured_N[predicted_N.argmax()]) / best)
        random.append(1.0 - float(measured_N.mean()) / best)
        if len(members) >= MIN_RANKED and np.ptp(measured_N) > 0.0:
            ranks.append(float(spearmanr(measured_N, predicted_N).statistic))
    return {
        "groups": len(regrets),
        "rows": count,
        "regret_median": float(np.median(regrets)),
        "regret_p90": float(np.quantile(regrets, 0.9)),
        "regret_mean": float(np.mean(regrets)),
        "random_regret_mean": float(np.mean(random)),
        "spearman_median": float(np.median(ranks)),
        "spearman_p10": float(np.quantile(ranks, 0.1)),
    }


def _rates(rows: Sequence[Row], end: str) -> FloatArray:
    """Return output tokens/s per GPU (N,) from measured or predicted latencies."""
    return np.array(
        [
            row["concurrency"]
            * row["osl"]
            / (row[f"ttft{end}"] + row[f"tpot{end}"] * (row["osl"] - 1))
            / (row["tp"] * row["attention_dp"])
            for row in rows
        ]
    )


def limited_choices(rows: Sequence[Row]) -> list[Row]:
    """Return the outcome of choosing the highest predicted throughput under a TPOT limit.

    The limits of a group are quantiles of its measured TPOT. The choice is the highest predicted
    throughput among deployments that meet the limit with a required probability, as in `search`.

    Args:
        rows: From `predict_runs`.

    Returns:
        One row per required probability: choices, their share without an allowed deployment, the
        share whose measured TPOT exceeds the limit, and the regret of the others.
    """
    groups = grouped(answered(rows), lambda r: tuple(r[n] for n in GROUPS["plan, load"]))
    several = [members for members in groups.values() if len(members) >= MIN_DEPLOYMENTS]
    return [{"probability": least, **_choices(several, least)} for least in PROBABILITIES]


def _choices(groups: Sequence[Sequence[Row]], least: float) -> Row:
    outcomes: Counter[str] = Counter()
    regrets = []
    for members in groups:
        tpot_N = np.array([row["tpot_measured_s"] for row in members])
        predicted_N, low_N, high_N = (
            np.array([row[f"tpot_s{end}"] for row in members], np.float64)
            for end in ("", "_low", "_high")
        )
        measured_N, rates_N = _rates(members, "_measured_s"), _rates(members, "_s")
        for limit in np.quantile(tpot_N, LIMITS).tolist():
            outcomes["choices"] += 1
            allowed_N = probability_at_most(predicted_N, low_N, high_N, limit) >= least
            if not np.any(allowed_N):
                outcomes["none"] += 1
                continue
            chosen = int(np.where(allowed_N, rates_N, -np.inf).argmax())
            if tpot_N[chosen] > limit:
                outcomes["missed"] += 1
                continue
            best = float(measured_N[tpot_N <= limit].max())
            regrets.append(1.0 - float(measured_N[chosen]) / best)
    made = outcomes["choices"] - outcomes["none"]
    return {
        "choices": outcomes["choices"],
        "no_choice_share": outcomes["none"] / outcomes["choices"],
        "missed_share": outcomes["missed"] / made,
        "regret_median": float(np.median(regrets)),
        "regret_mean": float(np.mean(regrets)),
    }
