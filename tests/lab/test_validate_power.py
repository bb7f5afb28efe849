"""Scores of predicted power against measured watts."""

from __future__ import annotations

import numpy as np
import pytest

from perfatlas.lab.power import (
    Watts,
    fit_floor_and_scale,
    held_out,
    power_error,
    power_splits,
    served_power,
)
from perfatlas.lab.power.served import scenario_of
from perfatlas.lab.runs import shared_folder


def test_a_held_out_group_does_not_determine_its_own_prediction() -> None:
    dynamic, ones = np.tile([50.0, 100.0, 300.0, 500.0], 3), np.ones(12)
    measured = 2.0 * 100.0 + 0.5 * dynamic
    groups = np.repeat([0, 1, 2], 4)
    measured[groups == 2] *= 1.5
    predicted, inside = held_out(Watts(measured, dynamic, 100.0 * ones, 1e4 * ones), groups)
    ratio = measured / predicted
    assert ratio[groups == 2] == pytest.approx(1.5, rel=0.02)
    assert not inside[groups == 2].any()


def test_floor_and_scale_are_never_negative() -> None:
    dynamic, ones = np.linspace(10.0, 400.0, 9), np.ones(9)
    falling = Watts(500.0 - dynamic, dynamic, 100.0 * ones, 1e4 * ones)
    floor, scale = fit_floor_and_scale(falling)
    assert floor > 0.0
    assert scale >= 0.0


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


def test_served_models_are_predicted_without_any_of_their_watts() -> None:
    if not (shared_folder() / power_splits().served["file"]).is_file():
        pytest.skip("the file of served models is not at hand")
    served = served_power()
    assert not served.refused
    for gpu, most in (("H100", 0.19), ("B200", 0.165)):
        own = served.text("gpu") == gpu
        assert power_error(served.timed_w()[own], served.measured_w[own])["mape"] < most
