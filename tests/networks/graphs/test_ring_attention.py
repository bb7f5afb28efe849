"""Rings of keys and groups of guidance of a denoiser: operators by hand, laws and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import perfatlas
from perfatlas.networks import StepTokens, resolve_model
from perfatlas.networks.graphs import read_graph
from perfatlas.operators import Attention, Collective, Operator, Phase, Streaming
from perfatlas.parallelism import shard_operators
from perfatlas.quantities import InvalidSpecError
from tests.networks.graphs.test_sequence_parallelism import BATCH, BF16, DIT, STEPS, TOKENS, plan_of

FLUX: dict[str, Any] = {
    "model": "flux.1-dev{steps=2}",
    "system": "h100_sxm",
    "engine": "pytorch",
    "batch": 1,
}


def _rank(cp: float, ring: float) -> dict[str, Operator]:
    network, one = read_graph(DIT, "dit"), np.ones(1)
    tokens = StepTokens(batch=BATCH * one, q_len=one, kv_len=one)
    whole = network.step_operators(BF16, Phase.PREFILL, tokens)
    return {one.name: one for one in shard_operators(whole, plan_of(cp, ring), network)}


def test_a_step_of_a_ring_by_hand() -> None:
    rank = _rank(4, 2)  # 2 x 2 ranks: 32 of 64 queries, 2 of 4 heads of 32
    local, text = rank["attention_1"], rank["attention_2"]
    assert isinstance(local, Attention)
    assert isinstance(text, Attention)
    assert (local.q_len[0], local.kv_len[0], local.num_heads[0]) == (32, 32, 2)
    assert local.count[0] == 2 * STEPS  # two blocks of keys
    assert (text.q_len[0], text.kv_len[0], text.num_heads[0], text.count[0]) == (32, 16, 2, STEPS)
    sent, merge, cast = (rank[f"attention_1_{name}"] for name in ("ring", "merge", "cast"))
    assert isinstance(sent, Collective)
    assert isinstance(merge, Streaming)
    assert isinstance(cast, Streaming)
    # keys and values of 2 items x 32 tokens x 2 heads x 32 elements of 2 bytes
    assert (sent.op, sent.bytes[0], sent.count[0]) == ("send_recv", 2 * 8192, STEPS)
    assert (sent.ranks[0], sent.stride[0]) == (2, 2)  # every second rank: neighbors exchange heads
    # 4,096 elements of output in 4 bytes: the difference of two, which is scaled and subtracted
    assert (merge.read_bytes[0], merge.write_bytes[0], merge.count[0]) == (32_768, 16_384, STEPS)
    scaled, statistics = rank["attention_1_merge_scaled"], rank["attention_1_merge_statistics"]
    assert isinstance(scaled, Streaming)
    assert isinstance(statistics, Streaming)
    moved = scaled.count[0] * (scaled.read_bytes[0] + scaled.write_bytes[0])
    assert moved == STEPS * 4096 * (8 + 12)
    assert (statistics.read_bytes[0], statistics.count[0]) == (2 * 128 * 4, 5 * STEPS)  # 128 rows
    # two blocks and the last output, from 2 to 4 bytes or back
    assert (cast.read_bytes[0], cast.write_bytes[0], cast.count[0]) == (12_288, 12_288, 3 * STEPS)
    assert "attention_2_ring" not in rank  # text is on all ranks
    query = rank["attention_1_query_all_to_all"]
    assert isinstance(query, Collective)
    assert (query.bytes[0], query.ranks[0], query.stride[0], query.count[0]) == (8192, 2, 1, STEPS)


def test_a_ring_of_all_ranks_exchanges_no_heads() -> None:
    rank = _rank(4, 4)
    assert [name for name, one in rank.items() if one.communicates] == ["attention_1_ring"]
    assert all(one.count[0] == 0 for name, one in rank.items() if name.endswith("_copy"))


@pytest.mark.parametrize("cp", [1, 2, 4])
def test_a_ring_of_one_rank_is_none(cp: int) -> None:
    network, one = read_graph(DIT, "dit"), np.ones(2)
    tokens = StepTokens(batch=BATCH * one, q_len=one, kv_len=one)
    whole = network.step_operators(BF16, Phase.PREFILL, tokens)
    plan = type(plan_of(cp))(
        **{name: np.repeat(values, 2) for name, values in vars(plan_of(cp)).items()}
        | {"ring_degree": np.array([1.0, cp])}
    )
    beside = {one.name: one for one in shard_operators(whole, plan, network)}
    for name, operator in _rank(cp, 1).items():
        own = {key: value for key, value in vars(operator).items() if isinstance(value, np.ndarray)}
        for key, value in own.items():
            assert getattr(beside[name], key)[0] == value[0], (name, key)
    new = beside.keys() - _rank(cp, 1).keys()
    assert all(beside[name].count[0] == 0 for name in new)


@pytest.mark.parametrize(("cp", "ring"), [(2, 1), (2, 2), (4, 2), (4, 4), (8, 2), (8, 4)])
def test_ranks_share_the_arithmetic_of_attention(cp: int, ring: int) -> None:
    for name in ("attention_1", "attention_2"):
        whole, local = _rank(1, 1)[name], _rank(cp, ring)[name]
        each = local.count[0] * local.work().flop[0]
        assert each == pytest.approx(whole.count[0] * whole.work().flop[0] / cp, rel=1e-12)
    assert TOKENS % cp == 0


def test_a_transfer_is_hidden_by_the_attention_beside_it() -> None:
    """Three of four blocks of keys run beside transfers, which PCIe makes longer."""
    answer = perfatlas.estimate(
        **FLUX | {"system": "l40s"}, gpus=8, cp=8, ring_degree=4, tier="bound"
    )
    rows = {row["name"]: row for row in answer.breakdown}
    beside = 0.75 * rows["attention_3"]["time_s"]
    assert rows["attention_3_ring"]["hidden_time_s"] == pytest.approx(beside, rel=1e-9)
    large = FLUX | {"model": "flux.1-dev{steps=1,image_size=2048}"}
    fast = perfatlas.estimate(**large, gpus=8, cp=8, ring_degree=4, tier="bound")
    rows = {row["name"]: row for row in fast.breakdown}
    assert rows["attention_3_ring"]["time_s"] == 0.0
    assert rows["attention_3_ring"]["hidden_time_s"] > 0.0


def _flop(cp: float, ring: float = 1.0, guidance: float = 1.0) -> dict[str, float]:
    """Return the FLOP of each operator of the denoiser of SD3 on a rank."""
    network, one = resolve_model("sd3-medium{steps=1}").network, np.ones(1)
    tokens = StepTokens(batch=one, q_len=one, kv_len=one)
    whole = network.step_operators(BF16, Phase.PREFILL, tokens)
    local = shard_operators(whole, plan_of(cp, ring, guidance), network)
    if cp == guidance:
        assert not any(operator.communicates for operator in local)
    return {
        one.name: float(one.count[0] * one.work().flop[0])
        for one in local
        if one.name in network.denoising
    }


def test_groups_of_guidance_run_one_pass_each() -> None:
    whole, half = _flop(1), _flop(2, guidance=2)
    assert half == {name: flop / 2 for name, flop in whole.items()}


def test_guidance_and_rings_share_the_arithmetic_of_attention() -> None:
    whole, local = _flop(1), _flop(8, ring=2, guidance=2)
    names = [name for name in whole if name.startswith("attention")]
    assert names
    assert all(local[name] == pytest.approx(whole[name] / 8, rel=1e-12) for name in names)


def test_a_unet_with_guidance_runs_on_two_ranks() -> None:
    asked = {**FLUX, "model": "sdxl{steps=2}"}
    divided = asked | {"gpus": 2, "cp": 2, "guidance_degree": 2}
    one, two = (perfatlas.estimate(**fields).results for fields in (asked, divided))
    assert one["latency_s"] / 2 < two["latency_s"] < one["latency_s"]
    with pytest.raises(InvalidSpecError, match=r"cp = 4: .*transformer"):
        perfatlas.estimate(**asked, gpus=4, cp=4, guidance_degree=2)


def test_rows_of_a_table_have_rings_of_their_own() -> None:
    rings = [1, 2, 4, 8, 3]
    table = {name: [value] * len(rings) for name, value in FLUX.items()}
    table |= {"gpus": [8] * 5, "cp": [8] * 5, "ring_degree": rings}
    columns = perfatlas.estimate_table(table).columns
    one = [perfatlas.estimate(**FLUX, gpus=8, cp=8, ring_degree=ring) for ring in rings[:4]]
    assert columns["latency_s"][:4] == [answer.results["latency_s"] for answer in one]
    assert one[0].results == perfatlas.estimate(**FLUX, gpus=8, cp=8).results
    assert "ring_degree = 3: must divide cp = 8" in columns["error"][4]


def test_a_search_tries_rings() -> None:
    fields = {name: value for name, value in FLUX.items() if name != "batch"}
    found = perfatlas.search(
        **fields, gpus=8, choices=["ring_degree=1:2:4"], objective="request_latency_s", num_plans=20
    ).answer.results
    plans = {(one["cp"], one["ring_degree"]) for one in found["plans"]}
    assert plans == {(cp, ring) for cp in (1, 2, 4, 8) for ring in (1, 2, 4) if ring <= cp}


def test_heads_that_do_not_divide() -> None:
    wan = {**FLUX, "model": "wan2.1-t2v-1.3b{steps=1}"}  # 12 heads
    with pytest.raises(InvalidSpecError, match=r"num_heads = 12 .*cp"):
        perfatlas.estimate(**wan, gpus=8, cp=8)
    assert perfatlas.estimate(**wan, gpus=8, cp=8, ring_degree=2).results["latency_s"] > 0.0
