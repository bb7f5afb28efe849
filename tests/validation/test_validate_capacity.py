from __future__ import annotations

import math

import pytest

from perfatlas.hardware import system_names
from perfatlas.quantities import InvalidSpecError
from validation.serving import validate_capacity
from validation.serving.capacity import capacity_runs, gate, parse_capacity_runs

ONE = """
title = "one"
[[run]]
id = "a"
engine = "vllm"
version = "0.11.0"
tokens = 1000
source = "a page"
[run.scenario]
model = "meta-llama/Llama-3.1-8B"
system = "h200_sxm"
"""


def test_errors_stay_inside_their_budget() -> None:
    found = validate_capacity()
    assert found["failures"] == []
    assert found["scored"] == len(found["runs"]) == found["totals"][0]["rows"]
    assert {row["group"] for row in found["totals"]} >= {"all", "vllm", "not informed"}
    for row in found["runs"]:
        assert row["error"] == pytest.approx(row["predicted"] / row["published"] - 1.0)
        assert math.copysign(1.0, row["gap_bytes"]) == math.copysign(1.0, row["error"])


def test_printed_weights_are_met() -> None:
    # engines also count rotary tables and rounding of their allocator
    for row in validate_capacity()["runs"]:
        if row["weights_gap_bytes"] is not None and row["version"] != "0.7.2":
            assert abs(row["weights_gap_bytes"]) < 0.07 * 2**30, row["id"]


def test_runs_are_predicted_by_the_release_they_name() -> None:
    # what is known of a release stands in its profile, and a run is what a user of it gets
    runs = capacity_runs().runs
    assert {run.version for run in runs} == {run.scenario.engine.split("@")[1] for run in runs}


@pytest.mark.parametrize("stated", ["", 'tokens = 1000\ncache = "1 GiB"'])
def test_a_run_states_tokens_or_memory(stated: str) -> None:
    assert parse_capacity_runs(ONE).runs[0].tokens == 1000
    with pytest.raises(InvalidSpecError, match="exactly one of tokens and cache"):
        parse_capacity_runs(ONE.replace("tokens = 1000", stated))


def test_a_budget_that_is_exceeded_is_named() -> None:
    total = {"group": "all", "median_error": 0.031, "p90_error": 0.2}
    assert gate(total, {"median_error": 0.03, "p90_error": 0.2}) == [
        "median_error of all is 3.1%, above its budget of 3.0%"
    ]


def test_no_run_is_left_out_for_a_device_that_the_catalog_has() -> None:
    reasons = [row["reason"] for row in validate_capacity()["left_out"]]
    named = [why.split(" is not in the catalog")[0] for why in reasons if "in the catalog" in why]
    known = {name.replace("_", "") for name in system_names()}
    found = {"".join(filter(str.isalnum, name)).casefold() for name in named}
    assert found, reasons  # of one that it has not
    assert not found & known
