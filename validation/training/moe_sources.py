"""The interval of MoE training steps: runs of sources that no number is fitted to.

Shape legend: R runs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import perfatlas
from validation.runs.model_spread import unfitted_model_interval
from validation.scoring import read_data
from validation.training.runs import rules

if TYPE_CHECKING:
    from collections.abc import Mapping

Row = dict[str, Any]


def moe_sources() -> Row:
    """Return how far MoE steps of a further source may be from their prediction.

    Sources take the place of models in the rule `interval` of `validation/data/training.toml`.

    Returns:
        `rows`: runs of `validation/data/moe_training.toml` with predicted time and
        ln(measured/predicted); `error_low_moe` and `error_high_moe`: the ends of a further source.

    Limits: Few sources, all of Megatron-Core, whose settings are known as far as they state them.
    """
    rows = [
        _compared(source, run)
        for source in read_data("moe_training.toml")["source"]
        for run in source["rows"]
    ]
    residual_R = np.array([row["residual"] for row in rows])
    named = [row["source"] for row in rows]
    low, high = unfitted_model_interval(residual_R, named, rules()["interval"]["covered"])
    return {"rows": rows, "error_low_moe": round(low, 3), "error_high_moe": round(high, 3)}


def _compared(source: Mapping[str, Any], run: Mapping[str, Any]) -> Row:
    fields = {"expert_distribution": "balanced", **source["fields"], **run["fields"]}
    predicted_s = float(perfatlas.train(**fields).results["step_time_s"])
    return {
        "source": source["title"],
        "measured_s": run["step_s"],
        "predicted_s": predicted_s,
        "residual": math.log(run["step_s"] / predicted_s),
    }
