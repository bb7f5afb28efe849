"""Products of a format whose kernels have the parameters of another one."""

from __future__ import annotations

import pytest

from perfatlas.verbs.estimate import estimate


def latency_s(format_name: str, batch: int) -> float:
    answer = estimate(
        model="bert-base{sequence_length=128}",
        system="a100_sxm",
        engine="tensorrt",
        format=format_name,
        batch=batch,
    )
    (cell,) = {row["calibration"] for row in answer.breakdown if row["name"].startswith("linear")}
    assert cell == "a100_sxm/gemm/trtllm/bf16"
    seconds: float = answer.results["latency_s"]
    return seconds


def test_int8_saves_what_products_multiply_and_read_but_no_fixed_times() -> None:
    # published: 0.87 of fp16 at batch 1, 0.51 at 128 (NVIDIA/TensorRT demo/BERT)
    few, many = (latency_s("int8", batch) / latency_s("fp16", batch) for batch in (1, 128))
    assert 0.5 < many < few < 0.95


def products(model: str, engine: str) -> dict[str, tuple[float, float]]:
    answer = estimate(model=model, system="a100_sxm", engine=engine, format="fp16", batch=1)
    rows = [row for row in answer.breakdown if row["name"].startswith("linear")]
    return {row["name"]: (row["count"], row["flop"]) for row in rows}


def test_tensorrt_multiplies_queries_keys_and_values_at_once() -> None:
    joined, apart = (products("bert-base", engine) for engine in ("tensorrt", "ideal"))
    assert apart["linear_1"][0] == 48  # queries, keys, values and outputs of 12 layers
    assert (joined["linear_1"][0], joined["linear_1_attention_1"][0]) == (12, 12)
    flop, expected = (sum(flop for _, flop in one.values()) for one in (joined, apart))
    assert flop == pytest.approx(expected)
    assert joined["linear_1_attention_1"][1] == pytest.approx(3 * joined["linear_1"][1])


def test_networks_with_one_product_keep_it() -> None:
    joined, apart = (products("vit-base-16", engine) for engine in ("tensorrt", "ideal"))
    assert joined == apart
