"""Training of networks that are graphs of operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfatlas.networks import ModelFormats, resolve_model
from perfatlas.networks.graphs.network import GraphNetwork
from perfatlas.networks.graphs.training import weights_of_products
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.scenario.training_steps import question_of, read_training
from perfatlas.training.step import micro_batch_costs
from perfatlas.training.work import Part, Work, model_operators
from perfatlas.verbs.train import train

RESNET = {"model": "resnet-50", "system": "h100_sxm", "gpus": 8, "micro_batch": 32}
STEP: dict[str, Any] = {**RESNET, "global_batch": 256}
# One convolution of 3 x 3 over an image of 8 x 8 with 4 channels, a norm, an activation, a head.
TINY = """
name = "tiny"
item = "image"
parameters = 778
operators = [
  { kind = "conv", m = "64 * batch", n = 16, k = 36, read = "256 * batch" },
  { kind = "norm", read = "1024 * batch", after = "conv" },
  { kind = "activation", read = "1024 * batch", after = "norm" },
  { kind = "pool", read = "1024 * batch", write = "16 * batch", after = "activation" },
  { kind = "linear", m = "batch", n = 10, k = 16 },
]
"""


def _work(fields: dict[str, Any]) -> dict[Part, float]:
    """Return the FLOP of all operators of a micro-batch, by part."""
    question = question_of([read_training(fields)])
    formats = ModelFormats(gemm="bf16", moe="bf16", kv="bf16", attention="bf16")
    rows = model_operators(Work(question.network, formats, "balanced"), question.layouts)
    found = dict.fromkeys(Part, 0.0)
    for row in rows:
        each = row.operator.work().flop * row.operator.count * question.network.num_layers
        found[row.part] += float(each[0])
    return found


def _tiny(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY, encoding="utf-8")
    return {"model": str(path), "system": "h100_sxm", "engine": "ideal", "global_batch": 4}


@pytest.mark.parametrize("name", ["resnet-50", "densenet-121", "resnext-50"])
def test_three_passes_without_the_data_gradient_of_the_first_layer(name: str) -> None:
    """Each product has two gradients of its FLOP; an image of 224 x 224 has none."""
    work = _work({**STEP, "model": name})
    first = 2.0 * 32 * 112 * 112 * 64 * 147
    (facts,) = resolve_model(name).network.describe_layers()
    forward = 32.0 * float(str(facts["flop_per_item"]))
    assert work[Part.FORWARD] == pytest.approx(forward)
    assert sum(work.values()) == pytest.approx(3.0 * forward - first)


def test_work_of_bert() -> None:
    """Attention multiplies five matrices backward and two forward; ids have no gradient."""
    work = _work({**STEP, "model": "bert-large"})
    attention = 32.0 * 24 * 4.0 * 384**2 * 1024
    rest = work[Part.FORWARD] - attention
    assert sum(work.values()) == pytest.approx(3.0 * rest + 3.5 * attention)


def test_grouped_gradients_have_the_weights_of_their_groups() -> None:
    network = resolve_model("resnext-50").network.trained()
    question = question_of([read_training({**STEP, "model": "resnext-50"})])
    costs = micro_batch_costs(question)
    grouped = [row for row in costs.rows if np.any(getattr(row.operator, "groups", 1.0) > 1.0)]
    assert {row.part for row in grouped} == set(Part)
    for row in grouped:
        assert row.operator.work().cold_bytes[0] >= 0.0
    assert network.num_layers == 16  # additions


def test_weights_of_products_are_those_of_all_groups() -> None:
    """ResNeXt-50 has 25,028,904 parameters: 69,224 of them in batch norms and biases."""
    network = resolve_model("resnext-50").network
    assert isinstance(network, GraphNetwork)
    assert weights_of_products(network.nodes, network.columns(1.0)) == 25_028_904 - 69_224


def test_memory_by_hand(tmp_path: Path) -> None:
    """Four images on one GPU, in 16 bits; weights and gradients in 32.

    Kept of each image: the input of the convolution (256), of the norm (1,024), of the pool none,
    of the head (16), and 576 + 160 weights in 16 bits. The activation is fused. Largest live:
    the norm reads and writes 2,048 elements of each image.
    """
    memory = train(**_tiny(tmp_path), micro_batch=4).results["memory"]
    kept = 2.0 * (4 * (256 + 1024 + 16) + 576 + 160)
    assert memory["activation_bytes"] == pytest.approx(kept + 2.0 * 4 * 2048)
    assert memory["weights_bytes"] == pytest.approx(2.0 * 778)
    assert memory["gradients_bytes"] == pytest.approx(4.0 * 778)
    assert memory["optimizer_bytes"] == pytest.approx((4.0 + 8.0) * 778)


def test_eager_mode_keeps_what_a_compiler_computes_again() -> None:
    """SiLU keeps its input, which a compiler computes from that of the norm; ReLU keeps none."""
    kept = {
        (model, engine): train(**{**STEP, "model": model}, engine=engine).results["memory"]
        for model in ("resnet-50", "efficientnet-b0")
        for engine in ("inductor", "pytorch")
    }
    sizes = {key: memory["activation_bytes"] for key, memory in kept.items()}
    assert sizes["efficientnet-b0", "inductor"] < sizes["efficientnet-b0", "pytorch"]
    assert sizes["resnet-50", "inductor"] == pytest.approx(sizes["resnet-50", "pytorch"])


def test_results_are_those_of_items() -> None:
    results = train(**STEP).results
    assert results["item"] == "image"
    per_gpu = 32.0 / results["step_time_s"]
    assert results["throughput_per_s_per_gpu"] == pytest.approx(per_gpu)
    assert results["throughput_per_s"] == pytest.approx(8.0 * per_gpu)
    assert results["energy_per_item_j"] == pytest.approx(results["energy_per_step_j"] / 256)
    assert results["step_time_s_low"] < results["step_time_s"] < results["step_time_s_high"]
    assert sum(results["waterfall"].values()) == pytest.approx(results["step_time_s"])
    assert not [name for name in results if "token" in name]


def test_accumulation_and_ranks_scale_a_step() -> None:
    """Four micro-batches last four times as long; the optimizer runs once."""
    one = train(**{**STEP, "gpus": 1, "global_batch": 32}).results
    four = train(**{**STEP, "gpus": 1, "global_batch": 128}).results
    assert four["waterfall"]["compute"] == pytest.approx(4.0 * one["waterfall"]["compute"])
    assert four["waterfall"]["optimizer"] == pytest.approx(one["waterfall"]["optimizer"])
    bound = train(**STEP, tier="bound").results
    assert bound["step_time_s"] < train(**STEP).results["step_time_s"]


def test_xla_trains_on_tpus() -> None:
    fields: dict[str, Any] = {"model": "resnet-50", "system": "tpu_v5e", "gpus": 8}
    fields |= {"global_batch": 256}
    found, ideal = train(**fields), train(**fields, engine="ideal")
    assert found.scenario["engine"] == "xla@0.10"
    assert found.results["step_time_s"] > ideal.results["step_time_s"]
    assert any("on TPUs are compared with no measurement" in one for one in found.warnings)
    for system, engine in (("tpu_v5e", "inductor"), ("h100_sxm", "xla")):
        with pytest.raises(UnsupportedError, match=rf"{engine}.*{system}"):
            train(**fields | {"system": system}, engine=engine)


def test_sharded_states_divide_by_the_ranks() -> None:
    whole, sharded = (
        train(**STEP, zero=zero).results["memory"]["optimizer_bytes"] for zero in ("0", "1")
    )
    assert sharded == pytest.approx(whole / 8.0)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("sdxl", 2.567e9), ("sd3-medium", 2.03e9), ("flux.1-dev", 11.9e9), ("wan2.1-t2v-14b", 14.3e9)],
)
def test_of_a_pipeline_the_denoiser_is_trained(name: str, parameters: float) -> None:
    """Parameters as published; two steps of a pipeline and one differ by its passes."""
    network = resolve_model(name).network
    part = network.trained()
    assert part.parameters().total == pytest.approx(parameters, rel=0.01)
    (facts,) = part.describe_layers()
    flop = [
        float(
            str(
                resolve_model(f"{name}{{steps={steps}}}").network.describe_layers()[0][
                    "flop_per_item"
                ]
            )
        )
        for steps in (1, 2)
    ]
    passes = (flop[1] - flop[0]) / float(str(facts["flop_per_item"]))
    assert passes == pytest.approx(1.0 if name == "flux.1-dev" else 2.0, rel=0.01)


def test_only_a_stated_denoiser_is_trained_alone(tmp_path: Path) -> None:
    """Sizes may have any name: `steps` makes a network no diffusion pipeline."""
    stepped = TINY.replace('m = "batch"', 'count = "steps", m = "batch"')
    path = tmp_path / "stepped.toml"
    found = {}
    for head in ("", "denoiser = 1\n"):
        path.write_text(f"{head}{stepped}\n[sizes]\nsteps = 4\n", encoding="utf-8")
        network = resolve_model(str(path)).network
        assert isinstance(network, GraphNetwork)
        found[head] = network.trained()
    whole, part = found.values()
    assert (len(whole.nodes), len(part.nodes)) == (5, 1)
    assert part.parameters().total == 160
    for text, message in (
        (TINY, "denoiser = 2 needs operators with a count"),
        (f"{stepped}\n[sizes]\nsteps = 4\n", "for one item linear: m = batch is 0.5"),
    ):
        path.write_text(f"denoiser = 2\n{text}", encoding="utf-8")
        with pytest.raises(InvalidSpecError, match=message):
            resolve_model(str(path))


def test_a_step_waits_for_the_items_that_the_host_decodes() -> None:
    """256 images over 8 GPUs, 2 cores of 100 images/s each: 160 ms, whatever the kernels take."""
    free = train(**STEP).results
    slow = train(**STEP, input_cores=2, input_rate=100).results
    assert slow["step_time_s"] == pytest.approx(32 / 200)
    assert slow["step_time_s_low"] == slow["step_time_s_high"] == slow["step_time_s"]
    waits = slow["step_time_s"] - free["step_time_s"]
    assert slow["waterfall"]["input"] == pytest.approx(waits)
    assert sum(slow["waterfall"].values()) == pytest.approx(slow["step_time_s"])
    assert slow["power_w"] < free["power_w"]
    fast = train(**STEP, input_cores=2, input_rate=1e6).results
    assert fast["step_time_s"] == free["step_time_s"]
    assert fast["waterfall"]["input"] == 0.0


def test_decoding_has_the_interval_of_its_processors() -> None:
    """One core decodes 440 to 864 images/s, 643 in the median; augmentation is not counted."""
    answer = train(**STEP, input_cores=1)
    results = answer.results
    ends = (results["step_time_s_low"], results["step_time_s"], results["step_time_s_high"])
    assert ends == pytest.approx((32 / 864, 32 / 643, 32 / 440))
    assert any("augmentation" in text for text in answer.warnings)
    bound = train(**STEP, input_cores=1, tier="bound").results
    assert bound["step_time_s"] == pytest.approx(32 / 864)


@pytest.mark.parametrize(
    ("model", "elements"),
    [
        ("vit-large-16", 197 * 1024),  # tokens x width, read by every layer
        ("flux.1-dev", (4096 + 512) * 3072),  # tokens of the image and of the text
        ("vgg-16", None),  # a chain of products
    ],
)
def test_full_recomputation_keeps_the_input_of_blocks(model: str, elements: int | None) -> None:
    """What a block keeps is computed again, in a further forward pass."""
    question = question_of([read_training({**STEP, "model": model, "zero": 3})])
    if elements is not None:
        assert question.network.hidden_size == elements
    costs = micro_batch_costs(question)
    kept_LG = costs.saved_bytes_LUG[:, 0, 1:-1]
    full = 2.0 * question.network.hidden_size * question.layouts.micro_batch[0]
    assert kept_LG[2] == pytest.approx(full)
    assert kept_LG[2] < kept_LG[0]
    forward_s = costs.time_s[0, Part.FORWARD, :, 0, 1:-1].sum()
    again_s = costs.recomputed_s[0, 2, :, 0, 1:-1].sum()
    assert again_s == pytest.approx(forward_s)


def test_graphs_compute_whole_blocks_again() -> None:
    """A step with less memory takes longer."""
    kept, again = (train(**STEP, recompute=level).results for level in ("none", "full"))
    assert again["memory"]["activation_bytes"] < kept["memory"]["activation_bytes"]
    assert again["step_time_s"] > kept["step_time_s"]
    assert again["hfu"] > again["mfu"] == pytest.approx(again["hfu"] * 3 / 4, rel=0.02)
