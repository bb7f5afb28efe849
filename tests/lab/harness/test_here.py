"""Predictions of steps from pieces: by hand, by a known law, and against the transformer itself."""

from __future__ import annotations

import importlib.util

import pytest

from perfatlas.lab.harness import transformer
from perfatlas.lab.harness.here import COMPOSED, HELD_OUT, MODELS, OperatorFit, calibration_pieces

WITHOUT_TORCH = importlib.util.find_spec("torch") is None
needs_torch = pytest.mark.skipif(WITHOUT_TORCH, reason="PyTorch is not installed")
TINY = transformer.Sizes(hidden=128, intermediate=192, layers=3, kv_heads=1)


def test_pieces_by_hand() -> None:
    found = transformer.step_pieces(TINY, 2, 5, 5)
    assert found[transformer.Piece("gemm", (10, 256, 128))] == 3  # 2 + 2 x 1 heads of 64
    assert found[transformer.Piece("gemm", (10, 384, 128))] == 3  # both halves of the gate
    assert found[transformer.Piece("gemm", (2, 8192, 128))] == 1  # the head, on the last tokens
    assert found[transformer.Piece("norm", (10, 128))] == 6
    assert found[transformer.Piece("prefill_attention", (2, 5, 5, 2, 1))] == 3
    assert (
        transformer.step_pieces(TINY, 2, 1, 9)[
            transformer.Piece("decode_attention", (2, 1, 9, 2, 1))
        ]
        == 3
    )
    # qkv 256 x 128, output 128 x 128, gate and down 3 x 192 x 128, head 8192 x 128
    layer = 256 * 128 + 128 * 128 + 3 * 192 * 128
    assert TINY.weight_bytes == 4 * (3 * layer + 8192 * 128)


def test_nothing_predicted_is_calibrated() -> None:
    calibrated = set(calibration_pieces())
    assert not calibrated & set(HELD_OUT)
    for sizes in MODELS:
        for step in ((1, 64, 64), (4, 128, 128), (4, 1, 512)):
            assert not calibrated & set(transformer.step_pieces(sizes, *step))
    assert not {one.hidden for one in MODELS} & {one.hidden for one in COMPOSED}


def test_fit_of_a_known_law() -> None:
    def law(m: int, n: int, k: int) -> float:
        return 2e-6 + m * n * k / 50e9 + n * k / 4e9

    shapes = [(m, n, k) for m in (1, 4, 16, 64, 256) for n in (192, 448, 960) for k in (320, 1216)]
    fit = OperatorFit(shapes, [law(*one) for one in shapes])
    for shape in ((2, 512, 512), (100, 700, 400)):
        assert fit.time_s(shape) == pytest.approx(law(*shape), rel=1e-6)
    slower = OperatorFit(shapes, [1.1 * law(*one) for one in shapes])
    assert slower.time_s((8, 512, 512)) == pytest.approx(1.1 * fit.time_s((8, 512, 512)))


@needs_torch
def test_a_decode_step_continues_a_prompt() -> None:
    import torch

    torch.manual_seed(0)
    model = transformer.Transformer(TINY, 2, 12)
    whole = model.step(12)  # fills the caches
    torch.testing.assert_close(model.step(1), whole, rtol=1e-4, atol=1e-4)


@needs_torch
def test_every_piece_has_an_execution() -> None:
    calls = transformer.PieceCalls(4e6)
    shapes = {kind: transformer.Piece(kind, (3, 128)) for kind in transformer.STREAMS}
    shapes["prefill_attention"] = transformer.Piece("prefill_attention", (2, 5, 5, 2, 1))
    for piece in shapes.values():
        (call,) = calls.calls(piece)
        call()
    for piece in (
        transformer.Piece("gemm", (2, 64, 128)),
        transformer.Piece("decode_attention", (2, 1, 9, 2, 1)),
    ):
        several = calls.calls(piece)
        assert len(several) > 10
        several[-1]()
