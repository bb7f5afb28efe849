"""A sample of the golden questions, and the comparer itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.golden.answers import (
    NOTHING,
    TOLERANCE,
    Golden,
    KeyMap,
    differences,
    environment,
    metrics_since,
    read_answers,
    read_key_map,
    write_answers,
)
from tests.golden.flatten import Scalar, flatten
from tests.golden.pool import Answerer
from tests.golden.question import Question, has_silicon, read_questions

EVERY: Final = 36  # of each stratum; `make golden` asks all
QUESTIONS: Final = read_questions()
# recorded with the machine code of their scheduler alone; here asked of that of all schedulers
OTHER_SCHEDULERS: Final = {
    *("simulate-schedulers-03", "simulate-schedulers-12"),  # SGLang, static
    *("simulate-engines-06", "simulate-engines-09"),  # TensorRT-LLM, the ideal engine
}
FIRST: Final = {question.verb: question.name for question in reversed(QUESTIONS)}
SAMPLE: Final = [
    number
    for number, question in enumerate(QUESTIONS)
    if int(question.name.rpartition("-")[2]) % EVERY == 0
    or question.name in {*FIRST.values(), *OTHER_SCHEDULERS}
]
VERBS: Final = {
    *("estimate", "simulate", "collective", "goodput"),
    "goodput spares",
    *("kernel gemm", "kernel attention", "kernel moe"),
    *("fleet schedule", "fleet import", "fleet fit", "fleet report"),
    *(f"catalog {kind}" for kind in ("systems", "models", "formats")),
    *(f"catalog {kind}" for kind in ("engines", "rates", "durations")),
}
NO_CHANGE: Final = KeyMap()


@cache
def recorded() -> tuple[Golden, KeyMap, set[str]]:
    """Return the recorded answers of the sample, the reviewed keys, and all names: 40 MB less."""
    golden = read_answers()
    sampled = {QUESTIONS[n].name: golden.answers[QUESTIONS[n].name] for n in SAMPLE}
    keys = read_key_map(recorded=golden.answers)
    return replace(golden, answers=sampled), keys, {*golden.answers}


@pytest.fixture(scope="module")
def answerer() -> Iterator[Answerer]:
    with Answerer(few_units=True) as process:
        yield process


@pytest.mark.parametrize("number", SAMPLE, ids=[QUESTIONS[number].name for number in SAMPLE])
def test_an_answer_is_what_it_was(answerer: Answerer, number: int) -> None:
    question: Question = QUESTIONS[number]
    if question.silicon and not has_silicon():
        pytest.skip("needs aiconfigurator-core")
    golden, keys, _ = recorded()
    tolerance = 0.0 if golden.environment == environment() else TOLERANCE
    expected, found = golden.answers[question.name], answerer.ask(number)
    told = [*map(str, differences(question.name, expected, found, keys=keys, tolerance=tolerance))]
    assert not told, "\n".join(told[:9])


def test_every_question_has_an_answer_and_every_verb_is_sampled() -> None:
    assert {question.name for question in QUESTIONS} == recorded()[2]
    assert len(QUESTIONS) >= 600
    assert {question.verb for question in QUESTIONS} >= VERBS
    assert {question.stratum for question in QUESTIONS} == {QUESTIONS[n].stratum for n in SAMPLE}


def test_a_changed_last_digit_and_a_missing_key_are_noticed() -> None:
    expected = {"exit": 0, "results.ttft_s": 0.1, "results.fits": True}
    found = {**expected, "results.ttft_s": math.nextafter(0.1, 1)}
    (one,) = differences("q", expected, found, keys=NO_CHANGE, tolerance=0.0)
    assert (one.key, one.expected) == ("results.ttft_s", 0.1)
    assert not [*differences("q", expected, found, keys=NO_CHANGE, tolerance=TOLERANCE)]
    assert not [*differences("q", expected, dict(expected), keys=NO_CHANGE, tolerance=0.0)]
    (one,) = differences(
        "q", expected, {"exit": 0, "results.fits": True}, keys=NO_CHANGE, tolerance=TOLERANCE
    )
    assert (one.key, one.found) == ("results.ttft_s", NOTHING)
    (one,) = differences("q", expected, {**expected, "more": 1}, keys=NO_CHANGE, tolerance=0.0)
    assert (one.key, one.expected) == ("more", NOTHING)
    (one,) = differences(
        "q", expected, {**expected, "results.fits": 1}, keys=NO_CHANGE, tolerance=0.0
    )
    assert one.key == "results.fits"


def test_keys_are_renamed_dropped_and_added_as_reviewed() -> None:
    keys = KeyMap(
        renamed={"breakdown[].time_s": "operators[].duration_s", "memory.": "results.memory."},
        dropped={"old.": "gone"},
        added={"new": "there now"},
    )
    expected = {"1/breakdown[3].time_s": 2.0, "memory.fits": True, "old.part": 1}
    found = {"1/operators[3].duration_s": 2.0, "results.memory.fits": True, "new": 4}
    assert not [*differences("q", expected, found, keys=keys, tolerance=0.0)]
    found["1/operators[3].duration_s"] = 2.5
    (one,) = differences("q", expected, found, keys=keys, tolerance=0.0)
    assert one.key == "1/operators[3].duration_s"


def test_metrics_declared_since_may_be_answered_and_others_may_not() -> None:
    keys = KeyMap(new_metrics=metrics_since({"q": {"1/results.ttft_s.mean": 1.0, "file:o.csv": 2}}))
    assert "ttft_s" not in keys.new_metrics
    found: dict[str, Scalar] = {
        "exit": 0,
        "1/results.peak_share": 0.5,
        "file:o.csv[3].tpot_s_p99": 1,
    }
    assert not [*differences("q", {"exit": 0}, found, keys=keys, tolerance=0.0)]
    (one,) = differences(
        "q", {"exit": 0}, {"exit": 0, "results.ttft_s": 1}, keys=keys, tolerance=0.0
    )
    assert one.key == "results.ttft_s"
    (one,) = differences("q", {"exit": 0}, {"exit": 0, "scenario.tp": 1}, keys=keys, tolerance=0.0)
    assert one.key == "scenario.tp"


def test_questions_named_for_it_are_compared_by_statistics() -> None:
    keys = KeyMap(statistical={"q": "another order of ties"})
    expected: dict[str, Scalar] = {"exit": 0, "results.ttft_s.mean": 1.0, "results.a.sha256": "a"}
    near: dict[str, Scalar] = {**expected, "results.ttft_s.mean": 1.01, "more": 1}
    near["results.a.sha256"] = "b"
    assert not [*differences("q", expected, near, keys=keys, tolerance=0.0)]
    assert len([*differences("other", expected, near, keys=keys, tolerance=0.0)]) == 3
    (one,) = differences(
        "q", expected, {**near, "results.ttft_s.mean": 1.1}, keys=keys, tolerance=0.0
    )
    assert one.key == "results.ttft_s.mean"
    (one,) = differences("q", expected, {**near, "exit": 4}, keys=keys, tolerance=0.0)
    assert one.key == "exit"


def test_numbers_of_fits_are_compared_less_closely_on_another_machine() -> None:
    keys = KeyMap(iterated={"q": "iterations"})
    expected, near = {"exit": 0, "results.x": 1.0}, {"exit": 0, "results.x": 1.0005}
    assert not [*differences("q", expected, near, keys=keys, tolerance=TOLERANCE)]
    assert len([*differences("q", expected, near, keys=keys, tolerance=0.0)]) == 1
    assert len([*differences("other", expected, near, keys=keys, tolerance=TOLERANCE)]) == 1


def test_questions_with_another_answer_by_intent_keep_their_exit_code() -> None:
    keys = KeyMap(changed={"q": "units have identity"})
    expected: dict[str, Scalar] = {"exit": 0, "results.goodput": 0.9}
    found: dict[str, Scalar] = {"exit": 0, "results.goodput": 0.5, "more": 1}
    assert not [*differences("q", expected, found, keys=keys, tolerance=0.0)]
    assert len([*differences("other", expected, found, keys=keys, tolerance=0.0)]) == 2
    (one,) = differences("q", expected, {**found, "exit": 3}, keys=keys, tolerance=0.0)
    assert one.key == "exit"
    _, keys, names = recorded()
    assert set(keys.changed) <= names


def test_limits_of_intervals_may_move_where_it_is_reviewed() -> None:
    keys = KeyMap(intervals={"estimate-": "another rule"})
    expected: dict[str, Scalar] = {"results.ttft_s_low": 1.0, "results.ttft_s": 2.0}
    found: dict[str, Scalar] = {"results.ttft_s_low": 0.5, "results.ttft_s": 2.0}
    assert not [*differences("estimate-1", expected, found, keys=keys, tolerance=0.0)]
    assert len([*differences("kernel-1", expected, found, keys=keys, tolerance=0.0)]) == 1
    found["results.ttft_s"] = 3.0
    assert len([*differences("estimate-1", expected, found, keys=keys, tolerance=0.0)]) == 1
    del found["results.ttft_s_low"]
    assert len([*differences("estimate-1", expected, found, keys=keys, tolerance=0.0)]) == 2


def test_a_metric_with_other_numbers_by_intent_is_still_answered() -> None:
    keys = KeyMap(revalued={"node_power_w": "fans"})
    expected: dict[str, Scalar] = {"results.node_power_w_low": 1.0, "results.ttft_s": 2.0}
    found: dict[str, Scalar] = {"results.node_power_w_low": 0.5, "results.ttft_s": 2.0}
    assert not [*differences("q", expected, found, keys=keys, tolerance=0.0)]
    assert (
        len(
            [
                *differences(
                    "q", expected, {**found, "results.ttft_s": 3.0}, keys=keys, tolerance=0.0
                )
            ]
        )
        == 1
    )
    others: tuple[Scalar, ...] = (None, "5 W", -0.6, 0.4, 2.5, float("nan"), float("inf"))
    for other in others:
        wrong: dict[str, Scalar] = {**found, "results.node_power_w_low": other}
        assert len([*differences("q", expected, wrong, keys=keys, tolerance=0.0)]) == 1, other
    crossed: dict[str, Scalar] = {**expected, "results.node_power_w": 1.4}
    lower: dict[str, Scalar] = {
        **found,
        "results.node_power_w_low": 1.5,
        "results.node_power_w": 1.4,
    }
    assert [*differences("q", crossed, lower, keys=keys, tolerance=0.0)]
    unknown = {**expected, "results.node_power_w_low": None}
    assert not [*differences("q", unknown, found, keys=keys, tolerance=0.0)]
    del found["results.node_power_w_low"]
    assert len([*differences("q", expected, found, keys=keys, tolerance=0.0)]) == 1


def test_answers_are_written_the_same_each_time(tmp_path: Path) -> None:
    golden, *_ = recorded()
    golden = replace(golden, answers=dict([*golden.answers.items()][:9]))
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        write_answers(golden, path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert read_answers(paths[0]) == golden


def test_sentences_are_left_out_and_long_lists_summed_up() -> None:
    value = {
        "tier": "physics",
        "said": "two words",
        "warnings": ["x"],
        "by_reason": {"line without an Xid": 3},
        "rows": [{"t_s": float(n)} for n in range(99)],
        "empty": [],
    }
    flat = dict(flatten(value))
    assert flat["tier"] == "physics"
    assert not {"said", "warnings", "warnings[0]"} & set(flat)
    assert flat["by_reason.~0"] == 3
    assert flat["empty"] == "[]"
    assert (flat["rows.length"], flat["rows.t_s.sum"]) == (99, 99 * 49)
    assert "rows.t_s.sha256" in flat
