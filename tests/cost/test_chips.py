"""Area and cost of chips: each die from the others, laws, and what is declined."""

from __future__ import annotations

import pytest

from perfatlas.cost import chip_cost, chip_note, known_dies, predicted_area_mm2
from perfatlas.hardware import resolve_system
from perfatlas.quantities import UnsupportedError


@pytest.mark.parametrize("name", known_dies())
def test_area_from_the_others(name: str) -> None:
    dies = known_dies()
    die = dies.pop(name)
    area = predicted_area_mm2(die, list(dies.values()))
    assert area == pytest.approx(die.area_mm2, rel=0.2)


def test_parts_sum_and_the_price_has_the_margin() -> None:
    cost = chip_cost(resolve_system("h200_sxm").device)
    for end in range(3):
        assert sum(usd[end] for usd in cost.parts_usd.values()) == pytest.approx(
            cost.total_usd[end]
        )
    usd, low, high = cost.total_usd
    assert low < usd < high
    assert cost.price_usd[0] == pytest.approx(usd / (1.0 - cost.margin))


def test_more_units_cost_more() -> None:
    base, larger, memory = (
        chip_cost(resolve_system(name).device)
        for name in (
            "h200_sxm",
            "h200_sxm{device.sm_count=160}",
            "h200_sxm{device.memory.capacity=280GB}",
        )
    )
    assert larger.area_mm2[0] > base.area_mm2[0]
    assert larger.parts_usd["dies"][0] > base.parts_usd["dies"][0]
    assert memory.parts_usd["memory"][0] > base.parts_usd["memory"][0]


def test_a_die_larger_than_the_reticle_is_named() -> None:
    assert "one piece" in chip_note(resolve_system("h200_sxm{device.sm_count=200}").device)


def test_other_machines_are_declined() -> None:
    device = resolve_system("mi300x").device
    with pytest.raises(UnsupportedError, match="mi300x"):
        chip_cost(device)
    assert "not predicted" in chip_note(device)
