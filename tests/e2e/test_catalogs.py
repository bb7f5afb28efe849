"""Catalogs in Python."""

from __future__ import annotations

import pytest

import perfatlas
from perfatlas.quantities import InfeasibleError, InvalidSpecError


def test_an_entry_takes_values_one_after_another() -> None:
    chip = perfatlas.systems["h200_sxm"].with_({"device.memory.bandwidth": "6TB/s"})
    assert chip.with_({"device.sm_count": 100}) == (
        "h200_sxm{device.memory.bandwidth=6TB/s, device.sm_count=100}"
    )
    assert chip.with_({"device.memory.bandwidth": "5TB/s"}) == (
        "h200_sxm{device.memory.bandwidth=5TB/s}"
    )


@pytest.mark.parametrize("value", ["6TB/s,device.tdp=1 W", "6TB/s\n", "6TB/s}", {"a": 1}, None])
def test_a_value_sets_one_field(value: object) -> None:
    with pytest.raises(InvalidSpecError, match="expected a number"):
        perfatlas.systems["h200_sxm"].with_({"device.memory.bandwidth": value})


def test_unknown_names_have_a_near_one() -> None:
    with pytest.raises(InvalidSpecError, match="did you mean 'h200_sxm'"):
        perfatlas.systems["h2000"]
    assert "h2000" not in perfatlas.systems
    assert "openai/gpt-oss-20b" in perfatlas.models


def test_a_graph_that_does_not_fit_is_told_without_a_kv_cache() -> None:
    with pytest.raises(InfeasibleError) as refused:
        perfatlas.estimate(model="sdxl", batch=512, system="h100_sxm")
    assert "KV cache" not in str(refused.value)
    assert "smaller inputs" in " ".join(refused.value.advice)
