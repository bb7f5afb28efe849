"""Power of nodes, racks and facilities: values by hand, datasheets and laws."""

from __future__ import annotations

from typing import Any

import pytest

import perfatlas
from perfatlas.energy import board_energy, node_note, node_parts, node_power, switch_optics_w
from perfatlas.files import shipped_table
from perfatlas.hardware import resolve_system, system_names
from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.fleet.model import find_rate
from perfatlas.verbs.estimate import estimate_table

LLAMA = "meta-llama/Llama-3.1-8B"


def served(**fields: object) -> dict[str, Any]:
    asked: dict[str, Any] = {"model": LLAMA, "system": "h100_sxm", "isl": 1024, "osl": 128}
    return dict(perfatlas.estimate(**{**asked, **fields}).results)


def test_the_power_of_a_node_by_hand() -> None:
    own = node_power(resolve_system("h100_sxm").node)
    components_w = 8 * 700.0 + 560.0 + 300.0 + 400.0 + 8 * 34.0
    assert own.node_w(700.0) == pytest.approx(components_w * 1.031 / 0.94)


def test_the_optics_of_switches_by_hand() -> None:
    plain, pluggable, co_packaged = (
        node_power(resolve_system(f"gb300{{node.switch_optics={kind}}}").node)
        for kind in ("none", "pluggable", "co_packaged")
    )
    # four NICs of 800 Gbit/s with three ends at switches of 15.5 and 5.2 W
    assert pluggable.host_w - plain.host_w == pytest.approx(4 * 3 * 15.5)
    assert co_packaged.host_w - plain.host_w == pytest.approx(4 * 3 * 5.2)
    slower = resolve_system("h100_sxm{node.switch_optics=pluggable}").node
    assert switch_optics_w(slower) == pytest.approx(3 * 15.5 / 2)  # 400 Gbit/s
    ends = [switch_optics_w(slower, end) for end in ("low", "value", "high")]
    assert ends == sorted(ends)
    metered = {"concurrency": 16, "usd_per_kwh": 0.1}
    more = served(system="gb300{node.switch_optics=pluggable}", **metered)
    less = served(system="gb300{node.switch_optics=co_packaged}", **metered)
    per_gpu_w = 3 * (15.5 - 5.2) * pluggable.factor
    assert more["facility_power_w"] - less["facility_power_w"] == pytest.approx(per_gpu_w)
    # no flap in 10^6 port-hours: at most three
    assert find_rate("co_packaged_port").per_day == pytest.approx(3.0 * 24.0 / 1e6)
    with pytest.raises(InvalidSpecError, match="did you mean 'co_packaged'"):
        resolve_system("gb300{node.switch_optics=copackaged}")


def test_the_links_of_superchips_by_hand() -> None:
    own = shipped_table("data/energy/nodes.toml")["nvl72_gb200"]
    full_w = 2 * 900e9 * 8 * 1.3e-12  # two links at 1.3 pJ/bit
    assert full_w == pytest.approx(18.7, rel=2e-3)
    assert own["c2c"]["value"] == round(full_w / 2)
    assert own["c2c"]["high"] == round(full_w)
    assert own["cpu"]["value"] + own["c2c"]["value"] == pytest.approx(0.8 * 2 * 300.0)
    components_w = 4 * 1200.0 + 471.0 + 9.0 + 350.0 + 250.0 + 4 * 34.0
    node = node_power(resolve_system("gb200").node)
    assert node.node_w(1200.0) == pytest.approx(components_w * 1.03 / 0.97)


@pytest.mark.parametrize("name", list(shipped_table("data/hardware/nodes.toml")))
def test_every_value_of_a_node_lies_in_its_interval_and_has_a_source(name: str) -> None:
    values = node_parts(name)
    assert values is not None
    assert set(values) >= {"nic", "other", "fans", "efficiency"}
    for one in values.values():
        assert one["low"] <= one["value"] <= one["high"]
        assert one["low"] > 0.0 or one["kind"] == "fitted"
        assert one["kind"] in ("datasheet", "derived", "assumed", "fitted")
        assert len(one["ref"]) > 10


def test_a_node_shares_the_parts_of_another_but_for_those_it_has_not() -> None:
    own, like = node_parts("ubb_8_400"), node_parts("hgx_b200")
    assert own is not None
    assert like is not None
    assert own["other"] == like["other"]
    assert own["cpu"] != like["cpu"]
    assert set(like) - set(own) == {"switch"}


def test_a_share_of_fans_is_fitted_only_of_nodes_that_were_measured() -> None:
    names = list(shipped_table("data/energy/nodes.toml"))
    fitted = [
        name
        for name in names
        if "fitted" in {one["kind"] for one in (node_parts(name) or {}).values()}
    ]
    assert fitted == ["hgx_hopper"]
    assert "no AC power of such a node was compared" in node_note("gaudi3_server")
    assert "compared with AC power of a node of 8 B200" in node_note("hgx_b200")
    ours, theirs = ((node_parts(one) or {})["fans"] for one in ("gaudi3_server", "hgx_b200"))
    assert [ours[end] for end in ("low", "value", "high")] == [
        theirs[end] for end in ("low", "value", "high")
    ]


def test_a_rack_of_rubin_draws_what_is_reported() -> None:
    system = resolve_system("rubin")
    reported = shipped_table("data/energy/nodes.toml")["nvl72_rubin"]["rack_w"]
    assert reported["low"] <= 18 * node_power(system.node).node_w(1800.0) <= reported["high"]


@pytest.mark.parametrize("system", system_names())
def test_every_system_of_the_catalog_has_watts_and_their_interval(system: str) -> None:
    found = resolve_system(system)
    board = board_energy(found.device)
    low_w, node_w, high_w = (
        node_power(found.node, end).node_w(found.device.tdp_w) for end in ("low", "value", "high")
    )
    assert found.node.devices * found.device.tdp_w < node_w
    assert 0.0 < low_w < node_w < high_w
    assert 0.0 < board.idle_w <= board.on_w <= board.cap_w
    assert all(joules > 0.0 for joules in board.flop_j.values())
    assert 0.0 < board.low < 1.0 < board.high


@pytest.mark.parametrize("system", ["v100_sxm2_32gb", "a100_sxm", "h100_sxm", "b200_sxm", "gb10"])
def test_a_node_at_its_tdp_draws_less_than_its_rated_power(system: str) -> None:
    found = resolve_system(system)
    watts = node_power(found.node).node_w(found.device.tdp_w)
    assert (
        0.7 * shipped_table("data/energy/nodes.toml")[found.node.name]["rated_w"]["value"] < watts
    )
    assert watts < shipped_table("data/energy/nodes.toml")[found.node.name]["rated_w"]["value"]


@pytest.mark.parametrize("system", ["gb200", "gb300"])
def test_a_rack_of_72_gpus_draws_between_110_and_145_kw(system: str) -> None:
    found = resolve_system(system)
    own = node_power(found.node)
    rack_w = 72 / own.devices * own.node_w(found.device.tdp_w)
    assert 110e3 <= rack_w <= 145e3


def test_facility_power_and_electricity_by_hand() -> None:
    found = served(tp=4, batch=8, pue=1.25, usd_per_kwh=0.1)
    own = node_power(resolve_system("h100_sxm").node)
    node_w = own.node_w(found["power_w"])
    assert found["node_power_w"] == pytest.approx(node_w)
    assert found["facility_power_w"] == pytest.approx(1.25 * node_w * 4 / 8)
    hourly = found["facility_power_w"] / 1e3 * 0.1
    assert found["electricity_usd_per_hour"] == pytest.approx(hourly)
    tokens = found["output_tokens_per_s_per_gpu"] * 4 * 3600
    million = found["electricity_usd_per_million_output_tokens"]
    assert million == pytest.approx(hourly / tokens * 1e6)
    for name in ("node_power_w", "facility_power_w"):
        assert found[f"{name}_low"] <= found[name] <= found[f"{name}_high"]


def test_nodes_without_data_have_no_power_and_tables_equal_estimates() -> None:
    systems = ["h100_sxm", "h200_sxm{device.architecture=other}", "h100_sxm"]
    table: dict[str, list[Any]] = {"model": [LLAMA] * 3, "system": systems, "isl": [1024] * 3}
    found = estimate_table(table | {"osl": [128] * 3, "pue": [1.25, 1.25, None]}).columns
    single = served(pue=1.25)
    for name in ("node_power_w", "node_power_w_high", "facility_power_w"):
        assert found[name][0] == pytest.approx(single[name], rel=1e-12)
    assert found["node_power_w"][1] is None
    assert found["facility_power_w"][2] is None
