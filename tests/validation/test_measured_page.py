"""Goals of tier measured, the page they are on, and rows beyond the sizes seen."""

from __future__ import annotations

from typing import Any

import pytest

from perfatlas.fitting.cells import MEASURED_DEVICES
from perfatlas.quantities import InvalidSpecError
from validation.kernels import UnseenScore, validate_measured
from validation.kernels.measured_medians import TUNED, median_rows
from validation.kernels.measured_page import measured_page
from validation.scoring import best_covered


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


def test_the_page_has_every_cell_and_marks_what_misses() -> None:
    best = best_covered("gemm", "bf16")
    medians = median_rows(
        [
            score(f"h100_sxm/gemm/{best}/bf16", "shape", 0.0789),
            score("h100_sxm/decode_attention/vllm/bf16", "shape", 0.03),
        ]
    )
    text = measured_page(medians)
    assert "**7.9**" in text
    assert (
        "| decode_attention | vllm | bf16 | shape | 1 | 100 | 9.0 | 10.0 | 3.0 | - | 3.0 |" in text
    )
    assert all(name in text for name in TUNED)
    assert set(TUNED) < set(MEASURED_DEVICES)


def test_names_that_were_not_measured_are_refused() -> None:
    with pytest.raises(InvalidSpecError, match="'h300'"):
        validate_measured(["h300"])
    with pytest.raises(InvalidSpecError, match="operator = 'gem'"):
        validate_measured(["h200_sxm"], ["gem"])
