"""Shape legend: U unique shapes, M matches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.machines.gpu.kernels.moe import MoeShape
from perfatlas.machines.gpu.shapes import octaves_outside, shape_limits, widening_per_octave
from perfatlas.verbs.kernel import kernel_gemm

FIRST = np.zeros(1, np.int64)


def moe(tokens: float, moe_tp: float = 1.0) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    values = {
        **dict.fromkeys(MoeShape._fields, 1.0),
        "tokens": tokens,
        "hidden": 2880.0,
        "intermediate": 2880.0,
        "experts": 128.0,
        "top_k": 4.0,
        "moe_tp": moe_tp,
        "skew": -1.0,
        "loop_cycles": 0.0,
    }
    return np.array([[values[name] for name in MoeShape._fields]])


def test_limits_are_the_minimum_and_maximum_of_every_dimension() -> None:
    least, most = shape_limits("moe", np.concatenate([moe(1.0), moe(64.0, moe_tp=2.0)]))
    assert (least["tokens"], most["tokens"]) == (1.0, 64.0)
    assert (least["intermediate_per_moe_tp"], most["intermediate_per_moe_tp"]) == (1440.0, 2880.0)
    assert "skew" not in least  # a kind of load, not a size
    assert shape_limits("all_reduce", np.ones((2, 2))) == ({}, {})


@given(tokens=st.floats(1.0, 1e6), moe_tp=st.sampled_from([1.0, 2.0, 4.0, 8.0]))
def test_the_farthest_dimension_counts(tokens: float, moe_tp: float) -> None:
    limits = shape_limits("moe", np.concatenate([moe(4.0), moe(4096.0)]))
    outside = float(octaves_outside("moe", moe(tokens, moe_tp), FIRST, [limits])[0])
    beyond = max(np.log2(4.0 / tokens), np.log2(tokens / 4096.0), np.log2(moe_tp), 0.0)
    assert outside == pytest.approx(beyond, abs=1e-5)


def test_a_calibration_without_limits_has_no_outside() -> None:
    assert octaves_outside("moe", moe(1e6), FIRST, [({}, {})])[0] == 0.0


def test_every_operator_that_was_tried_widens() -> None:
    assert all(0.0 <= value < 1.0 for value in widening_per_octave().values())
    assert widening_per_octave()["moe"] > 0.0


def test_an_interval_widens_outside_with_a_note() -> None:
    shape = {"n": 8192, "k": 8192, "system": "h200_sxm", "kernel_family": "trtllm"}
    near, far = (kernel_gemm(**shape, m=m) for m in (32768, 1048576))
    near_width, far_width = (
        answer.results["tabulated_high_s"] / answer.results["time_s"] for answer in (near, far)
    )
    assert far_width == pytest.approx(near_width * np.exp(5 * widening_per_octave()["gemm"]))
    assert any("5.0 octaves outside" in said for said in far.evidence.assumptions)
    assert not any("octaves outside" in said for said in near.evidence.assumptions)
