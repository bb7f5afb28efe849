"""What prompts cost beside decodes in a pipeline: closed forms and simulation."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Literal

import numpy as np
import pytest

from perfatlas import estimate
from perfatlas.inference.composition import prompts_in_stages

LLAMA_70B, LLAMA_8B = "meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.1-8B"
# model, tp, pp, tokens in, tokens out, requests in flight
LOADS = (
    (LLAMA_70B, 2, 4, 1024, 256, 1),
    (LLAMA_70B, 2, 4, 512, 512, 4),
    (LLAMA_70B, 2, 4, 4096, 512, 16),
    (LLAMA_70B, 2, 4, 1024, 128, 64),
    (LLAMA_70B, 4, 2, 1024, 128, 64),
    (LLAMA_70B, 1, 8, 1024, 256, 64),
    (LLAMA_70B, 1, 8, 2048, 128, 32),
    (LLAMA_70B, 2, 3, 512, 128, 32),  # 80 layers in three stages
    (LLAMA_8B, 1, 5, 2000, 200, 160),
    (LLAMA_8B, 1, 2, 2000, 200, 96),
    (LLAMA_70B, 2, 4, 16384, 256, 8),  # prompts of two chunks
    (LLAMA_8B, 1, 4, 256, 64, 128),  # two prompts start per decoded token
)


def tpot_s(
    load: tuple[str, int, int, int, int, int],
    method: Literal["formula", "simulate"],
    engine: str,
    requests_per_client: int | None = None,
) -> float:
    model, tp, pp, isl, osl, concurrency = load
    answer = estimate(
        model=model,
        system="h100_sxm",
        engine=engine,
        tp=tp,
        pp=pp,
        isl=isl,
        osl=osl,
        concurrency=concurrency,
        mode="aggregated",
        method=method,
        requests_per_client=requests_per_client,
    )
    return float(answer.results["tpot_s"])


@pytest.mark.parametrize(
    "engine", ["vllm@0.24", pytest.param("trtllm@1.0", marks=pytest.mark.study)]
)
def test_closed_form_agrees_with_the_simulation(engine: str) -> None:
    formula = np.array([tpot_s(load, "formula", engine) for load in LOADS])
    simulated = np.array([tpot_s(load, "simulate", engine) for load in LOADS])
    error = formula / simulated - 1.0
    assert np.abs(error).max() < 0.10, error
    assert np.abs(error).mean() < 0.04, error


@pytest.mark.parametrize(
    ("evenly", "per_step", "cost_s"),
    [
        (True, 0.0, 4.0),  # alone: (1 + 4 - 1) x 1 s
        (True, 0.25, 4.0),  # one per cycle of four micro-batches: no two overlap
        (True, 0.5, 2.0),  # two per cycle
        (True, 1.0, 1.0),  # a chunk in every step fills the pipeline
        (False, 0.0, 4.0),
        (False, 0.25, 4.0 / 1.75),
        (False, 1.0, 1.0),
        (False, 3.0, 1.0),  # prompts queue
    ],
)
def test_cost_of_one_chunk_of_a_second(evenly: bool, per_step: float, cost_s: float) -> None:  # noqa: FBT001
    one = np.ones(1)
    for stages, expected_s in ((4.0, cost_s), (1.0, 4.0)):
        load = SimpleNamespace(
            question=SimpleNamespace(
                plan=SimpleNamespace(pp=stages * one), load=SimpleNamespace(rounds=math.nan * one)
            ),
            chunks=SimpleNamespace(count=one, last_count=0.0 * one),
            mixed_steps=per_step * stages * one,
            micro_batches=stages * one,
            stage_share=one / stages,
            evenly=np.array([evenly]),
        )
        found_s = prompts_in_stages(load, 4.0 * one, 4.0 * one)  # type: ignore[arg-type]
        assert found_s == pytest.approx(expected_s)
        full_s = prompts_in_stages(load, 4.0 * one, 4.0 * one, filled=True)  # type: ignore[arg-type]
        assert full_s == pytest.approx(4.0 / stages)


@pytest.mark.parametrize(
    "load",
    [
        (LLAMA_70B, 1, 8, 2048, 128, 256),
        (LLAMA_70B, 2, 4, 1024, 256, 256),
        (LLAMA_70B, 2, 4, 4096, 512, 64),
    ],
)
def test_clients_that_start_together_fill_the_pipeline(
    load: tuple[str, int, int, int, int, int],
) -> None:
    formula, simulated = (
        tpot_s(load, way, "trtllm@1.0", requests_per_client=8) for way in ("formula", "simulate")
    )
    assert formula == pytest.approx(simulated, rel=0.1)
    assert formula < 0.6 * tpot_s(load, "formula", "trtllm@1.0")
