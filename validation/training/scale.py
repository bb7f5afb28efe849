"""How much more steps grow with the number of GPUs than is predicted."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import perfatlas
from validation.scoring import read_data
from validation.training.fits import fitted_runs, residuals, scaled_runs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from validation.training.runs import PublishedRun

Row = dict[str, Any]
# Engines with fitted runs that differ in scale alone.
SCALED_ENGINES: Final = ("fsdp", "torchtitan")


def scale_growth() -> Row:
    """Return by how much steps grow per octave of GPUs beyond their prediction.

    Returns:
        `rows`: jobs at several scales with ln(measured/predicted) at the most over that at the
        fewest GPUs, per octave; `error_per_octave`: their quantile `covered` of
        `validation/data/scale_runs.toml`.

    Limits: Few jobs, of 8 to 2,304 GPUs; larger ones follow the same line by assumption.
    """
    table = read_data("scale_runs.toml")
    rows = [_of_job(job) for job in table["job"]]
    for name in SCALED_ENGINES:
        rows += [_of_group(group) for group in scaled_runs(fitted_runs(name))]
    growth = float(np.quantile([row["per_octave"] for row in rows], table["covered"]))
    return {"rows": rows, "error_per_octave": round(max(growth, 0.0), 3)}


def _of_job(job: Mapping[str, Any]) -> Row:
    few, most = job["gpus"]
    steps_s = [
        perfatlas.train(
            **job["fields"], gpus=gpus, global_batch=int(gpus * job["sequences_per_gpu"])
        ).results["step_time_s"]
        for gpus in (few, most)
    ]
    grown = math.log(job["rate"][0] / job["rate"][1]) - math.log(steps_s[1] / steps_s[0])
    return {"job": job["title"], "gpus": most, "per_octave": grown / math.log2(most / few)}


def _of_group(group: Sequence[PublishedRun]) -> Row:
    gpus_R = np.array([int(run.run["n_gpus"]) for run in group])
    residual_R = residuals(group, {})
    few, most = int(gpus_R.min()), int(gpus_R.max())
    grown = float(residual_R[gpus_R == most].mean() - residual_R[gpus_R == few].mean())
    job = f"{group[0].run['model']} on {group[0].run['gpu']}"
    return {"job": job, "gpus": most, "per_octave": grown / math.log2(most / few)}
