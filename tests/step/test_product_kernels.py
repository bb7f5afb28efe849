"""Products of a format whose kernels have the parameters of another one."""

from __future__ import annotations

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
