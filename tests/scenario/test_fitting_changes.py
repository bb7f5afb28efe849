"""What is advised where a scenario does not fit is legal, fits and has prices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from perfatlas.quantities import InfeasibleError, PerfatlasError
from perfatlas.scenario.deployments import fitting_changes
from perfatlas.scenario.fields import Scenario
from perfatlas.scenario.resolution import resolve_scenarios
from perfatlas.verbs.estimate import estimate, estimate_table

CHANGE = re.compile(r"(\w+) = ([\w.]+)")
NAMED = re.compile(r"such as (.*)\.$")


def _asked(sentence: str) -> list[dict[str, Any]]:
    """Return the fields of each change in a sentence of advice."""
    if named := NAMED.search(sentence):
        return [{"system": one.partition(" ")[0]} for one in named[1].split(" or ")]
    if sentence.startswith("set gpus"):
        return [dict(CHANGE.findall(sentence.partition(",")[0]))]
    fits = sentence.partition(" fits")[0]
    return [dict(CHANGE.findall(fits))] if CHANGE.search(fits) else []


def _advice(fields: dict[str, Any]) -> tuple[str, ...]:
    """Return the advice for a scenario that does not fit, nothing for another one."""
    try:
        estimate(**fields)
    except InfeasibleError as error:
        return error.advice
    except PerfatlasError:
        return ()
    return ()


def _check_all(pairs: list[tuple[str, str]], **more: Any) -> int:  # noqa: ANN401 - of a scenario
    """Check all advice for models on devices; return how much there was."""
    followed = 0
    for model, system in pairs:
        fields = {"model": model, "system": system, "isl": 4096, "osl": 16, **more}
        for sentence in _advice(fields):
            for change in _asked(sentence):
                answer = estimate(**{**fields, **change})
                assert answer.results["memory"]["fits"]
                followed += 1
    return followed


LARGE = ("meta-llama/Llama-3.1-405B", "deepseek-ai/DeepSeek-R1", "meta-llama/Llama-3.1-70B")
SYSTEMS = ("h100_sxm", "a100_sxm", "l40s", "mi300x")
STATED: tuple[dict[str, Any], ...] = (
    {"gpus": 1},
    {"gpus": 4, "dp": 2},
    {"gpus": 2, "format": "fp8"},
    {"tp": 2, "engine": "trtllm"},
    {"tp": 2, "gpus": 2, "mode": "aggregated", "concurrency": 8, "method": "formula"},
    {"gpus": 1, "mode": "aggregated", "concurrency": 64, "engine": "sglang", "method": "formula"},
)


@pytest.mark.parametrize(
    ("number", "stated"),
    [
        pytest.param(number, stated, marks=[pytest.mark.study] * (number in (0, 1)))
        for number, stated in enumerate(STATED)
    ],
)
def test_advice_is_answered_with_what_is_stated(number: int, stated: dict[str, Any]) -> None:
    pairs = [(model, system) for model in LARGE for system in SYSTEMS]
    assert _check_all(pairs[number % 3 :: 3], **stated) >= 3


@pytest.mark.parametrize("gpus", [1, 2, 8])
def test_copies_of_tables_that_do_not_fit_are_to_be_divided(gpus: int) -> None:
    fields = {"model": "dlrm-dcnv2", "system": "l40s", "batch": 65536, "gpus": gpus}
    first, *_ = _advice(fields)
    (change,) = _asked(first)
    assert change == {"attention_dp": "2", "moe_tp": "2", "gpus": str(max(gpus, 2))}
    found = estimate(**fields | {name: int(size) for name, size in change.items()})
    assert found.results["memory"]["fits"]


def _sizes(change: dict[str, Any], name: str) -> int:
    return int(change.get(name, 1))


@pytest.mark.parametrize(
    ("model", "system"),
    [
        (LARGE[0], "h100_sxm"),
        (LARGE[1], "mi300x"),
        pytest.param(LARGE[2], "l40s", marks=pytest.mark.study),
    ],
)
def test_the_plan_advised_is_the_smallest_that_fits(model: str, system: str) -> None:
    fields: dict[str, Any] = {"model": model, "system": system, "isl": 4096, "osl": 16}
    for stated, name in (({"gpus": 1}, "gpus"), ({"tp": 2}, "tp"), ({"tp": 8}, "pp")):
        asked = {**fields, **stated}
        named = [one for text in _advice(asked) for one in _asked(text) if name in one]
        if not named:
            continue
        (size,) = {_sizes(one, name) for one in named}
        domain = 8
        steps = {
            "gpus": [*range(2, domain), *range(domain, size, domain)],
            "tp": [4],
            "pp": [*range(2, size)],
        }[name]
        for smaller in (step for step in steps if step < size):
            with pytest.raises(PerfatlasError):
                estimate(**{**asked, name: smaller})


def test_formats_that_a_device_lacks_are_not_advised() -> None:
    fields = {"model": "meta-llama/Llama-3.1-70B", "system": "a100_sxm"}
    advice = " ".join(_advice(fields))
    assert "format = int8_wo fits" in advice
    assert "fp8" not in advice
    assert "format = fp8_dynamic fits" in " ".join(_advice({**fields, "system": "h100_sxm"}))


def test_advice_does_not_call_a_number_the_fewest_where_fewer_fit() -> None:
    # 7 GPUs allow only tp 1, which is too small for 141 GB of weights; tp 2 on 2 GPUs fits
    fields: dict[str, Any] = {"model": "meta-llama/Llama-3.1-70B", "system": "h100_sxm"}
    assert estimate(**fields, gpus=2).results["gpus"] == 2
    assert "set gpus = 8, the fewest above 7 that fit (tp = 2" in " ".join(
        _advice({**fields, "gpus": 7})
    )


@pytest.fixture
def numbers_resolved(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record how many scenarios each search for a fitting change resolves at once."""
    resolved: list[int] = []

    def counted(scenarios: Sequence[Scenario], **more: Any) -> object:  # noqa: ANN401 - passed on
        resolved.append(len(scenarios))
        return resolve_scenarios(scenarios, **more)

    monkeypatch.setattr(fitting_changes, "resolve_scenarios", counted)
    return resolved


MAVERICK = "meta-llama/Llama-4-Maverick-17B-128E-Instruct"


def test_thousands_of_gpus_in_a_domain_are_few_tables(numbers_resolved: list[int]) -> None:
    # 40 heads, 8 KV heads and experts of 8192 allow tp 8 at most: 801 GB of weights on 16 x 102 GB
    fields: dict[str, Any] = {"model": MAVERICK, "system": "tpu_v5p", "isl": 4096, "osl": 16}
    fields |= {"engine": "vllm_tpu"}
    assert _advice(fields)[0].startswith("set gpus = 16, the fewest that fit (tp = 8, pp = 2")
    assert sum(numbers_resolved) < 100
    assert estimate(**fields, gpus=16).results["gpus"] == 16
    with pytest.raises(InfeasibleError):
        estimate(**fields, gpus=15)


def test_the_plan_of_a_row_does_not_depend_on_other_rows() -> None:
    # 3 GPUs allow tp 1 and no stages, beside a row whose three domains may have three stages
    fields: dict[str, Any] = {"model": LARGE[2], "system": "h100_sxm"}
    table = {name: [value] * 2 for name, value in fields.items()}
    errors = estimate_table({**table, "gpus": [3, 24]}).columns["error"]
    assert "does not fit" in errors[0]
    assert not errors[1]
    with pytest.raises(InfeasibleError):
        estimate(**fields, gpus=3)
