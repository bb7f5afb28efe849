"""Area and cost of chips: each die from the others, laws, and what is declined."""

from __future__ import annotations

import math

import pytest

from perfatlas.cost import ChipCost, chip_cost, chip_note, known_dies, predicted_area_mm2
from perfatlas.hardware import resolve_system
from perfatlas.quantities import InfeasibleError, InvalidSpecError, UnsupportedError


def _cost(system: str) -> ChipCost:
    return chip_cost(resolve_system(system).device)


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


def test_published_bills_are_inside_the_intervals() -> None:
    """Raymond James, Epoch AI and siliconanalysts.com; B200 has 1,100 USD of packaging."""
    for name, bill_usd in (("h100_sxm", 3320), ("b200_sxm", 6400), ("h200_sxm", 4800)):
        usd, low, high = _cost(name).total_usd
        assert usd == pytest.approx(bill_usd, rel=0.12)
        assert low < bill_usd < high
    assert _cost("b200_sxm").parts_usd["package"][0] == pytest.approx(1100, rel=0.05)


def test_assembly_loses_what_is_attached() -> None:
    parts = {name: usd[0] for name, usd in _cost("b200_sxm").parts_usd.items()}
    attached = parts["dies"] + parts["memory"] + parts["package"]
    # two dies and eight stacks at 1.8% each
    assert parts["assembly"] == pytest.approx(attached * (1.0 / 0.982**10 - 1.0))
    stated = _cost("b200_sxm{device.assembly_yield=0.5}").parts_usd
    assert stated["assembly"][0] == pytest.approx(attached)


def test_chiplets_are_smaller_and_take_links() -> None:
    whole, halves = (_cost(f"h200_sxm{{device.dies={dies}}}") for dies in (1, 2))
    # 4.8 TB/s of memory: each die reads 1.2 TB/s of the other, and so much is read of it
    link_mm2 = 2 * 1200 / 1350
    alone = _cost("h200_sxm{device.dies=2, device.die_to_die.bandwidth=1MB/s}").area_mm2[0]
    assert halves.area_mm2[0] == pytest.approx(alone + link_mm2, abs=1e-3)
    assert halves.area_mm2[0] < 0.6 * whole.area_mm2[0]
    assert halves.parts_usd["dies"][0] < whole.parts_usd["dies"][0]
    assert halves.package.bonded == whole.package.bonded + 1


def test_a_newer_node_is_denser_and_its_wafers_cost_more() -> None:
    old, new = (_cost(f"h200_sxm{{device.process={process}}}") for process in (4, 3))
    assert new.area_mm2[0] < old.area_mm2[0]
    with pytest.raises(UnsupportedError, match="set one of 12, 8, 7, 4, 3"):
        _cost("h200_sxm{device.process=2}")


def test_a_second_memory_is_bought_without_a_margin() -> None:
    flash = "device.second_memory.capacity=512GB"
    with pytest.raises(UnsupportedError, match=r"set device\.second_memory\.usd_per_gb"):
        _cost(f"h100_sxm{{{flash}}}")
    plain, more = (
        _cost(name)
        for name in ("h100_sxm", f"h100_sxm{{{flash},device.second_memory.usd_per_gb=2}}")
    )
    for end in range(3):
        assert more.total_usd[end] - plain.total_usd[end] == pytest.approx(1024.0)
        assert more.price_usd[end] - plain.price_usd[end] == pytest.approx(1024.0)
    usd, low, high = _cost("gh200").parts_usd["second memory"]  # LPDDR5X, at an assumed price
    assert usd == pytest.approx(480 * 14)
    assert low < usd < high


@pytest.mark.parametrize(
    "change", ["device.dies=0", "device.assembly_yield=-0.5", "device.assembly_yield=1.2"]
)
def test_wrong_packages_are_refused(change: str) -> None:
    with pytest.raises(InvalidSpecError, match=change.partition("=")[0]):
        resolve_system(f"h200_sxm{{{change}}}")


def test_a_package_is_judged_by_the_predicted_area() -> None:
    fits, larger = "b200_sxm{device.interposer=cowos_r}", "gb200{device.interposer=cowos_r}"
    cost, note = _cost(fits), chip_note(resolve_system(fits).device)
    assert cost.total_usd[1] < cost.total_usd[0] < _cost("b200_sxm").total_usd[0]
    assert math.isnan(cost.total_usd[2])
    assert math.isnan(cost.price_usd[2])
    assert "to unknown)" in note
    assert "cowos_r has at most 3.3" in note
    with pytest.raises(InfeasibleError, match=r"cowos_r has at most 3.3"):
        _cost(larger)


def test_the_second_memory_has_no_margin() -> None:
    cost, note = _cost("rubin"), chip_note(resolve_system("rubin").device)
    second = cost.parts_usd["second memory"][0]
    with_margin = (cost.total_usd[0] - second) / (1.0 - cost.margin)
    assert cost.price_usd[0] == pytest.approx(with_margin + second)
    assert f"on all but the second memory, {second:,.0f}" in note
    assert "all but" not in chip_note(resolve_system("h100_sxm").device)
