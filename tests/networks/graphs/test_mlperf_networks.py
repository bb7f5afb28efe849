"""RNN-T and R-GAT of MLPerf: parameters and work by the sizes that their references state."""

from __future__ import annotations

import pytest

import perfatlas
from perfatlas.networks import resolve_model
from perfatlas.quantities import InvalidSpecError, UnsupportedError

HIDDEN, FEATURES, SMALL, LETTERS = 1024, 240, 320, 29
WIDTH, RELATIONS, CLASSES = 512, 11, 2983


def _flop(model: str) -> float:
    (facts,) = resolve_model(model).network.describe_layers()
    return float(str(facts["flop_per_item"]))


def _lstm(inputs: int, hidden: int) -> int:
    return 4 * hidden * (inputs + hidden + 2)  # two biases, as in torch.nn.LSTM


def test_parameters_of_rnn_t() -> None:
    """Two and three layers of the encoder, two of the prediction network, and the joint network."""
    encoder = _lstm(FEATURES, HIDDEN) + _lstm(2 * HIDDEN, HIDDEN) + 3 * _lstm(HIDDEN, HIDDEN)
    prediction = (LETTERS - 1) * SMALL + 2 * _lstm(SMALL, SMALL)
    joint = (HIDDEN + SMALL + 1) * 512 + (512 + 1) * LETTERS
    assert resolve_model("rnn-t").network.parameters().total == encoder + prediction + joint


def test_work_of_rnn_t() -> None:
    """100 frames are 50 pairs; the decoder runs for each pair and each of 20 symbols."""
    early = 4 * HIDDEN * (FEATURES + 3 * HIDDEN)
    late = 4 * HIDDEN * (2 * HIDDEN + 5 * HIDDEN)
    decoder = 4 * 4 * SMALL * SMALL + (HIDDEN + SMALL) * 512 + 512 * LETTERS
    by_hand = 2 * (100 * early + 50 * late + 70 * decoder)
    assert _flop("rnn-t{frames=100,symbols=20}") == pytest.approx(by_hand, rel=1e-12)
    with pytest.raises(InvalidSpecError, match="multiples of 2"):
        resolve_model("rnn-t{frames=101}")


def test_frames_follow_one_another() -> None:
    """Twice the frames take about twice as long at batch 1, where each waits for the one before."""
    short, long = (
        perfatlas.estimate(
            model=f"rnn-t{{frames={frames},symbols=50}}", system="h100_sxm", batch=1
        ).results["latency_s"]
        for frames in (200, 400)
    )
    assert 1.6 * short < long < 2.0 * short


def test_training_rnn_t_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="all pairs of frames and symbols"):
        perfatlas.train(model="rnn-t", system="h100_sxm", gpus=8, global_batch=64, micro_batch=8)


def test_parameters_of_r_gat() -> None:
    """A projection, attention to both ends of an edge and a bias for each relation and layer."""
    layers = sum(inputs * WIDTH + 3 * WIDTH for inputs in (1024, WIDTH, WIDTH))
    by_hand = RELATIONS * layers + (WIDTH + 1) * CLASSES
    assert resolve_model("r-gat").network.parameters().total == by_hand


def test_work_of_r_gat() -> None:
    """One neighbour per relation and hop: nodes of each layer counted by hand.

    Hop 1: 1 paper and 6.74 others. Hop 2: 7.74 papers, and 6.74 others of the new paper. Hop 3:
    7.74 + 6.74 papers. A paper is projected for 5 relations in and out, others for 1.4.
    """
    other = 6.74
    papers = (2.0, 2.0 + 1.0 + other, 2.0 + 2 * (1.0 + other) + other)
    others = (other, 2.0 * other, 2.0 * other + (1.0 + other) * other)
    targets = (5.0, *(5.0 * p + 1.4 * o for p, o in zip(papers[:2], others[:2], strict=True)))
    rows = [5.0 * p + 1.4 * o + t for p, o, t in zip(papers, others, targets, strict=True)]
    by_hand = 2 * WIDTH * (rows[2] * 1024 + (rows[1] + rows[0]) * WIDTH + CLASSES)
    assert _flop("r-gat{fan_out_1=1,fan_out_2=1,fan_out_3=1}") == pytest.approx(by_hand, rel=1e-12)


def test_smaller_fan_outs_are_faster() -> None:
    full, small = (
        perfatlas.estimate(model=model, system="h100_sxm", batch=512).results["throughput_per_s"]
        for model in ("r-gat", "r-gat{fan_out_3=2}")
    )
    assert small > 1.3 * full
