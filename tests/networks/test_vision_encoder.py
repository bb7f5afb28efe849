"""Vision encoders: parameters and FLOP of transformers, sizes of images, and emission."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import perfatlas
from perfatlas.networks import ENCODER, ModelFormats, StepTokens, resolve_model
from perfatlas.networks.catalog import catalog_config
from perfatlas.networks.hf_config import read_config
from perfatlas.networks.vision_encoder import GraphEncoder, Resizing, VisionEncoder
from perfatlas.operators import Phase
from perfatlas.quantities import InvalidSpecError, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

FORMATS = ModelFormats(gemm="fp8_dynamic", moe="bf16", kv="bf16", attention="bf16")
QWEN = Resizing(side=32, min_pixels=65_536, max_pixels=16_777_216)
CLIP = {"model_type": "clip_vision_model", "hidden_size": 1024, "intermediate_size": 4096,
        "num_hidden_layers": 24, "num_attention_heads": 16, "image_size": 336,
        "patch_size": 14}  # fmt: skip
PIXTRAL = CLIP | {"model_type": "pixtral", "image_size": 1540}
QWEN25 = {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16,
          "patch_size": 14, "window_size": 112,
          "fullatt_block_indexes": [7, 15, 23, 31]}  # fmt: skip
MLLAMA = {"hidden_size": 1280, "intermediate_size": 5120, "num_hidden_layers": 32,
          "attention_heads": 16, "image_size": 448, "patch_size": 14}  # fmt: skip
KIMI = Resizing(side=28, patch=14, max_pixels=16_384 * 196, max_side=512 * 14, pads_sides=True)


def _encoder(name: str) -> VisionEncoder:
    encoder = getattr(resolve_model(name).network, "encoder", None)
    assert isinstance(encoder, VisionEncoder)
    return encoder


# transformers 5.24 and torch 2.13 on the meta device: parameters of the vision model with its
# mergers or its projector, and FlopCounterMode of one image of 1080 x 1920
@pytest.mark.parametrize(
    ("name", "parameters", "flop"),
    [
        ("Qwen/Qwen3-VL-2B-Instruct", 406_957_056, 11_910_481_182_720),
        ("Qwen/Qwen3-VL-4B-Instruct", 415_347_712, 11_944_706_703_360),
        ("Qwen/Qwen3-VL-8B-Instruct", 576_388_336, 15_676_424_847_360),
        ("Qwen/Qwen3-VL-32B-Instruct", 595_266_800, 15_753_432_268_800),
        ("Qwen/Qwen3-VL-30B-A3B-Instruct", 538_631_408, 15_522_410_004_480),
        ("Qwen/Qwen3.5-27B", 460_730_096, 15_204_754_391_040),
        ("google/gemma-3-4b-it", 419_816_304, 5_461_902_360_576),
        ("google/gemma-3-12b-it", 421_290_864, 5_462_657_335_296),
        ("google/gemma-3-27b-it", 423_060_336, 5_463_563_304_960),
    ],
)
def test_parameters_and_flop_of_transformers(name: str, parameters: int, flop: int) -> None:
    encoder = _encoder(name)
    assert encoder.parameters == parameters
    tokens = encoder.resizing.tokens(1080, 1920)
    operators = encoder.operators(tokens, FORMATS, np.ones(1))
    assert sum(float((op.work().flop * op.count)[0]) for op in operators) == flop
    weights = sum(float((op.weight_elements() * op.count)[0]) for op in operators)
    assert 0.98 * parameters < weights < parameters  # the rest are norms, biases and positions


def test_parameters_of_whole_models() -> None:
    for name, billions in (("Qwen/Qwen3-VL-8B-Instruct", 8.77), ("google/gemma-3-4b-it", 4.30)):
        total = resolve_model(name).network.parameters().total
        assert total / 1e9 == pytest.approx(billions, abs=0.005)


@pytest.mark.parametrize(
    ("resizing", "height", "width", "tokens"),
    [
        (QWEN, 1080, 1920, 34 * 60),  # 33.75 and 60 tokens
        (QWEN, 1, 1, 8 * 8),  # enlarged to 65,536 pixels
        (QWEN, 65_535, 65_535, 128 * 128),  # reduced to 16,777,216 pixels
        (Resizing(side=56, fixed_side=896), 7, 9999, 256),
        (KIMI, 1080, 1920, 39 * 69),  # rounded up
        (KIMI, 2160, 3840, 4214),  # reduced to 16,384 whole patches
        (KIMI, 28, 60_000, 256),  # reduced to 512 patches per side
    ],
)
def test_tokens_of_images(resizing: Resizing, height: int, width: int, tokens: int) -> None:
    assert resizing.tokens(height, width) == tokens == resizing.tokens(width, height)


@given(height=st.integers(1, 65_535), ratio=st.floats(0.01, 100.0))
def test_processors_keep_their_limits_of_pixels(height: int, ratio: float) -> None:
    width = min(max(round(height * ratio), 1), 65_535)
    if max(height, width) <= 200 * min(height, width):
        pixels = QWEN.tokens(height, width) * QWEN.side**2
        assert QWEN.min_pixels <= pixels <= QWEN.max_pixels


def test_too_narrow_images_are_refused() -> None:
    with pytest.raises(InvalidSpecError, match=r"image_height = 4000 .*image_width = 10"):
        QWEN.tokens(4000, 10)


def test_half_an_image_is_every_second_step() -> None:
    encoder = _encoder("google/gemma-3-4b-it")
    half, whole, two = (
        sum(
            (op.work().flop * op.count)[0]
            for op in encoder.operators(256, FORMATS, images * np.ones(1))
        )
        for images in (0.5, 1.0, 2.0)
    )
    assert 2.0 * half == whole == two / 2.0


def test_only_prefill_with_images_encodes() -> None:
    network = resolve_model("Qwen/Qwen3-VL-8B-Instruct").network.with_images(2, 1080, 1920)
    one = np.ones(1)
    step = StepTokens(batch=one, q_len=4592 * one, kv_len=4592 * one, images=2 * one)

    def names(phase: Phase, tokens: StepTokens) -> list[str]:
        return [op.name for op in network.step_operators(FORMATS, phase, tokens)]

    found = names(Phase.PREFILL, step)
    assert found[0] == "embedding"
    assert f"{ENCODER}attention" in found
    for phase in (Phase.PREFILL, Phase.DECODE, Phase.FORWARD):
        plain = names(phase, replace(step, images=None))
        assert not any(name.startswith(ENCODER) for name in plain)
    assert not any(name.startswith(ENCODER) for name in names(Phase.DECODE, step))
    encoded = [
        op
        for op in network.step_operators(FORMATS, Phase.PREFILL, step)
        if op.name.startswith(ENCODER)
    ]
    assert {op.compute_format for op in encoded} == {"bf16"}  # of an fp8 language model too


def test_training_is_of_the_language_model() -> None:
    network = resolve_model("Qwen/Qwen3-VL-8B-Instruct").network
    encoder = _encoder("Qwen/Qwen3-VL-8B-Instruct")
    text = network.trained()
    assert text.parameters().total == network.parameters().total - encoder.parameters


def test_models_without_a_described_encoder() -> None:
    for name in ("Qwen/Qwen3-8B", "google/gemma-4-26B-A4B"):
        network = resolve_model(name).network
        assert network.with_images(0, 1, 1) is network
        with pytest.raises(UnsupportedError, match="no vision encoder"):
            network.with_images(1, 1080, 1920)


@pytest.mark.parametrize("name", ["Qwen/Qwen3-VL-8B-Instruct", "moonshotai/Kimi-K2.5"])
def test_incomplete_vision_configs_describe_no_encoder(name: str) -> None:
    config = catalog_config(name)
    vision = config["vision_config"]
    for missing in [*vision, ""]:
        kept = {field: size for field, size in vision.items() if missing not in ("", field)}
        network = read_config({**config, "vision_config": kept}, "x")
        if network.encoder is not None:  # a field with a default
            continue
        assert "not counted" in network.warnings[0]
        with pytest.raises(UnsupportedError, match=rf"x: vision_config: .*{missing}.*missing"):
            network.with_images(1, 64, 64)


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("Qwen/Qwen3-VL-8B-Instruct", {"depth": 0}, "vision_config: depth = 0"),
        ("Qwen/Qwen3-VL-8B-Instruct", {"num_heads": 7}, "hidden_size = 1152: .* num_heads = 7"),
        ("Qwen/Qwen3-VL-8B-Instruct", {"out_hidden_size": 5120}, "must be hidden_size = 4096"),
        ("Qwen/Qwen3-VL-8B-Instruct", {"deepstack_visual_indexes": [27]}, "27"),
        ("moonshotai/Kimi-K2.5", {"vt_num_hidden_layers": 0}, "vt_num_hidden_layers = 0"),
        ("moonshotai/Kimi-K2.5", {"text_hidden_size": 1}, "must be hidden_size = 7168"),
        *(
            ("moonshotai/Kimi-K2.5", {"merge_kernel_size": sides}, "two equal positive integers")
            for sides in ([], [2], [2, 3], [0, 0], [2, 2, 2])
        ),
    ],
)
def test_contradicting_vision_configs(name: str, fields: dict[str, object], message: str) -> None:
    config = catalog_config(name)
    config["vision_config"] |= fields
    with pytest.raises(InvalidSpecError, match=message):
        read_config(config, "x")


def test_invalid_vision_configs() -> None:
    text = {
        "model_type": "gemma3_text",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 1,
    }
    vision = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "patch_size": 2,
        "image_size": 16,
    }
    config = {"model_type": "gemma3", "text_config": text, "mm_tokens_per_image": 16}
    assert read_config({**config, "vision_config": vision}, "x").encoder_parameters
    with pytest.raises(InvalidSpecError, match="mm_tokens_per_image"):
        read_config({**config, "vision_config": vision, "mm_tokens_per_image": 15}, "x")
    with pytest.raises(InvalidSpecError, match="mm_tokens_per_image"):
        read_config({**config, "vision_config": {**vision, "image_size": 1}}, "x")
    with pytest.raises(InvalidSpecError, match="hidden_size"):
        read_config({**config, "vision_config": {**vision, "num_attention_heads": 3}}, "x")
    assert "not counted" in read_config(config, "x").warnings[0]


# transformers 5.24 on the meta device: parameters of the tower and of its projector
@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (
            {"model_type": "llava", "vision_config": CLIP, "text_config": {"model_type": "llama"}},
            303_507_456 + 20_979_712,
        ),
        (
            {
                "model_type": "mistral3",
                "vision_config": PIXTRAL,
                "text_config": {"model_type": "mistral", "hidden_size": 5120, "head_dim": 128},
            },
            403_305_472 + 35_652_608 + 2048,  # a bias of patches and a norm that it lacks
        ),
        (
            {
                "model_type": "qwen2_5_vl",
                "vision_config": QWEN25,
                "text_config": {"model_type": "qwen2_5_vl_text", "hidden_size": 3584,
                                "num_attention_heads": 28, "num_key_value_heads": 4},
            },
            676_550_144 + 1280,  # a bias of patches that it lacks
        ),
        (
            {
                "model_type": "mllama",
                "vision_config": MLLAMA,
                "text_config": {"model_type": "mllama_text_model"},
            },
            836_288_019 + 31_461_376 + 51_181,  # biases and one table of positions of tiles
        ),
    ],
)  # fmt: skip
def test_parameters_of_other_towers(config: dict[str, Any], parameters: int) -> None:
    encoder = read_config(config, "test").encoder
    assert encoder is not None
    assert encoder.parameters == parameters


def test_images_of_tiled_models_are_refused() -> None:
    config = {"model_type": "mllama", "vision_config": MLLAMA}
    tiled = read_config(config | {"text_config": {"model_type": "mllama_text_model"}}, "test")
    with pytest.raises(UnsupportedError, match="tiles"):
        tiled.with_images(1, 560, 560)
    whole = read_config(
        {"model_type": "llava", "vision_config": CLIP, "text_config": {"model_type": "llama"}}, "t"
    ).with_images(2, 1080, 1920)
    assert whole.images is not None
    assert whole.images.prompt_tokens == 2 * 576  # 24 x 24 patches of 336 pixels, whatever the size


def test_a_token_ends_each_row_of_pixtral() -> None:
    text = {"model_type": "mistral", "hidden_size": 5120, "head_dim": 128}
    config = {"model_type": "mistral3", "vision_config": PIXTRAL, "text_config": text}
    encoder = read_config(config, "test").encoder
    assert encoder is not None
    # 55 x 55 tokens of 28 x 28 pixels; 1540 x 770 has 55 rows of 28 (27.5)
    assert encoder.resizing.tokens(1540, 1540) == 55 * 56
    assert encoder.resizing.tokens(1540, 770) == 55 * 29


def test_layers_of_images_run_for_images_alone() -> None:
    config = {"model_type": "mllama_text_model", "cross_attention_layers": [1, 3],
              "num_hidden_layers": 4}  # fmt: skip
    network = read_config(config, "test")
    one = np.ones(1)
    text, seen = (
        network.step_operators(
            FORMATS, Phase.PREFILL, StepTokens(batch=one, q_len=one, kv_len=one, images=images)
        )
        for images in (None, one)
    )
    counts = [
        sum(float(op.count[0]) for op in step if op.name == "qkv_projection")
        for step in (text, seen)
    ]
    assert counts == [2.0, 4.0]
    assert [layout.layers for layout in network.cache_layouts(2.0)] == [2]


GLM = {"model_type": "glm4v", "vision_config": {"model_type": "glm4v_vision"},
       "text_config": {"model_type": "glm4v_text", "hidden_size": 4096}}  # fmt: skip
SIGLIP = {"model_type": "siglip_vision_model", "hidden_size": 1024, "intermediate_size": 4096,
          "num_hidden_layers": 24, "num_attention_heads": 16, "image_size": 384,
          "patch_size": 16}  # fmt: skip


def _graph_encoder(config: dict[str, Any]) -> GraphEncoder:
    encoder = read_config(config, "test").encoder
    assert isinstance(encoder, GraphEncoder)
    return encoder


def test_an_encoder_of_a_row_runs_what_transformers_runs() -> None:
    """The default Glm4vVisionModel of transformers 5.24 on 16 x 16 patches, attention by hand."""
    encoder = _graph_encoder(GLM)
    assert encoder.parameters == 892_498_432
    attention = 24 * 4 * 256**2 * 1536
    operators = encoder.operators(64, FORMATS, np.ones(1))
    found = sum(float((op.work().flop * op.count)[0]) for op in operators)
    assert found == 375_727_849_472 + attention
    assert all(operator.name.startswith(ENCODER) for operator in operators)


@pytest.mark.parametrize(
    ("height", "width", "tokens"),
    [(1080, 1920, 2691), (40, 40, 9), (4000, 3000, 6030), (224, 224, 64)],
)
def test_tokens_of_glm_are_those_of_its_processor(height: int, width: int, tokens: int) -> None:
    """smart_resize of transformers 5.24, models/glm46v, with the limits of GLM-4.6V."""
    assert _graph_encoder(GLM).resizing.tokens(height, width) == tokens


@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        ({"model_type": "deepseek_vl", "vision_config": SIGLIP,
          "text_config": {"model_type": "llama"}}, 576),
        ({"model_type": "got_ocr2", "vision_config": {"model_type": "got_ocr2_vision"},
          "text_config": {"model_type": "qwen2"}}, 256),
        ({"model_type": "shieldgemma2", "vision_config": {**SIGLIP, "image_size": 896,
          "patch_size": 14}, "text_config": {"model_type": "gemma3_text"}}, 256),
    ],
)  # fmt: skip
def test_images_of_one_side_have_the_tokens_that_their_processors_state(
    config: dict[str, Any], tokens: int
) -> None:
    network = read_config(config, "test").with_images(2, 500, 300)
    assert network.images is not None
    assert network.images.prompt_tokens == 2 * tokens
    assert not any("priced" in text for text in network.warnings)


def test_encoders_of_audio_beside_one_of_images_are_counted_alone() -> None:
    config = {"model_type": "qwen3_omni_moe_thinker",
              "text_config": {"model_type": "qwen3_omni_moe_text", "head_dim": 73},
              "vision_config": {"model_type": "qwen3_omni_moe_vision_encoder"},
              "audio_config": {"model_type": "qwen3_omni_moe_audio_encoder"}}  # fmt: skip
    network = read_config(config, "test")
    assert any("audio is counted, but not priced" in text for text in network.warnings)
    assert network.with_images(1, 1080, 1920).images is not None
    alone = {name: part for name, part in config.items() if name != "vision_config"}
    with pytest.raises(UnsupportedError, match="leave images out"):
        read_config(alone, "test").with_images(1, 1080, 1920)


def test_every_rank_holds_an_encoder_of_a_row(tmp_path: Path) -> None:
    """Two ranks halve the matrices of the language model; the encoder is whole on both."""
    (tmp_path / "config.json").write_text(json.dumps(GLM))
    model = str(tmp_path)
    one, two = (
        perfatlas.estimate(model=model, system="h100_sxm", gpus=gpus, tp=gpus).results["memory"]
        for gpus in (1, 2)
    )
    assert 2.0 * two["weights_bytes"] - one["weights_bytes"] == pytest.approx(
        2.0 * 892_498_432, rel=0.01
    )
    plain = perfatlas.estimate(model=model, system="h100_sxm", isl=2064).results
    images = perfatlas.estimate(
        model=model, system="h100_sxm", isl=2000, images=1, image_height=224, image_width=224
    ).results
    assert images["encoder_time_s"] > 0.0
    assert images["ttft_s"] == pytest.approx(plain["ttft_s"] + images["encoder_time_s"], rel=0.03)


@pytest.mark.parametrize(
    ("vision", "why"),
    [
        ({"patch_size": 0}, "patch_size"),
        ({"spatial_merge_size": "two"}, "spatial_merge_size"),
        ({"spatial_merge_size": 3}, "not the one that is described"),
    ],
)
def test_sizes_of_patches_that_no_encoder_has(vision: dict[str, object], why: str) -> None:
    network = read_config({**GLM, "vision_config": {"model_type": "glm4v_vision", **vision}}, "a")
    assert any(why in text for text in network.warnings)
    with pytest.raises(UnsupportedError, match="leave images out"):
        network.with_images(1, 224, 224)
