"""Published measurements collected elsewhere: their questions, halves and scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from validation.laboratories import EXPLORED, HELD_OUT, half_of, outside_sources
from validation.serving import outside


def source(name: str, *rows: str) -> Mapping[str, Any]:
    """Return a source with some of its measurements."""
    found = next(one for one in outside_sources() if one["id"] == name)
    return {**found, "rows": [row for row in found["rows"] if row["id"] in rows]}


@pytest.fixture(scope="module")
def found() -> Any:  # noqa: ANN401 - a fixture's value
    few = (
        source("mamf", "mamf-a100-bf16", "mamf-mi300x-bf16"),
        source("nccl-h200", "nccl-h200-4g"),
        source("automodel", "automodel-super120b"),
        source("lmdeploy", "lmdeploy-7b-1-128-2048"),
        source("matmul", "matmul-t4"),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outside, "outside_sources", lambda: few)
        return outside.validate_outside()


def test_halves_follow_from_the_names() -> None:
    halves = [half_of(f"bloom-{batch}") for batch in (1, 8, 32, 128)]
    assert set(halves) == {EXPLORED, HELD_OUT}
    explored = [0, 0, 0, 0, 0]
    for one in outside_sources():
        own = [(one.get("half") or half_of(row["id"])) == EXPLORED for row in one["rows"]]
        explored[one["batch"] - 1] += sum(own)
    assert explored == [104, 63, 150, 69, 10]


def test_medians_over_measurements() -> None:
    rows = [
        {
            "predicted": 2.0,
            "published": 1.0,
            "error": 1.0,
            "inside_90": False,
            "low": 1.5,
            "high": 3.0,
            "id": "a",
            "source": "one",
        },
        {
            "predicted": 1.0,
            "published": 2.0,
            "error": -0.5,
            "inside_90": True,
            "low": 0.5,
            "high": 2.0,
            "id": "b",
            "source": "another",
        },
    ]
    summary = outside._summary({"rows": "two"}, rows)
    assert summary["median_error"] == pytest.approx(0.75)
    assert summary["bias"] == pytest.approx(0.0)  # a factor of two each way
    assert (summary["inside_90"], summary["width"]) == (0.5, 3.0)
    # ln 2 and ln 4 wide; 1 lies ln 1.5 below 1.5. A constant is the error of the other source
    assert summary["interval_score"] == pytest.approx((3 * np.log(2) + 20 * np.log(1.5)) / 2)
    assert summary["constant_width_score"] == pytest.approx(20 * np.log(4))
