"""Heterogeneous replicas behind one router: laws and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.scenario import deployments
from perfatlas.scenario.resolution import split_fields
from perfatlas.serving.config import Control
from perfatlas.verbs.simulate import simulate

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
LOAD: dict[str, Any] = {"model": MODEL, "isl": 512, "osl": 32, "num_requests": 150}
BUSY: dict[str, Any] = {**LOAD, "request_rate": 60}
OLD: dict[str, Any] = {"system": "a100_sxm"}
NEW: dict[str, Any] = {"system": "h200_sxm"}


def _kinds(results: dict[str, Any]) -> list[dict[str, Any]]:
    return [value for name, value in results.items() if name.startswith("kind_")]


@pytest.mark.parametrize("routing", ["round_robin", "least_loaded", "random", "prefix_aware"])
@pytest.mark.parametrize("shares", [(1, 2), (2, 1)])
def test_equal_kinds_are_one_kind_with_their_replicas_summed(
    routing: str, shares: tuple[int, int]
) -> None:
    asked = {**BUSY, "routing": routing, "seed": 3, "num_seeds": 2, "slo_ttft_s": 0.1}
    one = simulate(**asked, system="h200_sxm", dp=3)
    kinds = [{**NEW, "dp": number} for number in shares]
    several = simulate(**asked, replica_kinds=kinds)
    told = {n: v for n, v in several.answer.results.items() if not n.startswith("kind_")}
    expected = dict(one.answer.results)
    for name in ("capacity_requests_per_s", "offered_load"):  # one replica is measured, or all
        assert told.pop(name) == pytest.approx(expected.pop(name), rel=0.01)
    # steps of mean size, of each kind or of all replicas; seen differences are up to 0.2%
    for name in [name for name in expected if name.startswith(("power", "energy", "node_power"))]:
        assert told.pop(name) == pytest.approx(expected.pop(name), rel=0.01)
    assert told == expected
    columns = several.per_request()
    assert columns.pop("kind") == deployments.kind_column(shares, columns["replica"])
    assert columns == one.per_request()
    assert several.series() == one.series()


def test_results_of_kinds_sum_to_those_of_all() -> None:
    found = simulate(**BUSY, replica_kinds=[{**OLD, "dp": 2}, {**NEW, "tp": 2}])
    results = dict(found.answer.results)
    kinds = _kinds(results)
    assert sum(kind["requests"] for kind in kinds) == results["requests_completed"] == 150
    assert sum(kind["request_share"] for kind in kinds) == pytest.approx(1.0)
    assert sum(kind["gpus"] for kind in kinds) == results["gpus"] == 4
    rates = [kind["output_tokens_per_s"] for kind in kinds]
    assert sum(rates) == pytest.approx(results["output_tokens_per_s"])
    assert [kind["output_tokens_per_s_per_gpu"] for kind in kinds] == [r / 2 for r in rates]
    for name in ("ttft_s", "tpot_s", "request_latency_s"):
        mean = sum(kind["request_share"] * kind[name]["mean"] for kind in kinds)
        assert mean == pytest.approx(results[name]["mean"])
    columns = found.per_request()
    of_second = [t for t, k in zip(columns["ttft_s"], columns["kind"], strict=True) if k == 2]
    assert kinds[1]["ttft_s"]["p99"] == pytest.approx(np.percentile(of_second, 99))
    assert results["kv_capacity_tokens"] == min(kind["kv_capacity_tokens"] for kind in kinds)
    assert all(0.0 < kind["utilization"] <= 1.0 for kind in kinds)


def test_the_router_sends_more_to_a_faster_kind_where_it_looks_at_loads() -> None:
    asked = {**BUSY, "request_rate": 40, "replica_kinds": [{**OLD, "dp": 2}, {**NEW, "dp": 2}]}
    even = _kinds(dict(simulate(**asked).answer.results))
    assert [kind["requests"] for kind in even] == [76, 74]  # two of four in turn
    slow, fast = _kinds(dict(simulate(**asked, routing="least_loaded").answer.results))
    assert fast["tpot_s"]["mean"] < slow["tpot_s"]["mean"]
    ahead = dict(
        simulate(
            **{**asked, "replica_kinds": [{**NEW, "dp": 2}, {**OLD, "dp": 2}]},
            routing="least_loaded",
        ).answer.results
    )
    # whichever comes first where loads are equal
    assert fast["requests"] > slow["requests"]
    assert ahead["kind_1"]["requests"] > ahead["kind_2"]["requests"]


def test_a_single_kind_equals_plain_replicas() -> None:
    alone = simulate(**BUSY, **NEW, max_num_seqs=8)
    kind = simulate(**BUSY, replica_kinds=[{**NEW, "max_num_seqs": 8}])
    results = dict(kind.answer.results)
    own = results.pop("kind_1")
    assert results == alone.answer.results
    assert own["request_share"] == 1.0
    assert own["tpot_s"] == results["tpot_s"]


def test_fields_of_a_kind_take_precedence() -> None:
    answer = simulate(
        **BUSY,
        **NEW,
        tp=2,
        kv_format="fp8",
        replica_kinds=[{}, {"tp": 1, "engine": "sglang", "format": "fp8"}],
    ).answer
    first, second = answer.scenario["replica_kinds"]
    assert (first["tp"], first["system"], first["kv_format"]) == (2, "h200_sxm", "fp8")
    assert (second["tp"], second["engine"], second["kv_format"]) == (1, "sglang@0.5.14", "fp8")
    assert answer.scenario["kv_format"] == "fp8_static"
    assert "gemm_format" not in answer.scenario  # not that of all
    assert answer.evidence.data_versions["engine"].count(" and ") == 1
    said = "\n".join(answer.evidence.assumptions)
    assert "kind 1: requests are scheduled as in vLLM" in said
    assert "kind 2: requests are scheduled as in SGLang" in said
    assert "for all kinds" in said  # the time between client and engine
    again = {**BUSY, "replica_kinds": answer.scenario["replica_kinds"], "tp": 2}
    assert simulate(**again).answer.results == answer.results


def test_the_interval_scales_the_steps_of_each_kind_by_the_error_of_its_engine() -> None:
    kinds = [NEW, {**NEW, "engine": "sglang"}]
    traffic, scenario = split_fields({**BUSY, "replica_kinds": kinds})
    came = deployments.resolve_traffic(traffic, scenario)
    ready = deployments.service(scenario, traffic, came)
    ends = deployments.price_ends(ready)
    for place, kind in enumerate(kinds):
        own, deployed = split_fields({**BUSY, **kind})
        alone = deployments.service(deployed, own, came)
        assert {end: (factors[place],) for end, factors in ends.items()} == deployments.price_ends(
            alone
        )
    assert ends["low"][0] != ends["low"][1]
    plain = deployments.run_traffic(ready, came, Control())
    slower = deployments.run_traffic(
        deployments.slowed(
            ready, (deployments.StepScale(1.0, 1.0), deployments.StepScale(2.0, 2.0))
        ),
        came,
        Control(),
    )
    of_first, of_second = plain.replica_N == 0, plain.replica_N == 1
    assert (slower.finished_N[of_first] == plain.finished_N[of_first]).all()
    assert (slower.finished_N[of_second] > plain.finished_N[of_second]).all()


def test_an_engine_without_measured_runs_has_the_interval_of_its_kernels() -> None:
    kinds = [NEW, {**NEW, "engine": "ideal"}]
    with pytest.raises(UnsupportedError, match=r"front ends.*latencies"):
        simulate(**BUSY, replica_kinds=kinds)
    answer = simulate(**BUSY, replica_kinds=kinds, measured_at="engine").answer
    assert answer.results["ttft_s_low"]["mean"] < answer.results["ttft_s"]["mean"]
    told = [said for said in answer.evidence.assumptions if "the 90% interval" in said]
    assert len(told) == 2
    assert sum("sources and kinds of models, each counted once" in said for said in told) == 1


def test_replicas_are_numbered_kind_after_kind_where_they_fail() -> None:
    events = [{"replica": 2, "fails_at_s": 0.0}]
    found = simulate(**BUSY, replica_kinds=[{**OLD, "dp": 2}, NEW], replica_events=events)
    assert set(found.per_request()["kind"]) == {1}
    assert found.answer.results["replica_availability"] == pytest.approx(2 / 3)
    assert found.answer.results["kind_2"]["utilization"] == 0.0
    with pytest.raises(InvalidSpecError, match=r"replica 3: .* from 0 to 2"):
        simulate(
            **BUSY,
            replica_kinds=[{**OLD, "dp": 2}, NEW],
            replica_events=[{"replica": 3, "fails_at_s": 0.0}],
        )
