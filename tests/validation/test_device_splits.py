"""Devices priced as if they had no tables: splits, hidden devices, intervals of new kinds."""

from __future__ import annotations

import math

import pytest

from perfatlas.hardware import resolve_system
from perfatlas.measurements import calibrations
from validation.kernels.devices import device_splits, ratio_rows

BLACKWELL = ("b200_sxm", "gb200", "b300_sxm", "gb300", "rtx_pro_6000_server")


def test_no_split_lends_a_scored_device() -> None:
    for split in device_splits():
        for device in split.scored:
            assert device in split.hidden(device)
            assert not set(split.known) & set(split.scored)


def test_hidden_devices_lend_nothing_and_come_back() -> None:
    device = resolve_system("b200_sxm").device
    own = calibrations.find_calibration(device, "gemm", "vllm", "bf16")
    with calibrations.without_devices(BLACKWELL):
        lent = calibrations.find_calibration(device, "gemm", "vllm", "bf16")
        assert (
            calibrations.find_calibration(device, "gemm", "vllm", "nvfp4") is None
        )  # nobody else has it
    assert own is not None
    assert lent is not None
    assert own.own
    assert not lent.own
    assert lent.calibration.device in ("a100_sxm", "h100_sxm", "h200_sxm", "l40s")
    assert calibrations.find_calibration(device, "gemm", "vllm", "bf16") == own


def silicon(name: str, architecture: str, kind: str = "large tiles") -> calibrations.Silicon:
    return calibrations.Silicon(name, "v", architecture, kind)


def flat(value: float) -> calibrations.Pair:
    return calibrations.Pair(abs(value), (value,) * 5)


def test_distances_that_nobody_has_seen_add_a_variance_per_step() -> None:
    # a and b of one architecture differ by 0.03, c is 0.4 from both
    known = {name: silicon(name, "old" if name in "ab" else "new") for name in "abc"}
    pairs = {(one, two): flat(0.03) for one, two in ("ab", "ba")}
    pairs |= {(one, two): flat(0.4) for one, two in ("ac", "ca", "bc", "cb")}
    found = calibrations.errors_apart([calibrations.Transfers(tuple("abc"), pairs)], known)
    assert found[0] == pytest.approx(0.03)
    assert found[1] == pytest.approx(0.4)
    assert found[2] == pytest.approx(math.sqrt(2.0) * 0.4)


def test_an_unseen_kind_is_wider_by_the_error_at_its_distance() -> None:
    known = [silicon("a", "old"), silicon("b", "old")]
    pairs = {("a", "b"): flat(0.03), ("b", "a"): flat(0.03)}
    target = silicon("card", "graphics", "small tiles")
    near = calibrations.expected_quantiles(target, known, pairs)
    apart = calibrations.expected_quantiles(target, known, pairs, {0: 0.03, 1: 0.3, 2: 0.42})
    # one architecture is one draw: t = 6.314; many cells: t = 1.812
    assert apart["q95"] == pytest.approx(math.hypot(6.314 * 0.03, 1.812 * 0.42), abs=1e-4)
    assert near["q95"] == pytest.approx(2.92 * 0.03, abs=1e-4)
    same = silicon("twin", "old")
    assert calibrations.expected_quantiles(
        same, known, pairs, {0: 0.03, 1: 0.3}
    ) == calibrations.expected_quantiles(same, known, pairs)


def test_ratios_pair_runs_of_one_plan() -> None:
    plan = dict.fromkeys(
        ("network", "precision", "tp", "attention_dp", "ep", "concurrency", "isl", "osl"), 1
    )
    base = {**plan, "backend": "vllm"}
    rows = [
        {**base, "system": "h100_sxm", "tpot_s": 2.0, "tpot_measured_s": 2.0},
        {**base, "system": "h200_sxm", "tpot_s": 1.8, "tpot_measured_s": 1.7},
        {**base, "tp": 2, "system": "h200_sxm", "tpot_s": 9.0, "tpot_measured_s": 1.0},
    ]
    found = ratio_rows(rows)
    assert [row["pairs"] for row in found] == [1, 1]
    assert found[0]["points"] == pytest.approx(0.05)  # 0.90 against 0.85
