"""Experts in a format of fewer bits that tensor cores multiply natively are faster than in bf16."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from perfatlas.engines import resolve_engine, runs_on
from perfatlas.hardware import resolve_system, system_names
from perfatlas.verbs.kernel import kernel_columns

SHAPES: Final = (  # hidden, intermediate, experts, top_k
    (2048, 768, 128, 8),
    (2880, 2880, 128, 4),
    (7168, 2048, 256, 8),
    (4096, 14336, 8, 2),
    (2048, 512, 512, 10),
)
TOKENS: Final = (1, 16, 64, 256, 1024, 8192)
NATIVE: Final = {"fp8_dynamic": "fp8", "fp8_block": "fp8", "nvfp4": "fp4", "mxfp4_mxfp8": "fp4"}
# known to be wrong: the kernels of H200 that price them quantize too slowly for their bandwidth
TOO_SLOW: Final = {("mtia_450", "vllm", "fp8_block"), ("mtia_500", "vllm", "fp8_block")}
ENGINES: Final = ("vllm", "sglang", "trtllm")
DEVICES: Final = tuple(resolve_system(name).device for name in system_names())
CASES: Final = tuple(
    (device.name, engine)
    for device in DEVICES
    for engine in ENGINES
    if device.kind == "gpu" and {"bf16", "fp8"} <= device.peak_flop_per_s.keys()
    if runs_on(resolve_engine(engine), device)
)


def times_s(system: str, engine: str, number_format: str) -> list[float]:
    """Return the times of all shapes at all numbers of tokens."""
    rows = [(tokens, *shape) for shape in SHAPES for tokens in TOKENS]
    names = ("tokens", "hidden", "intermediate", "experts", "top_k")
    table = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    fixed = {"system": system, "kernel_family": engine, "format": number_format}
    columns = kernel_columns(
        "moe", table | {name: [value] * len(rows) for name, value in fixed.items()}
    )
    assert not any(columns["error_code"])
    return columns["time_s"]


@pytest.mark.parametrize(("system", "engine"), CASES)
def test_experts_of_fewer_bits_are_faster_on_average(system: str, engine: str) -> None:
    device = resolve_system(system).device
    base_s = np.array(times_s(system, engine, "bf16"))
    for name, peak in NATIVE.items():
        if peak in device.peak_flop_per_s and not (name == "nvfp4" and device.vendor != "NVIDIA"):
            ratio = np.exp(np.log(np.array(times_s(system, engine, name)) / base_s).mean())
            assert (ratio < 1.0) != ((system, engine, name) in TOO_SLOW), name
