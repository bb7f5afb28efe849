"""The catalog of graphs: parameters and FLOP against counts of PyTorch, and estimates."""

from __future__ import annotations

from importlib import resources
from typing import Any

import pytest

import perfatlas
from perfatlas.networks import resolve_model

# GFLOP of the items of a pass and millions of parameters that PyTorch counts on meta tensors
COUNTED = {
    "resnet-50": (2, 16.356737024, 25.557),
    "vit-large-16": (2, 246.218850304, 304.327),
    "convnext-base": (2, 61.418917888, 88.591),
    "efficientnet-b0": (2, 1.543259008, 5.289),
    "swin-base": (2, 61.723787264, 87.768),
    "bert-large": (2, 492.850642944, 334.094),
    "wav2vec2-large": (2, 767.772635136, 315.472),
    "t5-base{sequence_length=128,target_length=64}": (2, 84.532002816, 222.904),
    "whisper-large-v3{target_length=64}": (2, 5414.38836736, 1543.491),
    "3d-unet": (1, 954.597376, 31.19),
    "retinanet-resnet-50": (2, 606.161748992, 34.068),
    "dlrm-dcnv2": (64, 2.051899392, 26151.672),
}
# of a step for two items, and the items that guidance makes of one
DENOISERS = {
    "sdxl": (2, 13522.47279616),
    "sd2.1": (2, 4298.21149184),
    "hunyuandit": (2, 28731.601928192),
    "sd3-medium": (2, 17808.675078144),
    "sd3.5-medium": (2, 22499.147415552),
    "sd3.5-large": (2, 62242.229815296),
    "flux.1-dev": (1, 148769.306836992),
    "wan2.1-t2v-14b": (2, 3356740.56638464),
    "wan2.2-t2v-a14b": (2, 13046873.18401024),
    "qwen-image": (2, 260303.59855104),
    "sana1.5-1.6b": (2, 5933.32232192),
    "sana1.5-4.8b": (2, 17774.07844352),
}
# Millions of parameters of the parts of pipelines, denoisers as their files on the hub have them
CLIP_L, CLIP_G, T5_XXL, UMT5_XXL, GEMMA_2B = 123.060, 694.660, 4762.311, 5680.910, 2614.342
PIPELINES = {
    "sd2.1": (865.911, 340.388, 49.490),
    "hunyuandit": (1499.952, 352.036, 1669.959, 49.490),
    "sd3.5-medium": (2243.172, CLIP_L, CLIP_G, T5_XXL, 49.545),
    "sd3.5-large": (8056.628, CLIP_L, CLIP_G, T5_XXL, 49.545),
    "qwen-image": (20430.401, 8292.167, 73.295),
    "wan2.2-t2v-a14b": (14288.491, 14288.491, UMT5_XXL, 73.297),
    "wan2.2-ti2v-5b": (4999.788, UMT5_XXL, 555.049),
    "sana1.5-1.6b": (1604.642, GEMMA_2B, 159.223),
    "sana1.5-4.8b": (4721.826, GEMMA_2B, 159.223),
}
MAX_FILE_BYTES = 30_000  # bytes


def _gflop(model: str) -> float:
    (facts,) = resolve_model(model).network.describe_layers()
    return float(str(facts["flop_per_item"])) / 1e9


@pytest.mark.parametrize("name", COUNTED)
def test_work_and_parameters_equal_counts_of_pytorch(name: str) -> None:
    items, gflop, millions = COUNTED[name]
    assert items * _gflop(name) == pytest.approx(gflop, rel=1e-9)
    assert resolve_model(name).network.parameters().total / 1e6 == pytest.approx(millions, rel=1e-4)


@pytest.mark.parametrize("name", DENOISERS)
def test_each_step_adds_one_pass_of_the_denoiser(name: str) -> None:
    guided, gflop = DENOISERS[name]
    one, three = (_gflop(f"{name}{{steps={steps}}}") for steps in (1, 3))
    assert (three - one) / 2.0 == pytest.approx(gflop * guided / 2.0, rel=1e-9)


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_has_the_parameters_of_its_parts(name: str) -> None:
    millions = resolve_model(name).network.parameters().total / 1e6
    assert millions == pytest.approx(sum(PIPELINES[name]), rel=1e-4)


def test_a_pipeline_is_the_sum_of_its_parts() -> None:
    """SDXL of one step: two text encoders on two prompts, the UNet on two items, the decoder."""

    def encoder(layers: int, width: int, inner: int) -> float:
        linear = 2 * 77 * (4 * width**2 + 2 * width * inner)
        return float(layers * (linear + 4 * 77**2 * width))

    texts = 2.0 * (encoder(12, 768, 3072) + encoder(32, 1280, 5120) + 2 * 1280**2)
    latents = 128 * 128
    decoder = 32.0 * latents * (64 * latents + 18_922_113) - 2.0 * latents * 4 * 4
    found = 1e9 * (_gflop("sdxl{steps=1}") - DENOISERS["sdxl"][1])
    assert found == pytest.approx(texts + decoder, rel=1e-6)
    parts = 2567.464 + 49.490 + 123.060 + 694.660  # millions: UNet, decoder, CLIP L and bigG
    assert resolve_model("sdxl").network.parameters().total / 1e6 == pytest.approx(parts, rel=1e-4)


@pytest.mark.parametrize("name", ["sdxl", "flux.1-dev", "wan2.1-t2v-1.3b", "hunyuanvideo"])
def test_files_of_pipelines_are_short(name: str) -> None:
    file = resources.files("perfatlas").joinpath(f"data/networks/{name}.toml")
    assert len(file.read_text("utf-8")) < MAX_FILE_BYTES


def test_weights_that_run_several_times_are_stored_once() -> None:
    few, many = (
        perfatlas.estimate(model=f"sdxl{{steps={steps}}}", system="h100_sxm", batch=1).results
        for steps in (1, 50)
    )
    assert many["memory"]["weights_bytes"] == few["memory"]["weights_bytes"]
    parameters = resolve_model("sdxl").network.parameters().total
    assert many["memory"]["weights_bytes"] == pytest.approx(2.0 * parameters, rel=1e-9)
    assert many["latency_s"] > 10.0 * few["latency_s"]


@pytest.mark.parametrize("name", ["sdxl", "flux.1-dev", "dlrm-dcnv2", "whisper-large-v3"])
def test_one_item_is_not_slower_than_its_share_of_a_large_batch(name: str) -> None:
    """Kernels of one item are divided over all SMs: no more than four times the time per item."""
    one, eight = (
        perfatlas.estimate(model=name, system="h100_sxm", engine="tensorrt", batch=batch).results
        for batch in (1, 8)
    )
    assert one["latency_s"] <= eight["latency_s"] <= 8.0 * one["latency_s"] * (1.0 + 1e-9)


@pytest.mark.parametrize(
    ("fields", "decodes"),
    [
        ({"model": "dlrm-dcnv2", "batch": 8192}, False),
        ({"model": "resnet-50", "batch": 64, "engine": "tensorrt", "format": "fp8"}, False),
        ({"model": "whisper-large-v3", "batch": 8}, True),
    ],
)
def test_only_networks_that_generate_rest_on_assumptions_about_tokens(
    fields: dict[str, Any], *, decodes: bool
) -> None:
    assumed = perfatlas.estimate(**fields, system="h100_sxm").evidence.assumptions
    for text in ("decode is priced at the mean context", "cost of input and output tokens"):
        assert any(one.startswith(text) for one in assumed) == decodes
    assert not any("KV cache" in one for one in assumed)


def test_a_queue_of_passes_has_no_cost_of_tokens() -> None:
    found = perfatlas.simulate(
        model="resnet-50", system="h100_sxm", request_rate=100, num_requests=20, max_num_seqs=16
    )
    assumed = found.answer.evidence.assumptions
    assert any("median and range of" in one for one in assumed)
    assert not any("cost of input" in one for one in assumed)
