"""Goals of tier measured, the page they are on, and rows beyond the sizes seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from validation.kernels import UnseenScore
from validation.kernels.measured_medians import median_rows
from validation.kernels.measured_page import FIRST, LAST, miss_reasons
from validation.scoring import best_covered

PAGE = Path(__file__).parents[2] / "validation" / "pages" / "measured.md"


def score(cell: str, unseen: str, error: float, physics: float = 0.1) -> UnseenScore:
    return UnseenScore(
        cell=cell,
        unseen=unseen,
        rows=100,
        physics_mape=physics,
        measured_mape=error,
        inside_90=0.9,
        half_width=0.1,
        near=1.0,
    )


def row(*scores: UnseenScore) -> dict[str, Any]:
    (found,) = median_rows(scores)
    return found


def test_a_goal_holds_as_written_for_the_best_covered_engine_and_at_1_5_for_others() -> None:
    best = best_covered("gemm", "bf16")
    other = next(name for name in ("vllm", "trtllm", "sglang") if name != best)
    assert row(score(f"h200_sxm/gemm/{best}/bf16", "shape", 0.07))["goal_mape"] == 0.06
    assert row(score(f"h200_sxm/gemm/{other}/bf16", "shape", 0.07))["goal_mape"] == 0.09
    # layouts of a known model are held to less than whole models
    best = best_covered("moe", "bf16")
    assert row(score(f"h200_sxm/moe/{best}/bf16", "layout", 0.07))["goal_mape"] == 0.06
    assert row(score(f"h200_sxm/moe/{best}/bf16", "model", 0.07))["goal_mape"] == 0.16
    assert row(score("h200_sxm/gemm/trtllm/int8", "shape", 0.07))["goal_mape"] is None
    assert row(score(f"h200_sxm/gemm/{best}/bf16", "edge", 0.07))["goal_met"] == "-"


@pytest.mark.parametrize(
    ("tuned", "others", "met"),
    [(0.05, 0.05, "yes"), (0.03, 0.07, "no"), (0.09, 0.05, "no"), (0.0604, 0.0604, "yes")],
)
def test_neither_all_gpus_nor_the_untouched_ones_may_be_above(
    tuned: float, others: float, met: str
) -> None:
    best = best_covered("gemm", "bf16")
    devices = {"a100_sxm": tuned, "h200_sxm": tuned, "h100_sxm": others, "gb200": others}
    found = row(*(score(f"{d}/gemm/{best}/bf16", "shape", e) for d, e in devices.items()))
    assert (found["tuned_gpus"], found["others_gpus"]) == (2, 2)
    assert (found["tuned_mape"], found["others_mape"]) == (tuned, others)
    assert found["measured_mape"] == pytest.approx((tuned + others) / 2.0)
    assert found["goal_met"] == met


def test_collectives_are_those_of_gpus_with_nvlink() -> None:
    fast, slow = (
        score(f"{d}/all_gather/nccl/any", "size", e) for d, e in (("h200_sxm", 0.04), ("l40s", 0.3))
    )
    found = row(fast, slow)
    assert (found["gpus"], found["rows"], found["measured_mape"]) == (1, 100, 0.04)
    assert found["goal_met"] == "yes"


def test_the_page_of_the_project_is_generated_and_every_miss_has_a_reason() -> None:
    text = PAGE.read_text("utf-8")
    generated = text.partition(FIRST)[2].partition(LAST)[0]
    assert "python -m validation measured --page validation/pages/measured.md" in generated
    missed = [line for line in generated.splitlines() if line.startswith("- ")]
    assert missed
    assert not [line for line in missed if line.endswith("Not investigated.")]
    for reason in miss_reasons():
        assert reason["why"] in generated, f"{reason} meets its goal: take the reason out"
