from __future__ import annotations

from typing import Any

import pytest

from perfatlas.networks import resolve_model
from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.interrupted_jobs import Goodput, StepFacts, measured_step
from perfatlas.verbs.goodput import goodput

STEP = {
    "model": "meta-llama/Llama-3.1-405B",
    "system": "h100_sxm",
    "step_time_s": 6.2,
    "tokens_per_step": 16 * 2**20,
}


def facts_of(fields: dict[str, Any]) -> StepFacts:
    return measured_step(Goodput.read(fields))


def test_mfu_by_hand() -> None:
    # 405,853,388,800 parameters, of which 128,256 x 16,384 are the input embedding:
    # 6 x 403,752,042,496 x 16,777,216 / 6.2 s = 6.555e18 FLOP/s; 16,384 x 989.4e12 = 1.621e19
    facts = facts_of({**STEP, "gpus": 16_384})
    assert facts.mfu(16_384) == pytest.approx(6.5553e18 / 1.62103e19, rel=1e-4)
    assert facts.checkpoint_bytes == 14 * 405_853_388_800
    assert any("14 bytes" in text for text in facts.notes)
    assert any("is an input" in text for text in facts.notes)
    assert facts.mfu(32_768) == pytest.approx(facts.mfu(16_384) / 2)  # type: ignore[operator]


def test_experts_that_a_token_does_not_reach_do_no_work_and_are_saved() -> None:
    model = "deepseek-ai/DeepSeek-V3"
    counts = resolve_model(model).network.parameters()
    facts = facts_of({**STEP, "model": model, "tokens_per_step": 1000, "step_time_s": 1.0})
    assert facts.flop_per_s == pytest.approx(6000.0 * (counts.active - counts.embedding))
    assert facts.checkpoint_bytes == 14.0 * counts.total
    assert counts.active < counts.total / 10


def test_an_embedding_that_is_the_head_too_is_multiplied() -> None:
    model = "meta-llama/Llama-3.2-1B"
    counts = resolve_model(model).network.parameters()
    facts = facts_of({**STEP, "model": model, "tokens_per_step": 1, "step_time_s": 1.0})
    assert counts.lm_head == 0
    assert facts.flop_per_s == 6.0 * counts.active


def test_bytes_and_a_bandwidth_are_the_write_of_a_checkpoint() -> None:
    by_speed = goodput(
        mtti_s=28_440, restart_s=300, checkpoint_bytes=6e12, checkpoint_bytes_per_s=1e11
    )
    by_time = goodput(mtti_s=28_440, restart_s=300, checkpoint_write_s=60)
    assert by_speed.results == by_time.results
    assert any("100 GB/s" in text for text in by_speed.evidence.assumptions)
    of_model = goodput(
        mtti_s=28_440, restart_s=300, model=STEP["model"], checkpoint_bytes_per_s=1e11
    )
    assert of_model.results["goodput"] > by_time.results["goodput"]  # 5.68 TB, not 6


def test_a_job_without_a_step_has_no_step_facts() -> None:
    facts = facts_of({"mtti_s": 3600})
    assert (facts.mfu(8), facts.checkpoint_bytes, facts.write_s, facts.notes) == (*[None] * 3, ())


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"model": None}, "model missing"),
        ({"tokens_per_step": None}, "tokens_per_step missing"),
        ({"mfu": 0.4}, "mfu and step_time_s are mutually exclusive"),
        ({"format": "fp12"}, "has peaks of bf16"),
        ({"step_time_s": -1}, "step_time_s = -1"),
        ({"model": "meta-llama/Llama-3.1-405"}, "Llama-3.1-405B"),
        (
            {"checkpoint_bytes_per_s": 1e9, "checkpoint_write_s": 3},
            "checkpoint_write_s and checkpoint_bytes_per_s are mutually exclusive",
        ),
    ],
)
def test_incomplete_or_duplicate_steps_are_refused(changed: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidSpecError) as caught:
        facts_of(STEP | changed)
    assert words in str(caught.value)


def test_more_than_the_peak_is_refused() -> None:
    facts = facts_of(STEP)
    with pytest.raises(InvalidSpecError, match="peak FLOP/s of 1,024 GPUs"):
        facts.mfu(1024)
