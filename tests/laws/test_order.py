"""Roofline <= ideal engine <= every engine, of equal formats, plans and settings, on all GPUs."""

from __future__ import annotations

import random
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pytest

from perfatlas.hardware import resolve_system
from perfatlas.scenario.fields import Scenario
from perfatlas.scenario.resolution import resolve_scenarios
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.train import train_columns
from tests.laws.random_questions import log_uniform
from tests.laws.support import MODELS, all_systems, table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    Fields = dict[str, Any]

ROUNDING: Final = 1e-9
ENGINES: Final = ("vllm", "sglang", "trtllm")
NUMBER_FORMATS: Final = (None, "bf16", "fp8", "nvfp4", "int4_wo", "mxfp4_mxfp4")
PLANS: Final[tuple[Fields, ...]] = (
    *({}, {}, {"pp": 2}, {"pp": 4}, {"cp": 2}, {"ep": 4}, {"ep": 8}),
    *({"attention_dp": 2}, {"attention_dp": 8}, {"kv_format": "fp8"}),
)
TIMES: Final = ("ttft_s", "tpot_s", "request_latency_s")
TRAINED: Final = (
    *("meta-llama/Llama-3.1-8B", "Qwen/Qwen3-0.6B", "nvidia/NVIDIA-Nemotron-Nano-9B-v2"),
    *("deepseek-ai/DeepSeek-V2-Lite", "Qwen/Qwen3-30B-A3B", "openai/gpt-oss-20b"),
    *("mistralai/Mixtral-8x7B-v0.1", "ai21labs/Jamba-v0.1"),
)
DENSE: Final = TRAINED[:3]
TRAINERS: Final = ("megatron", "torchtitan", "automodel", "fsdp", "generic", "hai_llm")
# experts that gradients of few tokens read from memory whole, on a device without calibrations
FEW_TOKENS: Final[Fields] = {
    "model": "ai21labs/Jamba-v0.1", "system": "cpu", "tp": 8, "pp": 4, "cp": 2, "dp": 1, "ep": 8,
    "vpp": 1, "pipeline_schedule": "1f1b", "sequence_length": 512, "micro_batch": 1,
    "global_batch": 8, "zero": "0", "recompute": "selective", "format": "bf16",
    "gradient_format": "fp32", "moment_format": "fp32", "expert_distribution": "balanced",
    "dispatcher": "deepep", "cuda_graphs": "none",
}  # fmt: skip


@cache
def _gpus() -> tuple[str, ...]:
    return tuple(name for name in all_systems() if resolve_system(name).device.kind == "gpu")


def _served(rng: random.Random) -> Fields:
    """Return a static batch."""
    return {
        "model": rng.choice(MODELS),
        "system": rng.choice(_gpus()),
        "engine": rng.choice(ENGINES),
        "tp": rng.choice((1, 2, 4, 8, 16)),
        "batch": log_uniform(rng, 1, 512),
        "isl": log_uniform(rng, 1, 16384),
        "osl": log_uniform(rng, 2, 1024),
        "format": rng.choice(NUMBER_FORMATS),
        **rng.choice(PLANS),
    }


def _as_run(fields: Fields) -> Fields:
    """Return what an engine runs, of the ideal engine: formats, exchange, prompts of a step.

    Which exchange of tokens is fastest depends on the plan: the ideal engine has one by default.
    Prompts that are cut read their cache again.
    """
    answer = estimate(**fields)
    slow = [row for row in answer.breakdown if row["time_s"] < row["bound_time_s"] * (1 - ROUNDING)]
    assert not slow, (fields, slow[:2])
    question, problems = resolve_scenarios([Scenario.read(fields)])
    assert question is not None, problems
    own = {name: value for name, value in answer.scenario.items() if name.endswith("_format")}
    if fields.get("attention_dp", 1) > 1:
        own["expert_exchange"] = question.profile.expert_exchange
    tokens = int(question.limits.max_num_batched_tokens[0])
    if not question.profile.scheduler.chunked_prefill:  # whole prompts, as many as there is room
        tokens -= tokens % fields["isl"]
    return {**fields, "format": None, **own, "engine": "ideal", "max_num_batched_tokens": tokens}


def _broken(
    names: Sequence[str],
    rows: Sequence[Fields],
    least: dict[str, list[Any]],
    most: dict[str, list[Any]],
) -> list[tuple[str, float, Fields]]:
    """Return the rows of which the second table has a shorter time, with the ratio."""
    return [
        (name, low / high, row)
        for name in names
        if name in most  # absent where no row is answered
        for low, high, row in zip(least[name], most[name], rows, strict=True)
        if low is not None and high is not None and low > high * (1.0 + ROUNDING)
    ]


def _check_served(draws: int, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - draws of a test
    drawn = [_served(rng) for _ in range(draws)]
    codes = table_of(drawn)["error_code"]
    rows = [
        {name: value for name, value in row.items() if value is not None}
        for row, code in zip(drawn, codes, strict=True)
        if not code
    ]
    assert len(rows) > draws // 4
    same = [_as_run(row) for row in rows]
    real, ideal = table_of(rows), table_of(same)
    bound, own = (table_of(some, tier="bound") for some in (same, rows))
    assert not any(ideal["error_code"])
    assert not any(bound["error_code"])
    for least, most in ((bound, ideal), (own, real), (ideal, real)):
        broken = _broken(TIMES, rows, least, most)
        assert not broken, (len(broken), broken[:3])


def _trained(rng: random.Random) -> Fields:
    """Return a training step of which all settings of an engine are given."""
    model, pp = rng.choice(TRAINED), rng.choice((1, 1, 2, 4))
    chunks = rng.choice((1, 1, 2)) if pp > 1 else 1
    fields: Fields = {
        "model": model,
        "system": rng.choice(_gpus()),
        "tp": rng.choice((1, 1, 2, 4, 8)),
        "pp": pp,
        "vpp": chunks,
        "pipeline_schedule": "interleaved" if chunks > 1 else "1f1b",
        "cp": rng.choice((1, 1, 1, 2)),
        "dp": rng.choice((1, 2, 8, 64)),
        "micro_batch": rng.choice((1, 1, 2, 4)),
        "sequence_length": rng.choice((512, 2048, 8192)),
        "zero": rng.choice(("0", "1", "2", "3")),
        "recompute": rng.choice(("none", "selective", "full")),
        "format": rng.choice(("bf16", "bf16", "fp8", "fp8_static", "mxfp8", "nvfp4")),
        "gradient_format": rng.choice(("bf16", "fp32")),
        "moment_format": rng.choice(("bf16", "fp32")),
        "expert_distribution": rng.choice(("balanced", "uniform")),
    }
    if model not in DENSE:
        fields["ep"] = rng.choice((1, 2, 4, 8))
        fields["dispatcher"] = rng.choice(("alltoall", "deepep"))
        fields["cuda_graphs"] = rng.choice(("none", "attention", "full"))
    micro_batches = pp * rng.choice((1, 2, 4))
    return {**fields, "global_batch": fields["dp"] * fields["micro_batch"] * micro_batches}


def _steps(rows: Sequence[Fields], engine: str, tier: str = "auto") -> dict[str, list[Any]]:
    names = {name for row in rows for name in row}
    table: Fields = {name: [row.get(name) for row in rows] for name in names}
    return train_columns(table | {"engine": [engine] * len(rows), "tier": [tier] * len(rows)})


def _check_trained(rows: Sequence[Fields]) -> None:
    ideal = _steps(rows, "ideal")
    assert sum(step_s is not None for step_s in ideal["step_time_s"]) >= len(rows) // 5
    tables = [(_steps(rows, "ideal", "bound"), ideal)]
    tables += [(ideal, _steps(rows, engine)) for engine in TRAINERS]
    for least, most in tables:
        broken = _broken(("step_time_s",), rows, least, most)
        assert not broken, (len(broken), broken[:3])


def test_served_times_are_in_order() -> None:
    _check_served(120, seed=2)


def test_training_steps_are_in_order() -> None:
    rng = random.Random(1)  # noqa: S311 - draws of a test
    _check_trained([FEW_TOKENS, *(_trained(rng) for _ in range(24))])


@pytest.mark.study
@pytest.mark.parametrize("seed", [5, 6])
def test_many_served_times_are_in_order(seed: int) -> None:
    _check_served(2000, seed)


@pytest.mark.study
def test_many_training_steps_are_in_order() -> None:
    rng = random.Random(7)  # noqa: S311 - draws of a test
    _check_trained([_trained(rng) for _ in range(400)])
