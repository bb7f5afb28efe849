"""`kernel conv`: an implicit matrix product with the bytes of images, and refusals."""

from __future__ import annotations

from typing import Any

import pytest

import perfatlas
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.verbs.kernel import kernel_columns

IMAGE: dict[str, Any] = {"batch": 2, "channels": 8, "height": 16, "width": 12}
ASKED: dict[str, Any] = {"system": "h100_sxm", **IMAGE, "filters": 32, "kernel": 3}


def test_work_by_hand() -> None:
    found = perfatlas.kernel_conv(**ASKED).results
    outputs = 2 * 16 * 12  # padding keeps the size
    assert found["flop"] == 2 * outputs * 32 * (8 * 9)
    assert found["cold_bytes"] == 2 * 32 * 72
    assert found["activation_bytes"] == pytest.approx(2 * (2 * 8 * 16 * 12 + outputs * 32))
    assert found["time_s_low"] < found["time_s"] < found["time_s_high"]


def test_strides_padding_and_groups_by_hand() -> None:
    found = perfatlas.kernel_conv(
        **ASKED, kernel_width=5, stride=2, padding=0, groups=4, format="int8"
    ).results
    outputs = 2 * 7 * 4  # (16 - 3) // 2 + 1 by (12 - 5) // 2 + 1
    assert found["flop"] == 2 * outputs * 32 * (2 * 15)
    assert found["activation_bytes"] == pytest.approx(2 * 8 * 16 * 12 + outputs * 32)


def test_a_depthwise_convolution_is_limited_by_memory_bandwidth() -> None:
    found = perfatlas.kernel_conv(**{**ASKED, "channels": 32}, groups=32).results
    assert found["flop"] == 2 * (2 * 16 * 12) * 32 * 9  # an input per tap
    assert found["activation_bytes"] == 2 * 2 * (2 * 32 * 16 * 12)


def test_arithmetic_does_not_limit_a_depthwise_convolution() -> None:
    sizes = {"channels": 512, "filters": 512, "batch": 64, "height": 56, "width": 56}
    found = perfatlas.kernel_conv(**{**ASKED, **sizes}, groups=512).results
    assert found["flop"] == 2 * 64 * 56 * 56 * 512 * 9
    assert found["bound"] == "memory"


def test_the_error_of_convolutions_is_not_that_of_matrix_products() -> None:
    (warning,) = perfatlas.kernel_conv(**ASKED).warnings
    assert warning == (
        "convolutions are priced as implicit GEMM with the parameters of matrix products; published"
        " convolutions: median 18 to 36% (python -m validation networks)"
    )
    depthwise = perfatlas.kernel_conv(**{**ASKED, "channels": 32}, groups=32)
    assert depthwise.warnings == perfatlas.kernel_conv(**ASKED, tier="bound").warnings == ()


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
        perfatlas.kernel_conv(system="h100_sxm", **image, format=name) for name in ("bf16", "int8")
    )
    assert eighth.results["time_s"] == pytest.approx(half.results["time_s"])
    assert (
        "parameters of a100_sxm, and no slower than measured ones in 16 bits" in eighth.warnings[1]
    )
    own = perfatlas.kernel_conv(system="a100_sxm", **image, format="int8")
    assert not any("no slower" in one for one in own.warnings)


@pytest.mark.parametrize("groups", [1, 32])
def test_no_table_of_products_stands_for_convolutions(groups: int) -> None:
    asked = {**ASKED, "channels": 32, "groups": groups, "tier": "measured"}
    with pytest.raises(UnsupportedError, match="no measured tables of convolutions"):
        perfatlas.kernel_conv(**asked)


def test_a_table_equals_single_answers() -> None:
    rows = [ASKED, {**ASKED, "height": 64, "stride": 2}, {**ASKED, "channels": 32, "groups": 32}]
    names = dict.fromkeys(name for row in rows for name in row)
    table = {name: [row.get(name) for row in rows] for name in names}
    found = kernel_columns("conv", table)
    for place, row in enumerate(rows):
        assert not found["error"][place]
        single = perfatlas.kernel_conv(**row).results
        assert found["time_s"][place] == pytest.approx(single["time_s"], rel=1e-12)
        assert found["activation_bytes"][place] == single["activation_bytes"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": 3}, "groups = 3 must divide channels = 8"),
        ({"kernel": 99, "padding": 0}, "a kernel of 99 exceeds height = 16 with padding = 0"),
        ({"kernel": 0}, "kernel = 0"),
        ({"batch": 10**12}, "batch = "),
    ],
)
def test_what_no_convolution_is_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSpecError, match=message):
        perfatlas.kernel_conv(**ASKED | change)
