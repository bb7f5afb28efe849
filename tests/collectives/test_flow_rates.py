"""Flows on links: closed forms, collisions of hashes, other jobs, and links that are down."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from perfatlas import collective
from perfatlas.collectives import (
    OPS,
    CollectiveShapes,
    Congestion,
    Traffic,
    congestion,
    price_collectives,
)
from perfatlas.collectives.codes import EXCHANGES
from perfatlas.collectives.direct_links import DIRECT, TORUS, direct_algorithm
from perfatlas.collectives.max_min import max_min_rates
from perfatlas.hardware import resolve_system, system_names
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.report.text.closing import confidence_lines

SMALL = "fabric.leaf_nodes=4, fabric.radix=64"  # eight rails of four nodes


def congested(
    system: str,
    op: str,
    units: int,
    **traffic: Any,  # noqa: ANN401 - fields
) -> Congestion:
    """Return the congestion of some nodes or a slice, by default with adaptive routes."""
    named = resolve_system(system)
    ranks = named.device.scale_up.domain_size * units
    return congestion(named, op, ranks, Traffic(**{"routing": "adaptive"} | traffic))


@pytest.mark.parametrize("routing", ["ecmp", "adaptive"])
@pytest.mark.parametrize("units", [2, 32, 100])
def test_rings_of_a_full_fat_tree_run_at_the_rate_of_a_nic(routing: str, units: int) -> None:
    found = congested("h100_sxm", "all_reduce", units, routing=routing)
    assert found.slowdown == pytest.approx(1.0)  # one flow of each rail leaves a leaf
    assert found.slowest_flow_bytes_per_s == pytest.approx(50e9)


@settings(max_examples=20, deadline=None)
@given(
    ratio=st.sampled_from([1, 2, 4, 8]), leaves=st.integers(1, 6), pods=st.sampled_from([1, 2, 7])
)
def test_adaptive_exchanges_equal_the_closed_form(ratio: int, leaves: int, pods: int) -> None:
    system = f"h100_sxm{{{SMALL}, fabric.oversubscription={ratio}"
    system += f", fabric.pod_nodes=8, fabric.pod_oversubscription={pods}}}" if pods > 1 else "}"
    units = 4 * leaves
    found = congested(system, "all_to_all", units)
    # shares of peers beyond a leaf of 4 and a pod of 8 nodes; a pod has at most the leaves' uplinks
    beyond = ratio * (units - 4) / max(units - 1, 1)
    across = max(pods, ratio) * (units - 8) / (units - 1) if pods > 1 else 0.0
    assert found.slowdown == pytest.approx(max(1.0, beyond, across))


def test_a_price_with_adaptive_routes_is_that_of_closed_forms() -> None:
    system = "h100_sxm{fabric.oversubscription=4}"
    asked: dict[str, Any] = {"system": system, "op": "all_to_all", "bytes": 2**30, "gpus": 512}
    routed = collective(**asked, fabric_routing="adaptive").results
    assert routed["time_s"] == pytest.approx(collective(**asked).results["time_s"])
    assert routed["fabric_slowdown"] == pytest.approx(4.0 * 32.0 / 63.0)


def most_of_eight(flows: int) -> list[float]:
    """Return the chances of the most flows on one of eight links (flows + 1,)."""
    below = []  # ways in which no link has more than `most`, by exponential generating functions
    for most in range(flows + 1):
        one = [1.0 / math.factorial(k) for k in range(most + 1)]
        ways = np.eye(1, flows + 1)[0]
        for _ in range(8):
            ways = np.convolve(ways, one)[: flows + 1]
        below.append(float(ways[flows]) * math.factorial(flows) / 8.0**flows)
    return [b - a for a, b in itertools.pairwise([0.0, *below])]


def test_hashes_of_eight_flows_on_eight_uplinks_collide_as_balls_in_bins() -> None:
    # two nodes of a fat tree, each with a leaf of eight uplinks: eight flows each way, and the
    # slower way counts; one way alone has 2.60 flows on its fullest link
    chances = most_of_eight(8)
    assert sum(most * chance for most, chance in enumerate(chances)) == pytest.approx(
        2.60, abs=0.01
    )
    below = np.cumsum(chances)
    expected = sum(m * (below[m] ** 2 - below[m - 1] ** 2) for m in range(1, 9))
    system = "h100_sxm{fabric.topology=fat_tree, fabric.leaf_nodes=1}"
    drawn = [
        congested(system, "all_reduce", 2, routing="ecmp", seed=seed).slowdown
        for seed in range(400)
    ]
    assert np.mean(drawn) == pytest.approx(expected, abs=0.12)
    more = [
        congested(system, "all_reduce", 2, routing="ecmp", queue_pairs=4, seed=seed).slowdown
        for seed in range(100)
    ]
    assert np.mean(more) < 0.75 * np.mean(drawn)  # queue pairs even the links out


def test_jobs_of_shared_leaves_slow_each_other_down() -> None:
    scattered: dict[str, Any] = {"jobs": 2, "scattered": True, "routing": "ecmp"}
    narrow = f"h100_sxm{{{SMALL}, fabric.oversubscription=4}}"
    both = congested(narrow, "all_to_all", 16, **scattered)
    assert both.alone is not None
    assert both.slowdown > 1.3 * both.alone
    packed = congested(narrow, "all_to_all", 16, jobs=2)
    assert packed.slowdown == pytest.approx(congested(narrow, "all_to_all", 16).slowdown)


def test_a_failed_uplink_slows_its_leaf_down() -> None:
    # 1 of the 4 uplinks of one leaf is down: 4/3, with 12 of 15 peers beyond the leaf
    found = congested(f"h100_sxm{{{SMALL}}}", "all_to_all", 16, failed_links=1)
    assert found.slowdown == pytest.approx(4.0 / 3.0 * 12.0 / 15.0)
    assert found.links_up == pytest.approx(1.0)
    leaf = next(use for use in found.uses if use.tier == "leaf_to_spine")
    assert leaf.max_share == pytest.approx(1.0)


def test_packets_lost_on_flapping_links_wait_for_the_transport() -> None:
    asked: dict[str, Any] = {"system": "h100_sxm", "op": "all_to_all", "bytes": 2**30, "gpus": 512}
    down = collective(**asked, fabric_routing="ecmp", failed_links=2).results
    flaps = collective(
        **asked, fabric_routing="ecmp", failed_links=2, link_failure="flapping"
    ).results
    assert flaps["stall_s"] == pytest.approx(4.096e-6 * 2**20)
    assert flaps["time_s"] - down["time_s"] == pytest.approx(flaps["stall_s"])


@pytest.mark.parametrize("routing", ["ecmp", "adaptive"])
@pytest.mark.parametrize(("units", "jobs"), [(4, 1), (4, 2), (8, 1)])
def test_links_that_flap_stop_only_collectives_that_use_their_leaf(
    routing: str, units: int, jobs: int
) -> None:
    # four nodes fill a leaf, another job has one of its own; rings of two leaves pass its uplinks
    flaps: dict[str, Any] = {"routing": routing, "flapping": True, "queue_pairs": 64}
    found = congested(
        f"h100_sxm{{{SMALL}}}", "all_reduce", units, jobs=jobs, failed_links=1, **flaps
    )
    assert found.stall_s == pytest.approx(4.096e-6 * 2**20 if units > 4 else 0.0)


def test_a_plane_is_a_network_of_its_own() -> None:
    # two planes have half the rate each; with two leaves in four nodes, both carry half the flows
    one, two = (
        congested(f"h100_sxm{{{SMALL}, fabric.planes={n}}}", "all_to_all", 8) for n in (1, 2)
    )
    assert one.slowdown == two.slowdown
    ports = congested(f"h100_sxm{{{SMALL}, fabric.planes=2}}", "all_to_all", 8, routing="ecmp")
    assert ports.uses[0].count == 2 * one.uses[0].count


def test_adaptive_routes_of_a_dragonfly_pass_other_groups() -> None:
    # 8 groups of 8 nodes of 4 NICs; two groups exchange over 1/7 of a group's links directly, but
    # all links of the two are free: 8 of 15 peers beyond, at 1.75 NICs per global link
    system = "mi300a{fabric.pod_nodes=8, fabric.pods=8}"
    minimal = congested(system, "all_to_all", 16, routing="ecmp")
    assert minimal.slowdown > 1.75 * 8.0 / 15.0 * 7.0 * 0.9
    assert congested(system, "all_to_all", 16).slowdown == pytest.approx(1.0)  # 1.75 x 8/15 < 1
    # with all groups busy, each passes on what others send: nearly twice the flows
    busy = congested(system, "all_to_all", 64).slowdown
    assert busy == pytest.approx(1.75 * 56.0 / 63.0, rel=0.01)  # direct links carry a uniform load


@pytest.mark.parametrize(("name", "side"), [("v5p-128", 4), ("v5p-1024", 8)])
def test_exchanges_of_a_torus_reach_its_bisection(name: str, side: int) -> None:
    system = resolve_system(name)
    scale_up, found = system.device.scale_up, congested(name, "all_to_all", 1)
    link, chips = scale_up.bandwidth / scale_up.links, scale_up.domain_size
    assert found.slowest_flow_bytes_per_s is not None
    assert found.slowest_flow_bytes_per_s * chips == pytest.approx(8.0 * link / side)
    assert found.slowdown == 1.0


@pytest.mark.parametrize("tier", ["auto", "bound"])
@pytest.mark.parametrize("failed", [0, 1])
def test_no_exchange_of_a_torus_is_faster_than_its_fullest_link(tier: str, failed: int) -> None:
    asked: dict[str, Any] = {"system": "v5p-1024", "op": "all_to_all", "gpus": 512, "tier": tier}
    asked |= {"bytes": 2**30, "fabric_routing": "adaptive", "failed_links": failed}
    answer = collective(**asked)
    found, chips = answer.results, 512
    least_s = 2**30 / chips / found["slowest_flow_bytes_per_s"]
    assert found["bound_time_s"] == pytest.approx(least_s)
    assert min(found["time_s"], found["time_s_low"]) >= found["bound_time_s"]
    link = resolve_system("v5p-1024").device.scale_up.bandwidth / 6
    assert failed or least_s == pytest.approx(2**30 / link)  # 8 links of a side of 8 carry 1/8
    assert not any("do not slow the time" in text for text in answer.warnings)


def test_neighbours_of_a_torus_send_around_a_link_that_is_down() -> None:
    assert congested("v5p-128", "all_reduce", 1, failed_links=1).slowdown == pytest.approx(2.0)


@pytest.mark.parametrize("routing", ["ecmp", "adaptive"])
def test_the_mean_use_counts_links_that_exist_and_nodes_of_jobs(routing: str) -> None:
    # 8 of the 32 nodes of a leaf are of the job, each with all its 8 NICs in use
    ring = congested("h100_sxm", "all_reduce", 8, routing=routing)
    assert [use.count for use in ring.uses] == [64, 64]
    assert [use.mean_share for use in ring.uses] == pytest.approx([1.0, 1.0])
    # all pairs of 8 groups but those of a group with itself carry the same
    busy = congested("mi300a{fabric.pod_nodes=8, fabric.pods=8}", "all_to_all", 64, routing=routing)
    across = next(use for use in busy.uses if use.tier == "group_to_group")
    assert across.count % (8 * 7) == 0
    if routing == "adaptive":
        assert across.mean_share == pytest.approx(across.max_share)


def test_other_jobs_and_fewer_links_are_never_faster() -> None:
    system = "h100_sxm{fabric.topology=fat_tree, fabric.leaf_nodes=2}"
    slowdowns = [
        congested(system, "all_to_all", 8, failed_links=links).slowdown for links in range(0, 16, 3)
    ]
    assert slowdowns == sorted(slowdowns)
    jobs = [congested(system, "all_to_all", 8, jobs=n, scattered=True) for n in (2, 3, 4)]
    assert all(one.alone is not None and one.slowdown >= one.alone - 1e-9 for one in jobs)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_each_rate_is_highest_on_a_full_link(seed: int) -> None:
    """The condition of max-min fairness: a bundle has a full link on which no other is faster."""
    rng = np.random.default_rng(seed)
    bandwidth_L, bundles = rng.uniform(1.0, 10.0, 12), 9
    paths = [np.sort(rng.choice(12, rng.integers(1, 6), replace=False)) for _ in range(bundles)]
    start_F, link_E = np.cumsum([0, *map(len, paths)]), np.concatenate(paths)
    flows_E = rng.integers(1, 4, link_E.size).astype(float)
    rate_F, used_L = max_min_rates(start_F, link_E, flows_E, bandwidth_L)
    assert np.all(used_L <= bandwidth_L * (1.0 + 1e-9))
    for bundle, path in enumerate(paths):
        full = [link for link in path if used_L[link] >= bandwidth_L[link] * (1.0 - 1e-9)]
        others = [[rate_F[f] for f, other in enumerate(paths) if link in other] for link in full]
        assert any(rate_F[bundle] >= max(rates) * (1.0 - 1e-9) for rates in others)


@pytest.mark.parametrize(
    ("fields", "kind", "told"),
    [
        ({"failed_links": 100_000}, InvalidSpecError, "leave at least one up"),
        ({"failed_links": 127}, InvalidSpecError, "cuts off"),
        ({"queue_pairs": 0}, InvalidSpecError, "queue_pairs"),
        ({"concurrent_jobs": -1}, InvalidSpecError, "concurrent_jobs"),
        ({"job_placement": "scattered"}, InvalidSpecError, "set concurrent_jobs"),
        ({"gpus": 10**8}, UnsupportedError, "fewer gpus"),
        ({"system": "lpu"}, UnsupportedError, "leave fabric_routing out"),
        ({"system": "mi300a{fabric.pods=2}", "gpus": 4096}, InvalidSpecError, "set fabric.pods"),
        ({"system": "v5p-128", "gpus": 64, "concurrent_jobs": 2}, UnsupportedError, "share no"),
        ({"system": "v5p-128", "gpus": 32}, UnsupportedError, "whole slices"),
        ({"system": "v5e-8", "gpus": 8, "failed_links": 3}, InvalidSpecError, "cuts lines"),
    ],
)
def test_traffic_without_a_meaning_is_refused(
    fields: dict[str, Any], kind: type[Exception], told: str
) -> None:
    asked: dict[str, Any] = {"system": f"h100_sxm{{{SMALL}}}", "op": "all_to_all"}
    asked |= {"bytes": 2**20, "gpus": 128}
    with pytest.raises(kind, match=told):
        collective(**asked | {"fabric_routing": "ecmp"} | fields)


def test_routes_of_one_domain_have_no_effect() -> None:
    asked: dict[str, Any] = {"system": "h100_sxm", "op": "all_reduce", "bytes": 2**20, "gpus": 8}
    found = collective(**asked, fabric_routing="ecmp")
    assert any("no link between nodes" in text for text in found.warnings)
    assert found.results["time_s"] == collective(**asked).results["time_s"]


@pytest.mark.parametrize(
    ("gpus", "told"), [(8, "failed_links have no effect"), (32, "leaf switch")]
)
def test_failed_links_that_no_flow_passes_are_told(gpus: int, told: str) -> None:
    asked: dict[str, Any] = {"system": f"h100_sxm{{{SMALL}}}", "op": "all_reduce", "bytes": 2**20}
    asked |= {"fabric_routing": "ecmp", "failed_links": 1}
    assert any(told in text for text in collective(**asked, gpus=gpus).warnings)
    assert not any("no effect" in text for text in collective(**asked, gpus=64).warnings)


def test_an_interval_with_other_jobs_is_not_said_to_be_without_traffic() -> None:
    asked: dict[str, Any] = {"system": "h100_sxm", "op": "all_reduce", "bytes": 2**20, "gpus": 16}
    asked |= {"fabric_routing": "ecmp"}
    alone, shared = (
        confidence_lines(collective(**asked, concurrent_jobs=jobs).to_dict()) for jobs in (1, 2)
    )
    assert "the 90% interval covers other machines, without other traffic" in alone
    assert "the 90% interval covers other machines, with no traffic but that of the jobs" in shared


def network_of(name: str) -> tuple[object, ...]:
    """Return what routes between devices of a system depend on."""
    system = resolve_system(name)
    kind, fabric = system.device.scale_up.kind, system.fabric
    return kind, fabric.topology, fabric.oversubscription, fabric.pod_oversubscription


TIERS = "fabric.leaf_nodes=4, fabric.pod_nodes=16, fabric.pod_oversubscription"
NETWORKS = [
    *{network_of(name): name for name in system_names()}.values(),
    *("v5e-8", "v5e-64", "v5p-1024", "v6e-256"),
    *("h100_sxm{fabric.topology=fat_tree, fabric.oversubscription=4}", f"h100_sxm{{{TIERS}=7}}"),
    *(f"h100_sxm{{{TIERS}=3, fabric.topology={name}}}" for name in ("dragonfly", "dragonfly_plus")),
]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("op", OPS)
def test_no_collective_is_faster_than_the_bytes_on_its_links(name: str, op: str) -> None:
    system, size = resolve_system(name), 2.0**30
    scale_up, node = system.device.scale_up, system.node
    direct = direct_algorithm(system)
    unit = scale_up.domain_size if direct else max(scale_up.domain_size, node.devices)
    units = 1 if direct == TORUS else 64
    ranks = unit * units
    beyond = size * (1.0 - 1.0 / units)  # of a rank's buffer of an exchange, for other nodes
    if op in EXCHANGES:
        least_s = beyond / (node.nics * node.nic_bandwidth / node.devices)
        if direct != DIRECT:  # a compiler schedules those links
            flows = congestion(system, op, ranks, Traffic(routing="adaptive"))
            least_s = max(least_s * flows.slowdown, size * flows.least_s_per_byte)
    elif units == 1:
        least_s = (1.0 if op == "send_recv" else 1.0 - 1.0 / ranks) * size / scale_up.bandwidth
    else:  # whatever the algorithm, a node receives what other nodes have
        moved = size if op in ("all_reduce", "send_recv") else beyond
        least_s = moved / (node.nics * node.nic_bandwidth * unit / node.devices)
    shapes = CollectiveShapes(
        op=op, bytes=np.array([size]), ranks=np.array([float(ranks)]), stride=np.ones(1)
    )
    prices = price_collectives(
        shapes,
        systems=[system],
        system_index_U=np.zeros(1, np.int64),
        tier="auto",
    ).prices
    assert prices.low_s_CO[0, 0] >= least_s * (1.0 - 1e-9)


@pytest.mark.parametrize(
    ("system", "axis", "links"), [("v6e-256", 16, 8), ("v5p-1024", 8, 8), ("v5e-8", 4, 4)]
)
def test_an_exchange_of_a_torus_crosses_the_middle_of_its_longest_axis(
    system: str, axis: int, links: int
) -> None:
    # 256 chips of 90 GB/s a link: 128 send half of 1 GB over 2 x 16 links, 1 GB x 16 / (8 x 90e9)
    scale_up = resolve_system(system).device.scale_up
    chips = scale_up.domain_size
    found = collective(system=system, op="all_to_all", bytes=10**9, gpus=chips).results
    expected_s = 1e9 * axis / (links * scale_up.bandwidth / scale_up.links)
    assert found["bound_time_s"] == pytest.approx(expected_s)
    assert found["time_s_low"] >= found["bound_time_s"]
