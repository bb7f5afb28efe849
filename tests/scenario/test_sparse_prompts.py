from __future__ import annotations

from perfatlas.verbs.estimate import estimate


def assumptions(isl: int) -> tuple[str, ...]:
    answer = estimate(
        model="deepseek-ai/DeepSeek-V3.2",
        system="h200_sxm",
        engine="sglang",
        tp=8,
        isl=isl,
        osl=100,
        batch=1,
    )
    return answer.evidence.assumptions


def test_short_prompts_of_sparse_attention_are_remarked_on() -> None:
    assert any("dense attention" in line for line in assumptions(2048))
    assert not any("dense attention" in line for line in assumptions(2049))
