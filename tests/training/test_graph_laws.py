"""Laws of training steps of graphs."""

from __future__ import annotations

from typing import Any

import pytest

from perfatlas.verbs.train import train

STEP: dict[str, Any] = {"system": "h100_sxm", "global_batch": 32, "micro_batch": 32}


@pytest.mark.parametrize("model", ["vgg-16", "convnext-base", "bert-large"])
def test_the_bound_is_a_lower_limit(model: str) -> None:
    """It is one of an ideal engine, of the same engine, and of each operator."""
    bound = {
        engine: train(**STEP, model=model, engine=engine, tier="bound")
        for engine in ("ideal", "inductor")
    }
    steps = {engine: answer.results["step_time_s"] for engine, answer in bound.items()}
    for engine, least in steps.items():
        assert least <= train(**STEP, model=model, engine=engine).results["step_time_s"]
    assert steps["ideal"] <= steps["inductor"] * (1.0 + 1e-9)
    for answer in bound.values():
        for row in answer.breakdown:
            if row["bound_time_s"]:
                assert row["time_s"] == pytest.approx(row["bound_time_s"])
