"""The interval of an engine without a profile: every engine predicted with numbers of the others.

Shape legend: R runs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.training.profiles import resolve_training_engine
from validation.runs.model_spread import unfitted_model_interval
from validation.training.fits import dense_runs, residuals
from validation.training.runs import rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import FloatArray

Row = dict[str, Any]
GEOMETRIC: Final = (
    *("efficiency_compute", "attention_speed_hopper", "attention_speed_hopper_sinks"),
    *("blackwell_speed_fp8", "blackwell_speed_mxfp8", "blackwell_speed_nvfp4"),
)


def lent_numbers(engines: Sequence[str]) -> dict[str, float]:
    """Return the means of the fitted numbers of some engines, by field.

    Args:
        engines: Names of training engines.
    """
    profiles = [resolve_training_engine(name) for name in engines]
    logs = {name: [math.log(getattr(profile, name)) for profile in profiles] for name in GEOMETRIC}
    return {name: math.exp(float(np.mean(logs[name]))) for name in GEOMETRIC}


def unseen_engine() -> Row:
    """Return how far an engine without fitted runs may be from its prediction.

    The rule is `interval.unseen_engine` in `validation/data/training.toml`.

    Returns:
        `rows`: of each engine left out, its fitted dense runs, their mean of ln(measured/predicted)
        and its deviation, with the numbers of the others; `numbers`: the means of all; and
        `error_low`, `error_high`, `error_low_moe` and `error_high_moe`: the ends of
        ln(measured/predicted) of a further engine.

    Limits: Few engines, whose recipes are known; that of a further one may not be.
    """
    rule = rules()["interval"]["unseen_engine"]
    names: list[str] = rule["engines"]
    residual_ER: list[FloatArray] = []
    for name in names:
        others = lent_numbers([other for other in names if other != name])
        residual_ER.append(residuals(dense_runs(name), {**others, "speed_dense": 1.0}))
    engine_R = [name for name, own in zip(names, residual_ER, strict=True) for _ in own]
    covered = rules()["interval"]["covered"]
    low, high = unfitted_model_interval(np.concatenate(residual_ER), engine_R, covered)
    like = resolve_training_engine(rule["like_moe"])
    return {
        "rows": [
            {
                "engine": name,
                "rows": len(own),
                "mean": float(own.mean()),
                "deviation": float(own.std()),
            }
            for name, own in zip(names, residual_ER, strict=True)
        ],
        "numbers": lent_numbers(names),
        "error_low": low,
        "error_high": high,
        "error_low_moe": -math.hypot(low, like.error_low_moe),
        "error_high_moe": math.hypot(high, like.error_high_moe),
    }
