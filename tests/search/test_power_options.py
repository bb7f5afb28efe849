"""Power limits and clocks of `search` and `compare` that no device keeps, or that do nothing."""

from __future__ import annotations

from typing import Any, Final

import pytest

from perfatlas.verbs.compare import compare
from perfatlas.verbs.search import search

ASKED: Final[dict[str, Any]] = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h100_sxm",
    "isl": 512,
    "osl": 64,
}
LEAST: Final = {"gpus": 1, "num_simulated": 0}
WARNED: Final = [
    ({"power_cap_w": 5000.0}, "power_cap_w = 5000 W has no effect here: h100_sxm draws at most"),
    ({"clock_ratio": 2.0}, "clock_ratio = 2: prefill steps would draw"),
    (
        {"input_distribution": "zeros", "system": "mi300x"},
        "input_distribution = zeros has no effect here",
    ),
]


@pytest.mark.parametrize(("given", "said"), WARNED)
@pytest.mark.parametrize("verb", ["search", "compare"])
def test_is_answered_with_a_warning(verb: str, given: dict[str, Any], said: str) -> None:
    assert any(said in one for one in _answered(verb, given).warnings)


def test_one_of_two_systems_without_energies_is_told_in_its_row() -> None:
    answer = _answered("compare", {"power_cap_w": 400.0, "systems": ("mi300x",)})
    first, second = answer.results["rows"]
    assert first["power_w"] > 0.0
    assert "power of mi300x is not predicted" in second["error"]


def _answered(verb: str, given: dict[str, Any]) -> Any:  # noqa: ANN401 - answers of two verbs
    if verb == "search":
        return search(**{**ASKED, **LEAST, **given}).answer
    return compare(**{**ASKED, "systems": ("h200_sxm",), **given})
