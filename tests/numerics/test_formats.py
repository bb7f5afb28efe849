from __future__ import annotations

import pytest

from perfatlas.formats import formats, get_format


@pytest.mark.parametrize(
    ("name", "weight_bytes"),
    [
        ("bf16", 2.0),
        ("nvfp4", 0.5625),  # 4 bits + 8-bit scale per 16 = 4.5 bits
        ("mxfp4", 0.53125),  # 4 bits + 8-bit scale per 32 = 4.25 bits
        ("mxfp8", 1.03125),  # 8.25 bits
        ("fp8_block", 1 + 4 / 16384),  # fp32 scale per 128 x 128
        ("int4_wo", 0.515625),  # 4 bits + 16 per 128
    ],
)
def test_bytes_of_a_weight_include_its_scales(name: str, weight_bytes: float) -> None:
    assert get_format(name).weight_bytes == weight_bytes


def test_every_format_names_its_source() -> None:
    assert all(f.source for f in formats().values())


def test_weight_only_formats_multiply_in_16_bit() -> None:
    for name in ("int4_wo", "int8_wo", "mxfp4"):
        assert get_format(name).tensor_peak == "bf16"
        assert get_format(name).activation_bytes == 2.0
