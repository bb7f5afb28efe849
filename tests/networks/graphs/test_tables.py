"""Embedding tables that GPUs divide: placement, exchanges by hand, memory, plans, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import perfatlas
from perfatlas.networks import ModelFormats, StepTokens, resolve_model
from perfatlas.networks.graphs import read_graph
from perfatlas.operators import Collective, FloatArray, Operator, Phase, Streaming
from perfatlas.parallelism import PlanColumns, shard_operators, stage_weights_bytes
from perfatlas.parallelism.memory import activation_bytes
from perfatlas.parallelism.tables import place_tables
from perfatlas.quantities import InvalidSpecError

BF16 = ModelFormats(gemm="bf16", moe="bf16", kv="bf16", attention="bf16")
WIDTH, ITEMS = 16, 4
# one table of 10 million rows with 5 ids, and two of a million rows with one
ROWS = 12_000_000
BAGS: dict[str, Any] = {
    "name": "bags",
    "item": "sample",
    "parameters": ROWS * WIDTH + 48 * 8,
    "operators": [
        {
            "kind": "embedding_bag",
            "rows": "5 * batch",
            "width": WIDTH,
            "samples": "batch",
            "table_rows": 10_000_000,
        },
        {
            "kind": "embedding_bag",
            "count": 2,
            "rows": "batch",
            "width": WIDTH,
            "samples": "batch",
            "table_rows": 1_000_000,
        },
        {"kind": "linear", "m": "batch", "n": 8, "k": 48},
    ],
}
DLRM: dict[str, Any] = {"model": "dlrm-dcnv2", "system": "h100_sxm", "batch": 8192}


def _plan(ep: float = 1.0, moe_tp: float = 1.0) -> PlanColumns:
    one = np.ones(1)
    return PlanColumns(
        tp=one, pp=one, cp=one, attention_dp=ep * moe_tp * one, ep=ep * one, moe_tp=moe_tp * one,
        dp=one, ring_degree=one, guidance_degree=one, dcp=one,
    )  # fmt: skip


def _whole() -> tuple[Operator, ...]:
    one = np.ones(1)
    tokens = StepTokens(batch=ITEMS * one, q_len=one, kv_len=one)
    return read_graph(BAGS, "bags").step_operators(BF16, Phase.PREFILL, tokens)


def _rank(plan: PlanColumns) -> dict[str, Operator]:
    return {one.name: one for one in shard_operators(_whole(), plan, read_graph(BAGS, "bags"))}


def _sent(rank: dict[str, Operator]) -> dict[str, tuple[float, float]]:
    found = [one for one in rank.values() if isinstance(one, Collective)]
    return {one.name: (float(one.bytes[0]), float(one.ranks[0])) for one in found}


def test_groups_of_whole_tables() -> None:
    """One rank has the large table, the other two small ones; each for the items of both."""
    rank = _rank(_plan(ep=2))
    lookup = rank["embedding_bag"]
    assert isinstance(lookup, Streaming)
    assert lookup.gathers == 5 * 2 * ITEMS  # of the rank that looks up most
    assert lookup.cold_read_bytes[0] == 5 * 2 * ITEMS * WIDTH * 2
    assert lookup.write_bytes[0] == 2 * ITEMS * WIDTH * 2
    assert (lookup.count[0], lookup.row_bytes) == (1, WIDTH * 2)
    assert _sent(rank) == {
        # it receives 5 indices of 8 items, more than the 7 of 4 items that each rank sends
        "embedding_bag_indices_all_to_all": (5 * 2 * ITEMS * 8, 2),
        # the rank with two tables sends most sums
        "embedding_bag_all_to_all": (2 * 2 * ITEMS * WIDTH * 2, 2),
    }
    assert [name for name in rank if not name.startswith("embedding_bag")] == ["linear_1"]


def test_rows_of_each_table() -> None:
    rank = _rank(_plan(moe_tp=2))
    lookup = rank["embedding_bag"]
    assert isinstance(lookup, Streaming)
    assert lookup.gathers == 7 * 2 * ITEMS / 2
    assert lookup.write_bytes[0] == 3 * 2 * ITEMS * WIDTH * 2  # sums of its rows, of all tables
    assert _sent(rank) == {
        "embedding_bag_indices_all_to_all": (7 * ITEMS * 8, 2),
        "embedding_bag_reduce_scatter": (3 * 2 * ITEMS * WIDTH * 2, 2),
    }


def test_groups_that_divide_rows_reduce_before_they_exchange() -> None:
    sent = _sent(_rank(_plan(ep=2, moe_tp=2)))
    assert sent == {
        # of 7 indices of 4 items it sends, and receives half of the 5 of 16 items
        "embedding_bag_indices_all_to_all": (5 * 4 * ITEMS * 8 / 2, 4),
        "embedding_bag_reduce_scatter": (2 * 4 * ITEMS * WIDTH * 2, 2),
        "embedding_bag_all_to_all": (2 * 4 * ITEMS * WIDTH * 2 / 2, 2),
    }


@pytest.mark.parametrize(("ep", "moe_tp"), [(2, 1), (1, 2), (4, 1), (2, 2), (1, 4)])
def test_balanced_tables_are_below_every_placement(ep: int, moe_tp: int) -> None:
    """A rank looks up 7 ids for each of its own items and sends the sums of its share of tables."""
    plan, network = _plan(ep=ep, moe_tp=moe_tp), read_graph(BAGS, "bags")
    least = {
        one.name: one for one in shard_operators(_whole(), plan, network, balanced_tables=True)
    }
    lookup, placed = least["embedding_bag"], _rank(plan)["embedding_bag"]
    assert isinstance(lookup, Streaming)
    assert isinstance(placed, Streaming)
    assert lookup.gathers == pytest.approx(7 * ITEMS)
    assert lookup.write_bytes[0] == pytest.approx(3 * ITEMS * WIDTH * 2)
    least_bytes, bytes_placed = (
        float(one.cold_read_bytes[0] + one.write_bytes[0]) for one in (lookup, placed)
    )
    assert least_bytes <= bytes_placed * (1.0 + 1e-12)
    sent, lengths = _sent(least), {"indices_": 7 * ITEMS * 8, "": 3 * ITEMS * WIDTH * 2}
    assert sent.keys() == {f"embedding_bag_{name}all_to_all" for name in lengths}
    for name, size in lengths.items():
        assert sent[f"embedding_bag_{name}all_to_all"] == pytest.approx((size, ep * moe_tp))


def test_one_rank_divides_nothing() -> None:
    whole = _whole()
    assert shard_operators(whole, _plan(), read_graph(BAGS, "bags")) == whole


def test_weights_are_those_of_the_fullest_rank() -> None:
    network, head = read_graph(BAGS, "bags"), 48 * 8 * 2
    held = {
        sizes: float(stage_weights_bytes(network, BF16, _plan(*sizes))[0]) - head
        for sizes in ((1, 1), (2, 1), (1, 2), (2, 2))
    }
    row = WIDTH * 2
    shares = {(1, 1): 12, (2, 1): 10, (1, 2): 6, (2, 2): 5}
    assert held == {sizes: share * 1_000_000 * row for sizes, share in shares.items()}


def test_ranks_hold_the_sums_of_all_items() -> None:
    network, one = read_graph(BAGS, "bags"), np.ones(1)

    def peak(plan: PlanColumns) -> float:
        return float(activation_bytes(network, plan, 1000 * one, one, 1.0, 0.0)[0])

    assert peak(_plan()) == 1000 * (48 + 8) * 2  # the product, of more than the sums
    assert peak(_plan(moe_tp=4)) == 4 * 1000 * 3 * WIDTH * 2
    assert peak(_plan(ep=2)) == 1000 * (48 + 8) * 2


SIZES = st.lists(st.integers(1, 1000), min_size=1, max_size=12)


@given(SIZES, st.integers(1, 16))
def test_every_table_is_on_one_group(sizes: list[int], groups: int) -> None:
    """The bytes of all groups are those of all tables, and more groups hold no more on one."""
    bytes_O = np.array(sizes, float)
    ones_O = np.ones(len(sizes))

    def held(number: int) -> FloatArray:
        found: FloatArray = place_tables(bytes_O[None], ones_O, number) @ bytes_O
        return found

    assert held(groups).sum() == pytest.approx(bytes_O.sum())
    assert np.all(place_tables(bytes_O[None], ones_O, groups).sum(axis=0) == ones_O)
    # Graham 1969, Bounds on multiprocessing timing anomalies: the mean and a part of the largest
    best = max(bytes_O.max(), bytes_O.sum() / groups)
    assert held(groups).max() <= best + bytes_O.max() * (1.0 - 1.0 / groups)
    assert held(groups + 1).max() <= held(groups).max() * (1.0 + 1e-12)


def test_tables_of_the_catalog_over_gpus() -> None:
    """26 tables of 204 million rows in all, six of them of 40 million."""
    network = resolve_model("dlrm-dcnv2").network
    assert network.tables == 26
    sizes = [*((ep, 1) for ep in range(1, 27)), *((1, rows) for rows in (2, 4, 8, 16, 32, 64))]
    held = {one: float(stage_weights_bytes(network, BF16, _plan(*one))[0]) for one in sizes}
    assert held[1, 1] == 2 * 26_151_671_809
    by_table = [held[ep, 1] for ep in range(1, 27)]
    assert by_table == sorted(by_table, reverse=True)
    assert held[8, 1] > 40_000_000 * 256
    dense = 2.0 * held[1, 2] - held[1, 1]
    for rows in (2, 4, 8, 16, 32, 64):
        tables = held[1, 1] - dense
        assert held[1, rows] == pytest.approx(tables / rows + dense, rel=1e-12)


def test_a_table_mixes_copies_and_divided_tables() -> None:
    plans = {"attention_dp": [1, 8, 8], "ep": [1, 8, 1]}
    columns = perfatlas.estimate_table({**{k: [v] * 3 for k, v in DLRM.items()}, **plans}).columns
    alone = perfatlas.estimate(**DLRM).results["latency_s"]
    assert columns["latency_s"][0] == pytest.approx(alone, rel=1e-12)
    memory = columns["memory_total_bytes"]
    assert memory[0] > memory[1] > memory[2]
    assert all(late < alone for late in columns["latency_s"][1:])


def test_more_gpus_hold_no_more() -> None:
    for of_tables in ("ep", "moe_tp"):
        held = [
            perfatlas.estimate(**DLRM | {"attention_dp": ways, of_tables: ways}).results["memory"]
            for ways in (1, 2, 4, 8, 16)
        ]
        totals = [one["total_bytes"] for one in held]
        assert totals == sorted(totals, reverse=True)


def test_a_small_gpu_needs_divided_tables() -> None:
    found = perfatlas.estimate(model="dlrm-dcnv2", system="l40s", attention_dp=4, batch=4096)
    assert found.results["memory"]["weights_bytes"] < 14e9


def test_too_many_tables_are_refused() -> None:
    rows = [BAGS["operators"][0] | {"count": 10_001}]
    with pytest.raises(InvalidSpecError, match=r"10,001 .*table_rows"):
        read_graph(BAGS | {"operators": rows, "parameters": 10**13}, "bags")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"table_rows": 10**9}, r"parameters = 192,000,384: .* 16,000,000,000, more than all"),
        ({"table_rows": "2 * half"}, r"embedding_bag: table_rows = 2 \* half depends on the batch"),
        ({"rows": 0}, "embedding_bag: rows = 0 is 0"),
    ],
)
def test_tables_that_no_network_has_are_refused(change: dict[str, Any], message: str) -> None:
    first = BAGS["operators"][0] | change
    graph = BAGS | {"lengths": {"half": "batch / 2"}, "operators": [first]}
    with pytest.raises(InvalidSpecError, match=message):
        read_graph(graph, "bags")
