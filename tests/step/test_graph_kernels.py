"""Kernels of eager PyTorch: limited by SMs, padded heads, images that are converted."""

from __future__ import annotations

from pathlib import Path

import pytest

import perfatlas

ALONE = 0.87  # time of a kernel alone over that in a pass, on Hopper
HEAD = 'name = "net"\nitem = "image"\nparameters = 1\n'


def _times(folder: Path, nodes: str, engine: str = "pytorch@2.13") -> dict[str, float]:
    path = folder / "net.toml"
    path.write_text(f"{HEAD}operators = [{nodes}]\n", encoding="utf-8")
    answer = perfatlas.estimate(model=str(path), system="h100_sxm", engine=engine, batch=1)
    return {row["name"]: ALONE * row["time_s"] for row in answer.breakdown}


def test_a_norm_takes_the_cycles_of_its_bytes(tmp_path: Path) -> None:
    """2^28 elements are 1.07 GB read and written: at 7.8 bytes per clock of 132 SMs at 1.98 GHz."""
    times = _times(tmp_path, '{ kind = "norm", read = 268435456 }')
    assert times["norm_1"] == pytest.approx(2 * 2 * 2**28 / (7.8 * 132 * 1.98e9), rel=1e-3)
    assert _times(tmp_path, '{ kind = "add", read = 268435456 }')["add_1"] < times["norm_1"]


@pytest.mark.parametrize(
    ("kind", "row", "cycles"),
    [
        ("norm", 128, 235 + 512 / 11.3),
        ("norm", 8192, 235 + 32768 / 7.8),
        ("softmax", 256, 10 + 1024 / 9.2),
        ("softmax", 2048, 10 + 8192 / 4.3),
        ("group_norm", 8192, 8192 * 6 / 4.2),
    ],
)
def test_rows_take_clocks_of_their_own(tmp_path: Path, kind: str, row: int, cycles: float) -> None:
    """2^19 rows on 132 SMs; of `row` elements, read and written in 16 bits."""
    node = f'{{ kind = "{kind}", read = {row * 2**19}, row = {row} }}'
    time_s = _times(tmp_path, node)[f"{kind}_1"]
    assert time_s == pytest.approx(2**19 * cycles / (132 * 1.98e9), rel=1e-3)


def test_the_group_norm_of_one_image_waits_for_its_blocks(tmp_path: Path) -> None:
    """32 blocks of 2^18 elements: 1.05 MB each at 2.2 bytes per clock, for 132 SMs."""
    node = '{ kind = "group_norm", read = "2 ** 23", row = 262144 }'
    assert _times(tmp_path, node)["group_norm_1"] > 2**20 / 2.2 / 1.98e9


def test_operands_that_are_repeated_are_read_slowly(tmp_path: Path) -> None:
    strided, plain = (
        _times(tmp_path, f'{{ kind = "{kind}", read = 268435456 }}')[f"{kind}_1"]
        for kind in ("strided", "elementwise")
    )
    assert strided == pytest.approx(2 * 2 * 2**28 / (5.5 * 132 * 1.98e9), rel=1e-3)
    assert plain < strided


def test_depthwise_convolutions_move_an_input_per_tap(tmp_path: Path) -> None:
    node = '{{ kind = "depthwise_conv", read = 67108864, taps = {} }}'
    small, large = (_times(tmp_path, node.format(taps))["depthwise_conv_1"] for taps in (25, 49))
    assert large == pytest.approx(small * 49 / 25, rel=1e-6)
    assert large == pytest.approx(49 * 2 * 2**26 / (10.6 * 132 * 1.98e9), rel=1e-3)


def test_heads_are_padded_to_those_of_a_kernel(tmp_path: Path) -> None:
    node = '{ kind = "attention", q_len = 4096, kv_len = 4096, num_heads = 16, head_dim = 72 }'
    cudnn, flash = (
        _times(tmp_path, node, engine)["attention_1"] for engine in ("pytorch@2.13", "pytorch@2.8")
    )
    assert cudnn / flash == pytest.approx(0.55 * 128 / 96)


@pytest.mark.parametrize(("read", "converted"), [(1605632, True), (14450688, False)])
def test_images_in_nchw_are_converted_around_kernels_above_one(
    tmp_path: Path, read: int, *, converted: bool
) -> None:
    node = f'{{ kind = "conv", m = 25088, n = 64, k = 576, read = {read} }}'
    assert ("layout_conv_1" in _times(tmp_path, node)) == converted
    assert "layout_conv_1" not in _times(tmp_path, node, "pytorch_channels_last@2.13")
