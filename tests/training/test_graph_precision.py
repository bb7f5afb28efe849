"""Training of graphs with automatic mixed precision: formats, casts and kernels of gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import perfatlas
from perfatlas.operators import Gemm, Streaming, with_fields
from perfatlas.scenario.training_steps import question_of, read_training
from perfatlas.training.step import micro_batch_costs
from perfatlas.training.work import Part, Row

HEAD = 'name = "net"\nitem = "image"\nparameters = 1000\noperators = [\n'
# Ten tokens of 8 channels: 80 elements, from a table in 32 bits.
BLOCK = """
  { kind = "embedding", rows = "10 * batch", width = 8 },
  { kind = "norm", count = 2, read = "80 * batch", row = 8 },
  { kind = "linear", count = 4, m = "10 * batch", n = 8, k = 8 },
  { kind = "attention", q_len = 10, kv_len = 10, num_heads = 1, head_dim = 8 },
  { kind = "add", count = 2, read = "2 * 80 * batch", write = "80 * batch", after = "linear" },
  { kind = "linear", m = "10 * batch", n = 32, k = 8 },
  { kind = "activation", read = "320 * batch", after = "linear" },
  { kind = "linear", m = "10 * batch", n = 8, k = 32 },
"""
# An image of 4,096 positions in 64 channels.
IMAGE = """
  { kind = "conv", m = "4096 * batch", n = 64, k = 27, read = "12288 * batch" },
  { kind = "norm", read = "262144 * batch", after = "conv" },
  { kind = "activation", read = "262144 * batch", after = "norm", by_output = true },
  { kind = "conv", m = "4096 * batch", n = 64, k = 576, read = "262144 * batch" },
  { kind = "add", read = "2 * 262144 * batch", write = "262144 * batch", after = "conv" },
"""
SMS, CLOCK_HZ = 132, 1.98e9


def _fields(folder: Path, nodes: str, engine: str = "pytorch", batch: int = 1) -> dict[str, Any]:
    path = folder / "net.toml"
    path.write_text(f"{HEAD}{nodes}]\n", encoding="utf-8")
    sizes = {"global_batch": batch, "micro_batch": batch}
    return {"model": str(path), "system": "h100_sxm", "engine": engine, "gpus": 1, **sizes}


def _rows(fields: dict[str, Any]) -> list[tuple[Row, float]]:
    """Return the operators of a step, counted over all blocks, and their times [s]."""
    question = question_of([read_training(fields)])
    costs = micro_batch_costs(question)
    blocks = question.network.num_layers
    times = costs.prices.time_s_CO[0]
    whole = [with_fields(row.operator, count=row.operator.count * blocks) for row in costs.rows]
    return [
        (row._replace(operator=operator), float(time))
        for row, operator, time in zip(costs.rows, whole, times, strict=True)
    ]


def _moved(rows: list[tuple[Row, float]], stream: str, part: Part) -> list[tuple[float, ...]]:
    """Return count, bytes read and bytes written of operators of one kind."""
    return [
        tuple(float(one[0]) for one in (op.count, op.read_bytes, op.write_bytes))
        for row, _ in rows
        if isinstance(op := row.operator, Streaming) and op.stream == stream and row.part == part
    ]


def test_norms_and_residuals_are_in_32_bits(tmp_path: Path) -> None:
    """A norm reads and writes 80 elements of 4 bytes; an addition reads 4 and 2, and writes 4.

    Its gradient reads 4 + 4 bytes and writes 4, and again reads 4 + 4 for those of its weights.
    """
    rows = _rows(_fields(tmp_path, BLOCK))
    assert _moved(rows, "norm", Part.FORWARD) == [(2.0, 320.0, 320.0)]
    assert _moved(rows, "add", Part.FORWARD) == [(2.0, 480.0, 320.0)]
    assert _moved(rows, "norm_gradient", Part.INPUT_GRADIENT) == [(2.0, 640.0, 320.0)]
    assert _moved(rows, "norm_weight_gradient", Part.WEIGHT_GRADIENT) == [(2.0, 640.0, 0.0)]
    assert _moved(rows, "activation", Part.FORWARD) == [(1.0, 640.0, 640.0)]
    assert _moved(rows, "embedding", Part.FORWARD)[0][2] == 320.0


def test_a_norm_of_16_bits_writes_32(tmp_path: Path) -> None:
    """Its 80 elements are cast to 4 bytes before it, and back to 2 for the next product."""
    product = '{ kind = "linear", m = "10 * batch", n = 8, k = 8 },\n'
    norm = '{ kind = "norm", read = "80 * batch", row = 8, after = "linear" },\n'
    rows = _rows(_fields(tmp_path, product + norm + product))
    assert _moved(rows, "norm", Part.FORWARD) == [(1.0, 320.0, 320.0)]
    assert (1.0, 160.0, 320.0) in _moved(rows, "cast", Part.FORWARD)
    assert (1.0, 320.0, 160.0) in _moved(rows, "cast", Part.FORWARD)


def test_products_cast_what_norms_write(tmp_path: Path) -> None:
    """Five products read 80 elements, of which one has the 16 bits of attention: four casts.

    Two norms feed them, so that two gradients are added. Weights are 4 x 64 + 2 x 256.
    """
    rows = _rows(_fields(tmp_path, BLOCK))
    casts = _moved(rows, "cast", Part.FORWARD)
    inputs = [one for one in casts if one[1:] == (320.0, 160.0)]
    assert sum(count for count, *_ in inputs) == pytest.approx(4.0)
    assert sum(count * read for count, read, _ in casts) == pytest.approx(4 * 320 + 4 * 768)
    back = [one for one in _moved(rows, "cast_gradient", Part.INPUT_GRADIENT) if one[1] == 160.0]
    assert {one[1:] for one in back} == {(160.0, 320.0)}
    added = _moved(rows, "add", Part.INPUT_GRADIENT)
    assert sum(count for count, *_ in added) == pytest.approx(2.0)
    assert {one[1:] for one in added} == {(640.0, 320.0)}


def test_compilers_fuse_casts_and_keep_residuals_in_32_bits(tmp_path: Path) -> None:
    """A norm reads 4 bytes of a residual and writes 2, which products read."""
    rows = _rows(_fields(tmp_path, BLOCK, "inductor"))
    assert _moved(rows, "norm", Part.FORWARD) == [(2.0, 320.0, 160.0)]
    assert _moved(rows, "add", Part.FORWARD) == [(2.0, 480.0, 320.0)]
    assert (320.0, 160.0) not in {one[1:] for one in _moved(rows, "cast", Part.FORWARD)}


def test_networks_with_batch_norms_stay_in_16_bits(tmp_path: Path) -> None:
    rows = _rows(_fields(tmp_path, IMAGE))
    image = 2.0 * 262144
    assert _moved(rows, "norm", Part.FORWARD) == [(1.0, image, image)]
    assert _moved(rows, "batch_norm_sums", Part.FORWARD) == [(1.0, image, 0.0)]
    assert _moved(rows, "add", Part.FORWARD) == [(1.0, 2.0 * image, image)]
    assert _moved(rows, "batch_norm_gradient", Part.INPUT_GRADIENT) == [(1.0, 4.0 * image, image)]


def test_a_thread_block_reduces_a_channel_of_nchw(tmp_path: Path) -> None:
    """64 channels of 128 images, one block each: 2 x 4,096 x 128 bytes at 1.32 per clock.

    In NHWC all SMs reduce all channels.
    """
    channel = 2.0 * 4096 * 128
    for engine, expected in (
        ("pytorch", channel / 1.32 / CLOCK_HZ),
        ("pytorch_channels_last", 64 * channel / (2.5 * SMS * CLOCK_HZ)),
    ):
        rows = _rows(_fields(tmp_path, IMAGE, engine, batch=128))
        (time,) = [one for row, one in rows if getattr(row.operator, "stream", "").endswith("sums")]
        assert 0.87 * time == pytest.approx(expected, rel=1e-3)  # pass_speed of Hopper


def test_gradients_of_convolutions_take_longer_than_products(tmp_path: Path) -> None:
    """The data gradient of 3 x 3 takes 1.34 times its forward pass, which has its size."""
    rows = _rows(_fields(tmp_path, IMAGE, "pytorch_channels_last", batch=128))
    times = {
        row.part: time
        for row, time in rows
        if isinstance(row.operator, Gemm) and row.operator.name == "conv_2"
    }
    assert times[Part.INPUT_GRADIENT] / times[Part.FORWARD] == pytest.approx(1.34)


def test_a_bias_is_summed_over_rows(tmp_path: Path) -> None:
    """65,536 rows of 1,024 columns: 264 blocks for each 128, whose 512 bytes one block adds."""
    node = '{ kind = "linear", count = 1, m = "65536 * batch", n = 1024, k = 1024 },\n' * 2
    rows = _rows(_fields(tmp_path, node))
    found = [(one, time) for row, time in rows if (one := _bias(row)) is not None]
    assert len(found) == 2
    operator, time = found[0]
    assert operator.read_bytes[0] == 2.0 * 65536 * 1024
    assert operator.row_bytes == pytest.approx([264 * 512])
    last = 264 * 512 / 2.2 / CLOCK_HZ
    alone = 0.87 * time  # pass_speed of Hopper
    assert last + operator.read_bytes[0] / 3.35e12 < alone < last + operator.read_bytes[0] / 2.5e12


def _bias(row: Row) -> Streaming | None:
    is_bias = row.operator.stream_kind == "bias_gradient"
    return row.operator if is_bias and isinstance(row.operator, Streaming) else None


def test_pooling_of_whole_images_is_a_mean(tmp_path: Path) -> None:
    head = '  { kind = "pool", read = "262144 * batch", write = "64 * batch", after = "add" },\n'
    names = {
        getattr(row.operator, "stream", "") for row, _ in _rows(_fields(tmp_path, IMAGE + head))
    }
    assert "strided_gradient" in names
    assert "pool_gradient" not in names


def test_networks_that_permute_images_run_kernels_of_nhwc() -> None:
    """ConvNeXt normalizes channels of NCHW images, which are NHWC from then on."""
    step: dict[str, Any] = {"system": "h100_sxm", "global_batch": 32, "micro_batch": 32, "gpus": 1}
    plain, last = (
        perfatlas.train(model="convnext-tiny", engine=engine, **step).results["step_time_s"]
        for engine in ("pytorch", "pytorch_channels_last")
    )
    assert plain == pytest.approx(last)


def test_compiled_steps_are_no_slower_and_keep_no_more() -> None:
    step: dict[str, Any] = {"system": "h100_sxm", "global_batch": 64, "micro_batch": 64, "gpus": 1}
    for model in ("vit-base-16", "bert-base", "resnet-50"):
        eager, compiled = (
            perfatlas.train(model=model, engine=engine, **step).results
            for engine in ("pytorch", "inductor")
        )
        assert compiled["step_time_s"] < eager["step_time_s"]
        kept = [one["memory"]["activation_bytes"] for one in (compiled, eager)]
        assert kept[0] <= kept[1]
