"""How far apart ranks reach an all-reduce, fitted to times between tokens of dense models.

Shape legend: N runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.files import shipped_table
from perfatlas.networks import resolve_model
from perfatlas.sampling import expected_slowdown
from validation.laboratories.sources import gap_fields, token_gaps

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray

SHIPPED: Final = "data/collectives/rank_wait.toml"
STEP_S: Final = 0.5e-6
ALL_REDUCES: Final = 2.0  # of a dense layer
Runs = tuple[list[str], "FloatArray", "FloatArray", "FloatArray"]


def waiting_runs() -> Runs:
    """Return models, measured times, times without a wait, and wait per deviation (N,) [s]."""
    models, measured, alone, ranks, counts = [], [], [], [], []
    for source in token_gaps():
        for row, kind, found_s, asked_s in zip(
            source.rows, source.kinds, source.measured_s, source.predicted_s, strict=True
        ):
            if kind == "dense" and int(row["n_gpus"]) > 1:
                models.append(row["model"].removesuffix("-FP8"))
                measured.append(found_s)
                alone.append(asked_s)
                ranks.append(int(row["n_gpus"]))
                network = resolve_model(gap_fields(row)["model"]).network
                counts.append(ALL_REDUCES * network.num_layers)
    one_N = np.ones(len(ranks))
    wait_N = np.array(counts) * expected_slowdown("normal", one_N, np.array(ranks))
    alone_N = np.array(alone) - shipped_table(SHIPPED)["deviation_s"] * wait_N
    return models, np.array(measured), alone_N, wait_N


def mean_error(runs: Runs, deviation_s: float, only: str = "", without: str = "") -> float:
    """Return the mean of |ln(predicted / measured)| of runs, of one model or without one."""
    models, measured_N, alone_N, wait_N = runs
    kept_N = [model == only if only else model != without for model in models]
    log_N = np.log((alone_N + deviation_s * wait_N) / measured_N)[kept_N]
    return float(np.abs(log_N).mean())


def fitted_deviation_s(runs: Runs, without: str = "") -> float:
    """Return the standard deviation with the least mean error [s]."""
    tried = [STEP_S * index for index in range(41)]
    return min(tried, key=lambda deviation_s: mean_error(runs, deviation_s, without=without))
