"""`kernel op conv`: an implicit matrix product with the bytes of images, and refusals."""

from __future__ import annotations

from typing import Any

import pytest

import perfatlas

IMAGE: dict[str, Any] = {"batch": 2, "channels": 8, "height": 16, "width": 12}
ASKED: dict[str, Any] = {"system": "h100_sxm", **IMAGE, "filters": 32, "kernel": 3}


def test_work_by_hand() -> None:
    found = perfatlas.kernel_op("conv", **ASKED).results
    outputs = 2 * 16 * 12  # padding keeps the size
    assert found["flop"] == 2 * outputs * 32 * (8 * 9)
    assert found["cold_bytes"] == 2 * 32 * 72
    assert found["activation_bytes"] == pytest.approx(2 * (2 * 8 * 16 * 12 + outputs * 32))
    assert found["time_s_low"] < found["time_s"] < found["time_s_high"]


def test_strides_padding_and_groups_by_hand() -> None:
    found = perfatlas.kernel_op(
        "conv", **ASKED, kernel_width=5, stride=2, padding=0, groups=4, format="int8"
    ).results
    outputs = 2 * 7 * 4  # (16 - 3) // 2 + 1 by (12 - 5) // 2 + 1
    assert found["flop"] == 2 * outputs * 32 * (2 * 15)
    assert found["activation_bytes"] == pytest.approx(2 * 8 * 16 * 12 + outputs * 32)


def test_a_depthwise_convolution_is_limited_by_memory_bandwidth() -> None:
    found = perfatlas.kernel_op("conv", **{**ASKED, "channels": 32}, groups=32).results
    assert found["flop"] == 2 * (2 * 16 * 12) * 32 * 9  # an input per tap
    assert found["activation_bytes"] == 2 * 2 * (2 * 32 * 16 * 12)


def test_arithmetic_does_not_limit_a_depthwise_convolution() -> None:
    sizes = {"channels": 512, "filters": 512, "batch": 64, "height": 56, "width": 56}
    found = perfatlas.kernel_op("conv", **{**ASKED, **sizes}, groups=512).results
    assert found["flop"] == 2 * 64 * 56 * 56 * 512 * 9
    assert found["bound"] == "memory"


def test_a_borrowed_format_is_no_slower_than_16_bits() -> None:
    image: dict[str, Any] = {
        "batch": 64,
        "channels": 64,
        "height": 56,
        "width": 56,
        "filters": 64,
        "kernel": 3,
    }
    half, eighth = (
        perfatlas.kernel_op("conv", system="h100_sxm", **image, format=name)
        for name in ("bf16", "int8")
    )
    assert eighth.results["time_s"] == pytest.approx(half.results["time_s"])
    assert (
        "parameters of a100_sxm, and no slower than measured ones in 16 bits" in eighth.warnings[1]
    )
    own = perfatlas.kernel_op("conv", system="a100_sxm", **image, format="int8")
    assert not any("no slower" in one for one in own.warnings)
