"""Every field of every verb, changed alone, is felt, refused or remarked on."""

from __future__ import annotations

from typing import Final

import pytest

import perfatlas
from perfatlas.answer import Answer, Evidence
from perfatlas.declarations import questions, verb_fields
from tests.golden.option_changes import UNFELT, Change, asked_of, changes, sample
from tests.golden.option_questions import FURTHER, further_questions
from tests.golden.option_values import VERBS, others_of

ALWAYS: Final = (
    *("estimate-aggregated-00", "estimate-disaggregated-01", "estimate-speculative-00"),
    "estimate-plans-01",
)
FIELDS: Final = {"osl_spread", "acceptance_by_position", "prefill_ep", "feed_forward_ep"}
# questions of each verb
FEW: Final = {
    "kernel gemm": 2,
    "kernel attention": 10,
    "kernel moe": 4,
    "kernel op conv": 2,
    "kernel op norm": 1,
    "kernel op softmax": 1,
    "kernel op embedding": 1,
    "kernel op elementwise": 4,
    "collective": 8,
    "goodput spares": 3,
    "fleet schedule": 4,
    "goodput": 2,
    "simulate": 1,
}
# one plan is simulated and answered in full instead of ten, on fewer GPUs; short requests
QUICKER: Final = {
    "search": {"num_simulated": "1", "num_plans": "1", "gpus": "2"},
    "search training": {"gpus": "4", "global_batch": "16", "num_layouts": "1"},
    "simulate": {"isl": "300", "osl": "20"},
}
# whose other fields are those of a quicker verb, and are changed in its questions;
# `make validate` changes them here too
FURTHER_THAN: Final = {
    "compare": "estimate",
    "search": "estimate",
    "search training": "train",
    "simulate": "estimate",
}
POOLS: Final = ("prefill_", "decode_")
NOTHING: Final = Answer(
    command="", scenario={}, results={}, breakdown=[], evidence=Evidence(tier="physics")
)


def ignored(verb: str, found: list[Change]) -> list[str]:
    return [
        f"{one.question}: {one.field} = {one.value}"
        for one in found
        if one.outcome == "ignored" and one.field not in UNFELT.get(verb, {})
    ]


@pytest.mark.parametrize("verb", VERBS)
def test_every_field_has_other_values(verb: str) -> None:
    # a field with a single choice has no other
    single = {name for name, field in verb_fields(verb).items() if len(field.choices) == 1}
    assert sorted(set(verb_fields(verb)) - set(others_of(verb)) - single) == []


def test_every_verb_is_asked() -> None:
    scored = {"validate serving"}  # asks simulations of measured traffic
    assert set(VERBS) == set(questions()) - scored
    assert {"estimate", *FEW} <= set(VERBS)
    assert all(asked_of(verb) for verb in VERBS)


def test_every_field_of_estimates_changed_alone() -> None:
    asked = asked_of("estimate")
    few = sample("estimate", 3, seed=3) | {name: asked[name] for name in ALWAYS}
    few |= {
        name: further
        for name, further in further_questions("estimate").items()
        if FIELDS & set(further.fields)
    }
    found: list[Change] = []
    left = [*verb_fields("estimate")]
    for name, one in few.items():  # a field that moved a number once is not changed again
        found += changes("estimate", {name: one}, left)
        felt = {change.field for change in found if change.outcome == "moved"}
        left = [field for field in left if field not in felt]
    balanced = {
        name: further
        for name, further in further_questions("estimate").items()
        if further.fields.get("engine") == "trtllm"
    }
    found += changes("estimate", balanced, ["rank_balance_iters"])
    own = {
        "benchmark": ["benchmark", "quantization_method"],
        "images": ["images", "image_height", "image_width"],
    }
    for name, fields in own.items():
        asked = {
            question: further
            for question, further in further_questions("estimate").items()
            if name in further.fields
        }
        found += changes("estimate", asked, fields)
    divided = {
        name: further
        for name, further in further_questions("estimate").items()
        if further.fields["model"].startswith("sd3-medium")
    }
    found += changes("estimate", divided, ["ring_degree", "guidance_degree"])
    assert ignored("estimate", found) == []
    felt = {one.field for one in found if one.outcome == "moved"}
    # the version needs the optional package of measured tables, and a batch overlap an exchange
    # that is no engine's default: tests/step/test_overlap.py; loads of experts are read from a
    # file: tests/scenario/test_expert_loads.py; shares need a second memory, which these systems
    # do not state: tests/step/test_second_memory.py
    told = {"silicon_version", "batch_overlap", "expert_loads", *UNFELT["estimate"]}
    told |= {"offload_prefetch"}
    told |= {f"{pool}{of}_offload" for pool in ("", *POOLS) for of in ("weight", "kv")}
    assert sorted(set(verb_fields("estimate")) - felt - told) == []


@pytest.mark.parametrize(
    "verb",
    [
        pytest.param(verb, marks=[pytest.mark.study] * (verb in ("search", "search training")))
        for verb in VERBS
        if verb != "estimate"
    ],
)
def test_every_field_changed_alone(verb: str) -> None:
    shared = verb_fields(FURTHER_THAN[verb]) if verb in FURTHER_THAN else {}
    assert _ignored_alone(verb, [name for name in others_of(verb) if name not in shared]) == []


@pytest.mark.study
@pytest.mark.parametrize("verb", FURTHER_THAN)
def test_every_shared_field_changed_alone(verb: str) -> None:
    shared = verb_fields(FURTHER_THAN[verb])
    assert _ignored_alone(verb, [name for name in others_of(verb) if name in shared]) == []


def _ignored_alone(verb: str, names: list[str]) -> list[str]:
    few = sample(verb, FEW.get(verb, 1), seed=6 if verb == "simulate" else 1)
    few = {
        name: asked._replace(fields=asked.fields | QUICKER.get(verb, {}))
        for name, asked in few.items()
    }
    found = [*changes(verb, few, names)]
    assert found
    return ignored(verb, found)


def test_every_further_question_asks_fields_of_a_verb() -> None:
    found = [name for verb in VERBS for name in further_questions(verb)]
    assert len(set(found)) == len(FURTHER.read_text("utf-8").splitlines())


def test_a_change_that_nothing_reads_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perfatlas, "goodput_spares", lambda **_: NOTHING)
    (change,) = changes("goodput spares", sample("goodput spares", 1), ["repair_s"])
    assert change.outcome == "ignored"


def test_one_token_over_two_ranks_has_a_price() -> None:
    asked = {"model": "Qwen/Qwen3-30B-A3B", "system": "b200_sxm", "cp": 2, "tp": 1}
    load = {"num_requests": 4, "request_rate": 2.0, "isl": 64, "osl": 4}
    found = perfatlas.simulate(**asked, **load)  # type: ignore[arg-type]
    assert found.results["requests_completed"] == 4
