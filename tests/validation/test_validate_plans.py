"""Choices among measured deployments: values by hand, and the published runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from validation.runs.plan_choice import limited_choices, ranked_groups
from validation.serving.plans import missed_goals

if TYPE_CHECKING:
    from collections.abc import Sequence

    Row = dict[str, Any]


def _rows(measured: Sequence[float], predicted: Sequence[float]) -> list[Row]:
    """Return runs of one group at one request in flight, with these TPOT [s] and no TTFT."""
    return [
        {
            "network": "one", "system": "h200_sxm", "precision": "fp8", "isl": 8, "osl": 2,
            "backend": "vllm", "concurrency": 1, "tp": 1, "attention_dp": 1, "ttft_s": 0.0,
            "ttft_measured_s": 0.0, "tpot_measured_s": real, "tpot_s": found,
            "tpot_s_low": found / 2, "tpot_s_high": found * 2,
        }
        for real, found in zip(measured, predicted, strict=True)
    ]  # fmt: skip


def test_regret_is_what_the_predicted_best_lacks() -> None:
    row = ranked_groups(_rows([1.0, 2.0, 4.0, 8.0], [3.0, 2.0, 4.0, 8.0]))[0]
    # the second is chosen, whose throughput is half of the best; ranks 1 and 2 are exchanged
    assert row["regret_median"] == pytest.approx(0.5)
    assert row["spearman_median"] == pytest.approx(0.8)
    # rates 1, 1/2, 1/4, 1/8 have a mean of 15/32
    assert row["random_regret_mean"] == pytest.approx(17.0 / 32.0)
    assert missed_goals(row)[:2] == [
        "plan, load: regret_median = 0.500, goal 0.03",
        "plan, load: regret_p90 = 0.500, goal 0.12",
    ]


def test_a_perfect_prediction_has_no_regret_and_misses_no_limit() -> None:
    rows = _rows([1.0, 2.0, 4.0, 8.0], [1.0, 2.0, 4.0, 8.0])
    assert missed_goals(ranked_groups(rows)[0]) == []
    point, *_ = limited_choices(rows)
    assert (point["choices"], point["missed_share"], point["regret_mean"]) == (3, 0.0, 0.0)


def test_a_required_probability_avoids_a_miss() -> None:
    # limits 1.75, 2.5 and 3.25: the prediction of the third is too low
    rows = _rows([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 0.9, 4.0])
    shares = [row["missed_share"] for row in limited_choices(rows)]
    assert shares[0] == pytest.approx(2.0 / 3.0)
    assert shares == sorted(shares, reverse=True)
