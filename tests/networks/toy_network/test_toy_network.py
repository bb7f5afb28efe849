"""A network from outside: its reader, and its answers against values worked by hand.

Elements of an image after each operator: 3 x 32 x 32 = 3,072 before the first layer, then
16 x 32 x 32 = 16,384, and 32 x 16 x 16 = 8,192 from the third group of layers on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perfatlas
from perfatlas.networks import ModelFormats, Network, StepTokens, register_reader, resolve_model
from perfatlas.operators import Phase
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from tests.networks.toy_network.reader import READER

TOY = str(Path(__file__).with_name("toy.toynet"))
# 3 x 3 x 3 x 16, 8 of 16 x 3 x 3 x 16, 16 x 3 x 3 x 32, 8 of 32 x 3 x 3 x 32, and the head
PARAMETERS = 432 + 8 * 2_304 + 4_608 + 8 * 9_216 + 320
# 2 FLOP per weight and output pixel: 1,024 pixels in the first two groups, 256 in the others
FLOP = 2 * (1_024 * (432 + 8 * 2_304) + 256 * (4_608 + 8 * 9_216) + 320)
# what gradients read of an image: the inputs of products and of activations
KEPT = (3_072 + 16_384) + 4 * 4 * 16_384 + (16_384 + 8_192) + 4 * 4 * 8_192 + 32
PEAK_FLOP_PER_S = 989.4e12
BF16 = ModelFormats(gemm="bf16", moe="bf16", kv="bf16", attention="bf16")


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfatlas.networks.readers._REGISTERED", {})
    register_reader(READER)


def _toy() -> Network:
    return resolve_model(TOY).network


def _flop(images: float) -> float:
    one = np.array([images])
    tokens = StepTokens(batch=one, q_len=np.ones(1), kv_len=np.ones(1))
    step = _toy().step_operators(BF16, Phase.PREFILL, tokens)
    return sum(float((operator.count * operator.work().flop)[0]) for operator in step)


def test_dimensions_by_hand() -> None:
    toy = _toy()
    assert toy.num_layers == 10
    assert toy.parameters().total == PARAMETERS == 97_520
    assert _flop(1.0) == FLOP == 78_742_144
    assert toy.cache_layouts(2.0) == ()


@pytest.mark.parametrize("images", [2.0, 64.0, 1_000.0])
def test_flop_are_proportional_to_images(images: float) -> None:
    assert _flop(images) == images * FLOP


def test_an_estimate_is_one_pass() -> None:
    answer = perfatlas.estimate(model=TOY, system="h100_sxm", isl=1, osl=1, concurrency=256)
    found, memory = answer.results, answer.results["memory"]
    assert memory["weights_bytes"] == 2.0 * PARAMETERS
    assert memory["kv_bytes"] == 0.0
    assert memory["kv_capacity_tokens"] is None
    # an addition reads two tensors and writes one, for 8,192 images of a full step
    assert memory["activation_bytes"] == 2.0 * 8_192 * 3 * 16_384
    assert found["prefill_mfu"] * found["ttft_s"] * PEAK_FLOP_PER_S == pytest.approx(256 * FLOP)
    assert found["tpot_s"] is None
    assert found["decode_mfu"] is None
    assert {row["phase"] for row in answer.breakdown} == {"prefill"}


def test_a_pipeline_sends_the_elements_between_layers() -> None:
    fields: dict[str, Any] = {
        "system": "a100_sxm",
        "isl": 1,
        "osl": 1,
        "concurrency": 256,
        "tier": "bound",
    }
    whole = perfatlas.estimate(model=TOY, **fields)
    halves = perfatlas.estimate(model=TOY, pp=2, **fields)
    (sent,) = [row for row in halves.breakdown if row["name"] == "pipeline_send_recv"]
    # 256 images of 16,384 elements of 2 bytes over the 300 GB/s per direction of NVLink 3
    assert sent["bound_time_s"] == pytest.approx(256 * 16_384 * 2.0 / 300e9)
    assert halves.results["gpus"] == 2 * whole.results["gpus"]
    weights = halves.results["memory"]["weights_bytes"]
    assert weights == 0.5 * 2.0 * (PARAMETERS - 320) + 2.0 * 320


def test_a_training_step_by_hand() -> None:
    answer = perfatlas.train(
        model=TOY, system="h100_sxm", gpus=8, sequence_length=1, global_batch=2048, micro_batch=256
    )
    found, memory = answer.results, answer.results["memory"]
    flop = found["mfu"] * found["step_time_s"] * 8 * PEAK_FLOP_PER_S
    assert flop == pytest.approx(3 * 2_048 * FLOP)
    assert memory["weights_bytes"] == 2.0 * PARAMETERS
    assert memory["gradients_bytes"] == 4.0 * PARAMETERS
    assert memory["optimizer_bytes"] == 12.0 * PARAMETERS / 8.0
    assert memory["activation_bytes"] == 2.0 * 256 * KEPT
    assert found["checkpoint_bytes"] == 14.0 * PARAMETERS


def test_stages_of_a_pipeline_hold_half_of_the_layers() -> None:
    answer = perfatlas.train(
        model=TOY, system="h100_sxm", gpus=2, pp=2, sequence_length=1, global_batch=64
    )
    assert answer.results["gpus"] == 2
    assert answer.results["memory"]["weights_bytes"] == 2.0 * (PARAMETERS - 320) / 2.0


def test_layouts_are_searched() -> None:
    answer = perfatlas.search_training(
        model=TOY, system="h100_sxm", gpus=4, sequence_length=1, global_batch=1024
    )
    assert all(layout["tp"] == 1 for layout in answer.results["layouts"])
    assert answer.results["rejected_layouts"]["tp_divides_channels"] > 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"osl": 2}, "osl = 2: .* runs one pass per request and decodes nothing; set osl = 1"),
        ({"osl": 1, "tp": 2}, "tp = 2: part of an image and its channels = 1 must be divisible"),
        ({"osl": 1, "cp": 2}, "cp = 2: part of an image and its channels = 1 must be divisible"),
    ],
)
def test_estimates_without_meaning_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSpecError, match=message):
        perfatlas.estimate(model=TOY, system="h100_sxm", isl=1, **fields)


def test_training_of_divided_layers_is_refused() -> None:
    with pytest.raises(InvalidSpecError, match="tp = 2 "):
        perfatlas.train(model=TOY, system="h100_sxm", gpus=2, tp=2, global_batch=64)


def test_overrides_and_drafters_are_refused() -> None:
    with pytest.raises(InvalidSpecError, match="overridden"):
        resolve_model(f"{TOY}{{layers=3}}")
    with pytest.raises(UnsupportedError, match="decode"):
        _toy().with_drafter()


def test_layers_that_change_shape_run_once(tmp_path: Path) -> None:
    text = Path(TOY).read_text("utf-8").replace("count = 1", "count = 2", 1)
    (tmp_path / "wrong.toynet").write_text(text, "utf-8")
    with pytest.raises(InvalidSpecError, match="layers 1 run 2 times"):
        resolve_model(str(tmp_path / "wrong.toynet"))
