"""The release of an engine that a measured run was served with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.validation.test_validate_steps import RULES, run
from tests.validation.test_validate_traffic import LAUNCHES
from validation.runs import ServingRun
from validation.runs.predictions import run_question
from validation.runs.run_release import engine_release
from validation.runs.run_selection import parse_serving_rules

ASYNC = LAUNCHES.replace("async_scheduling = false", "async_scheduling = true")


@pytest.mark.parametrize(
    ("fields", "engine"),
    [
        ({"backend": "sglang", "version": "0.5.10.post1"}, "sglang@0.5.10"),
        ({"backend": "trtllm", "version": "1.2.0rc6.post2"}, "trtllm@1.2.0"),
        ({"backend": "sglang", "version": "nightly-dev", "date": "2026-03-31"}, "sglang@0.5.9"),
        ({"backend": "sglang", "version": "", "date": "2026-04-30"}, "sglang@0.5.10"),
        ({"backend": "sglang", "version": "", "date": "2025-01-01"}, "sglang@0.5.9"),
        ({"backend": "sglang", "version": "", "date": ""}, "sglang"),
    ],
)
def test_a_run_has_the_release_it_states_or_that_of_its_day(
    fields: dict[str, Any], engine: str
) -> None:
    assert engine_release(asked(**fields), parse_serving_rules(RULES)) == engine


def test_a_launch_with_asynchronous_scheduling_has_a_release_that_does_so() -> None:
    early = asked(backend="vllm", version="0.11.0", date="")
    plain, launched = (parse_serving_rules(RULES + text) for text in (LAUNCHES, ASYNC))
    assert engine_release(early, plain) == "vllm@0.11.0"
    assert engine_release(early, launched) == "vllm@0.14"


def test_equal_requests_stay_together_where_prompts_run_first() -> None:
    rules = parse_serving_rules(RULES + LAUNCHES)
    served = {"as_served": True}
    first = run_question(asked(backend="sglang", version="0.5.9", kind="other"), rules, served)
    assert first["requests_per_client"] == 10
    assert (first["engine"], first["scheduler_recv_interval"]) == ("sglang@0.5.9", 10)
    spread = run_question(asked(backend="sglang", version="0.5.9", kind="dump"), rules, served)
    mixed = run_question(asked(backend="vllm", version="0.24", kind="other"), rules, served)
    plain = run_question(asked(backend="sglang", version="0.5.9", kind="other"), rules, {})
    assert [one["requests_per_client"] for one in (spread, mixed, plain)] == [None] * 3
    assert plain["engine"] == "sglang@0.5.9"


def asked(**fields: Any) -> ServingRun:  # noqa: ANN401 - fields of a run
    return replace(run(), **fields)
