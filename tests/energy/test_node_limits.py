"""Power limits of nodes, shared by their GPUs."""

from __future__ import annotations

from typing import Any

import pytest

import perfatlas
from perfatlas.energy import node_power
from perfatlas.hardware import resolve_system

ASKED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h100_sxm",
    "isl": 1024,
    "osl": 64,
    "batch": 32,
}


def answered(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of estimate
    return dict(perfatlas.estimate(**{**ASKED, **fields}).results)


@pytest.mark.parametrize(("system", "watts"), [("h100_sxm", 450.0), ("gb200", 900.0)])
def test_a_limit_of_a_node_is_that_of_its_gpus_and_is_kept(system: str, watts: float) -> None:
    node = node_power(resolve_system(system).node)
    shared = answered(system=system, node_power_cap_w=node.node_w(watts))
    alone = answered(system=system, power_cap_w=watts)
    for name in ("ttft_s", "tpot_s", "power_w", "energy_per_output_token_j"):
        assert shared[name] == pytest.approx(alone[name], rel=1e-9)
    assert shared["node_power_w"] <= node.node_w(watts) * (1 + 1e-9)


def test_a_rack_of_72_gpus_is_slower_under_its_limit() -> None:
    free = answered(system="gb200", batch=256)
    racks = [
        answered(system="gb200", batch=256, node_power_cap_w=kw * 1e3 / 18) for kw in (120, 80)
    ]
    for one, other in zip((free, *racks), racks, strict=False):
        assert other["ttft_s"] >= one["ttft_s"]
        assert other["power_w"] <= one["power_w"]
    assert racks[1]["ttft_s"] > free["ttft_s"]
    assert 18 * racks[1]["node_power_w"] <= 80e3 * (1 + 1e-9)


def test_the_lower_of_both_limits_holds() -> None:
    own = answered(power_cap_w=400.0)
    assert answered(power_cap_w=400.0, node_power_cap_w=8000.0)["ttft_s"] == own["ttft_s"]
    assert answered(power_cap_w=400.0, node_power_cap_w=5000.0)["ttft_s"] > own["ttft_s"]


def test_no_end_of_the_interval_of_a_node_exceeds_its_limit() -> None:
    asked = {**ASKED, "isl": 2048}
    asked |= {"osl": 1, "node_power_cap_w": 6000.0, "pue": 1.2}
    found = dict(perfatlas.estimate(**asked).results)
    table = perfatlas.estimate_table({name: [value] for name, value in asked.items()}).columns
    for row in (found, {name: cells[0] for name, cells in table.items()}):
        assert row["node_power_w_low"] < row["node_power_w"] <= row["node_power_w_high"] == 6000.0
        assert row["facility_power_w_high"] == pytest.approx(6000.0 * 1.2 / 8)
