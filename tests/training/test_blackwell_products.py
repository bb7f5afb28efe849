"""Speeds of products on Blackwell follow from published times of Transformer Engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

import perfatlas
from perfatlas.networks import ModelFormats
from perfatlas.training.profiles import resolve_training_engine
from perfatlas.training.step import training_steps
from tests.training.asked import BF16, layouts, question

TOKENS: Final = 15_872
WEIGHTS: Final = ((4096, 12_288), (4096, 4096), (4096, 16_384), (16_384, 4096))
# Transformer Engine documentation, gemm_profiling: a layer on B300, quantized inputs [ms]
PUBLISHED_MS: Final = {"bf16": 13.102, "fp8": 6.812, "mxfp8": 7.161, "nvfp4": 3.764}
PRICED_AS: Final = {"bf16": "bf16", "fp8": "fp8_dynamic", "mxfp8": "fp8_dynamic", "nvfp4": "nvfp4"}


def _layer_ms(format_name: str) -> float:
    """Return the twelve products of a layer as the calibrations of B300 price them [ms]."""
    total_s = 0.0
    for k, n in WEIGHTS:
        for rows, columns, inner in ((TOKENS, n, k), (TOKENS, k, n), (n, k, TOKENS)):
            answer = perfatlas.kernel_gemm(
                system="b300_sxm",
                m=rows,
                n=columns,
                k=inner,
                format=format_name,
                quantization="excluded",
            )
            total_s += answer.results["time_s"]
    return 1e3 * total_s


def test_speeds_are_those_of_the_published_layer() -> None:
    engine = resolve_training_engine("megatron")
    priced = {name: _layer_ms(name) for name in sorted(set(PRICED_AS.values()))}
    speed = {name: priced[PRICED_AS[name]] / ms for name, ms in PUBLISHED_MS.items()}
    for name in ("fp8", "mxfp8", "nvfp4"):
        stated = getattr(engine, f"blackwell_speed_{name}")
        assert stated == pytest.approx(speed[name] / speed["bf16"], rel=0.02), name


def test_nvfp4_gains_over_fp8_what_its_kernels_gain() -> None:
    # kernels alone gain 1.8; attention, norms and quantizers gain nothing
    job: dict[str, Any] = {
        "model": "meta-llama/Llama-3.1-405B",
        "gpus": 256,
        "tp": 4,
        "pp": 16,
        "vpp": 8,
        "sequence_length": 8192,
        "global_batch": 1024,
        "recompute": "selective",
    }
    times = {
        (system, name): perfatlas.train(**job, system=system, format=name).results["step_time_s"]
        for system in ("gb200", "gb300")
        for name in ("fp8", "nvfp4")
    }
    for system in ("gb200", "gb300"):
        assert 1.2 < times[system, "fp8"] / times[system, "nvfp4"] < 1.8


def test_speeds_apply_to_quantized_products_on_blackwell() -> None:
    engine = replace(resolve_training_engine("megatron"), blackwell_speed_fp8=1.0)
    half = replace(engine, blackwell_speed_fp8=0.5)
    fp8 = ModelFormats(gemm="fp8_dynamic", moe="fp8_dynamic", kv="bf16", attention="bf16")

    def step_s(system: str, formats: ModelFormats) -> list[float]:
        asked = [
            question(layouts(dp=8), system=system, formats=formats, engine=one)
            for one in (engine, half)
        ]
        return [float(training_steps(one).step_s_C[0]) for one in asked]

    whole, slower = step_s("gb200", fp8)
    assert 1.3 < slower / whole < 2.0
    for system, formats in (("gb200", BF16), ("h100_sxm", fp8)):
        same = step_s(system, formats)
        assert same[0] == same[1]
