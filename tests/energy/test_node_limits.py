"""Power limits of nodes, shared by their GPUs."""

from __future__ import annotations

from typing import Any

import pytest

import perfatlas
from perfatlas.energy import node_power
from perfatlas.hardware import resolve_system
from perfatlas.quantities import InvalidSpecError, UnsupportedError

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


@pytest.mark.parametrize(
    ("own_w", "node_w", "told"),
    [
        (450.0, 5000.0, "power_cap_w = 450 W has no effect here: node_power_cap_w leaves 333 W"),
        (450.0, 8000.0, "node_power_cap_w has no effect here: it leaves 648 W to each GPU, and p"),
        (None, 5000.0, ""),
        (450.0, None, ""),
    ],
)
def test_the_higher_of_both_limits_is_said_to_have_no_effect(
    own_w: float | None, node_w: float | None, told: str
) -> None:
    limits: dict[str, Any] = {"power_cap_w": own_w, "node_power_cap_w": node_w}
    row = {name: [value] for name, value in (ASKED | limits).items()}
    found = (
        " ".join(perfatlas.estimate(**ASKED, **limits).warnings),
        perfatlas.estimate_table(row).columns["warnings"][0] or "",
    )
    for text in found:
        assert ("no effect" in text) == bool(told)
        assert told in text


@pytest.mark.study
def test_a_simulation_says_that_the_higher_limit_has_no_effect() -> None:
    served = {name: value for name, value in ASKED.items() if name != "batch"}
    limits: dict[str, Any] = {"power_cap_w": 450.0, "node_power_cap_w": 8000.0}
    run = perfatlas.simulate(**served | {"osl": 2}, **limits, num_requests=4, request_rate=1.0)
    assert "node_power_cap_w has no effect here" in " ".join(run.answer.warnings)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"node_power_cap_w": 1500.0}, InvalidSpecError, "leaves nothing to the 8 GPUs of hgx_hop"),
        ({"node_power_cap_w": 1500.0}, InvalidSpecError, "set it to more than 1826 W"),
        ({"node_power_cap_w": 3000.0}, InvalidSpecError, "leaves 123 W to each GPU, which cannot"),
        ({"node_power_cap_w": 5000.0, "tier": "bound"}, InvalidSpecError, "needs measured kernels"),
        ({"node_power_cap_w": 5000.0, "system": "l40s"}, UnsupportedError, "is unknown; set power"),
    ],
)
def test_limits_that_cannot_be_shared_are_refused(
    fields: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        answered(**fields)


def test_rows_of_a_table_have_their_own_nodes() -> None:
    rows = {name: [value] * 3 for name, value in ASKED.items()}
    rows |= {"system": ["h100_sxm", "b200_sxm", "l40s"], "node_power_cap_w": [8000.0] * 3}
    table = perfatlas.estimate_table(rows).columns
    for place, system in enumerate(("h100_sxm", "b200_sxm")):
        alone = answered(system=system, node_power_cap_w=8000.0)
        assert table["ttft_s"][place] == pytest.approx(alone["ttft_s"])
    assert table["error_code"][2] == "unsupported"


def test_no_end_of_the_interval_of_a_node_exceeds_its_limit() -> None:
    asked = {**ASKED, "isl": 2048}
    asked |= {"osl": 1, "node_power_cap_w": 6000.0, "pue": 1.2}
    found = dict(perfatlas.estimate(**asked).results)
    table = perfatlas.estimate_table({name: [value] for name, value in asked.items()}).columns
    for row in (found, {name: cells[0] for name, cells in table.items()}):
        assert row["node_power_w_low"] < row["node_power_w"] <= row["node_power_w_high"] == 6000.0
        assert row["facility_power_w_high"] == pytest.approx(6000.0 * 1.2 / 8)
