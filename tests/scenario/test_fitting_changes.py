"""What is advised where a scenario does not fit is legal, fits and has prices."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from perfatlas.hardware import system_names
from perfatlas.models import model_names
from perfatlas.quantities import InfeasibleError, PerfatlasError
from perfatlas.verbs.estimate import estimate

CHANGE = re.compile(r"(\w+) = ([\w.]+)")
NAMED = re.compile(r"such as (.*)\.$")


def _asked(sentence: str) -> list[dict[str, Any]]:
    """Return the fields of each change in a sentence of advice."""
    if named := NAMED.search(sentence):
        return [{"system": one.partition(" ")[0]} for one in named[1].split(" or ")]
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


def _check_all(pairs: list[tuple[str, str]]) -> int:
    """Check all advice for models on devices; return how much there was."""
    followed = 0
    for model, system in pairs:
        fields = {"model": model, "system": system, "isl": 4096, "osl": 16}
        for sentence in _advice(fields):
            for change in _asked(sentence):
                answer = estimate(**{**fields, **change})
                assert answer.results["memory"]["fits"]
                followed += 1
    return followed


def test_advice_for_models_on_devices_is_answered() -> None:
    draw = np.random.default_rng(5)
    models, systems = model_names(), system_names()
    large = [(models[int(draw.integers(len(models)))], system) for system in systems]
    small = [(model, "l4") for model in draw.choice(models, 12)]
    assert _check_all(large + small) > 60


def test_formats_that_a_device_lacks_are_not_advised() -> None:
    fields = {"model": "meta-llama/Llama-3.1-70B", "system": "a100_sxm"}
    advice = " ".join(_advice(fields))
    assert "format = int4_wo fits" in advice
    assert "fp8" not in advice
    assert "format = fp8_dynamic fits" in " ".join(_advice({**fields, "system": "h100_sxm"}))
