"""Scores of predicted power against measured watts."""

from __future__ import annotations

import numpy as np
import pytest

from validation.power import Watts, fit_factors, held_out, power_error, sample_counts
from validation.power.cached_prompts import kept_share, repeated_share
from validation.power.served import scenario_of


def test_a_held_out_group_does_not_determine_its_own_prediction() -> None:
    dynamic, ones = np.tile([50.0, 100.0, 300.0, 500.0], 3), np.ones(12)
    measured = 2.0 * 100.0 + 0.5 * dynamic
    groups = np.repeat([0, 1, 2], 4)
    measured[groups == 2] *= 1.5
    predicted, inside = held_out(
        Watts(measured, dynamic, 0.0 * ones, 100.0 * ones, 1e4 * ones), groups
    )
    ratio = measured / predicted
    assert ratio[groups == 2] == pytest.approx(1.5, rel=0.02)
    assert not inside[groups == 2].any()


def test_factors_are_never_negative_and_never_raise_the_limit() -> None:
    dynamic, ones = np.linspace(10.0, 400.0, 9), np.ones(9)
    falling = Watts(500.0 - dynamic, dynamic, dynamic, 100.0 * ones, 300.0 * ones)
    factors = fit_factors(falling)
    assert min(factors) >= 0.0
    assert factors.limit <= 1.0


def test_active_power_without_useful_work_is_found() -> None:
    active, ones = np.tile([0.0, 100.0, 200.0, 300.0], 5), np.ones(20)
    dynamic = np.repeat([20.0, 80.0, 150.0, 250.0, 400.0], 4)
    measured = 120.0 + dynamic + 1.5 * active
    factors = fit_factors(Watts(measured, dynamic, active, 120.0 * ones, 1e4 * ones))
    assert factors.active == pytest.approx(1.5, rel=0.05)
    assert factors.scale == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize(("samples", "mean"), [(1, 256.275), (3, 466.5026666666667), (7, 1e3 / 7)])
def test_a_mean_of_milliwatts_tells_its_number_of_samples(samples: int, mean: float) -> None:
    assert sample_counts(np.array([mean])).tolist() == [samples]


def test_errors_by_hand() -> None:
    found = power_error(np.array([90.0, 110.0]), np.array([100.0, 100.0]))
    assert found["mape"] == pytest.approx(0.1)
    assert found["bias"] == pytest.approx(np.log(0.99) / 2)


def test_a_quantized_checkpoint_is_its_base_in_a_format() -> None:
    row = {
        "model": "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8",
        "gpu": "H100",
        "task": "gpqa",
        "n_gpus": "8",
        "ep": "8",
        "dp": "1",
        "avg_batch": "7.6",
        "max_num_seqs": "8",
        "avg_output_tokens": "99.5",
    }
    fields = scenario_of(row)
    assert (fields["model"], fields["format"]) == (row["model"][:-4], "fp8_block")
    assert (fields["tp"], fields["ep"], fields["attention_dp"]) == (8, 8, None)
    assert (fields["concurrency"], fields["osl"]) == (8, 100)


def test_repeated_requests_by_hand() -> None:
    run = {"task": "lm-arena-chat", "model": "meta-llama/Llama-3.1-70B-Instruct", "gpu": "H100"}
    row = {**run, "n_gpus": "4", "max_num_seqs": "512"}  # sends 1,024 requests twice
    assert repeated_share(row) == pytest.approx((2048 - 1024) / (2048 - 512))
    assert repeated_share({**row, "max_num_seqs": "1024"}) == 1.0  # the first 1,024 run before
    assert repeated_share({**row, "max_num_seqs": "256"}) == 0.0  # sends them once


def test_a_full_cache_keeps_the_prompts_of_running_requests_alone() -> None:
    kept = [kept_share(512, 570, 350, 1024, free) for free in (0.0, 2e5, 4e5, 1e6)]
    assert kept[0] == pytest.approx(np.exp(-2.0))
    assert kept == sorted(kept)
    assert kept[-1] == 1.0
