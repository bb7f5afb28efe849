"""Published training runs as questions, and the page of their scores."""

from __future__ import annotations

import numpy as np
import pytest

from perfatlas.training.profiles import highest_mfu, resolve_training_engine
from perfatlas.training.step import training_steps
from validation.training import moe_sources, scale_growth
from validation.training.fits import fit_training_engine, predicted_steps
from validation.training.peers import calculon_rows
from validation.training.runs import published_runs, rules
from validation.training.scores import error_of

# Highest MFU of runs that their sources do not describe in full.
ELSEWHERE = {("h100_sxm", "dense", "bf16"): 0.532, ("h100_sxm", "moe", "bf16"): 0.493}


@pytest.mark.study
def test_the_highest_mfu_are_those_of_the_runs() -> None:
    found: dict[tuple[str, str, str], float] = {}
    for run in published_runs():
        if (asked := run.question) is None or asked.recipe.lora_rank:
            continue
        steps = training_steps(asked)
        peak = asked.layouts.gpus[0] * steps.peak_flop_per_s_C[0]
        mfu = steps.model_flop_C[0] / (float(run.run["step_time_s_derived"]) * peak)
        kind = "moe" if asked.network.has_experts else "dense"
        key = asked.systems[0].device.name, kind, asked.formats.gemm
        found[key] = max(found.get(key, 0.0), float(mfu))
    assert found.keys() == highest_mfu().keys()
    for key, mfu in found.items():
        assert highest_mfu()[key].mfu == pytest.approx(ELSEWHERE.get(key, mfu), abs=1e-3)
        assert highest_mfu()[key].mfu >= mfu - 1e-3


def test_errors_are_of_step_times() -> None:
    rows = [
        {"error": 0.1, "inside": True, "width": 1.4},
        {"error": -0.2, "inside": False, "width": 1.2},
    ]
    found = error_of(rows)
    assert found["mape"] == pytest.approx(0.15)
    assert found["inside_90"] == 0.5
    assert found["width"] == pytest.approx(1.3)
    assert found["bias"] == pytest.approx(-0.0639, abs=1e-4)  # (ln 1.1 + ln 0.8) / 2


def test_a_fit_without_a_generation_has_no_run_of_it() -> None:
    hopper = rules()["split"]["generation"]["hopper"]
    fit = fit_training_engine("torchtitan", without=hopper)
    assert fit["rows"] == 0
    assert fit["release"] == {}


def test_runs_answered_together_are_predicted_as_alone() -> None:
    runs = [run for run in published_runs() if run.run["model"] == "llama3-8b"][:12]
    together = predicted_steps(runs, {})
    alone = [predicted_steps([run], {})[:, 0] for run in runs]
    np.testing.assert_allclose(together.T, alone)


def test_calculon_is_compared_on_the_rows_that_it_predicts() -> None:
    rows = calculon_rows(published_runs())
    assert len(rows) == len(rules()["calculon"]["step_s"]) == 8
    mean = sum(abs(row["calculon_error"]) for row in rows) / len(rows)
    assert mean == pytest.approx(0.0365, abs=5e-4)  # what its own validation prints


def test_intervals_of_moe_models_are_those_of_a_further_source() -> None:
    found = moe_sources()
    assert len({row["source"] for row in found["rows"]}) == 6
    for name in ("megatron", "torchtitan", "fsdp", "automodel", "hai_llm"):
        engine = resolve_training_engine(name)
        assert engine.error_low_moe == pytest.approx(found["error_low_moe"], abs=0.01)
        assert engine.error_high_moe == pytest.approx(found["error_high_moe"], abs=0.01)
    inside = [
        found["error_low_moe"] <= row["residual"] <= found["error_high_moe"]
        for row in found["rows"]
    ]
    assert np.mean(inside) >= 0.9


def test_the_slow_end_of_large_jobs_grows_as_measured_jobs_do() -> None:
    found = scale_growth()
    assert max(row["gpus"] for row in found["rows"]) == 2304
    assert resolve_training_engine("megatron").error_per_octave == found["error_per_octave"]
