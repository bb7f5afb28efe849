"""Published runs of two pools: which are scored, with which plan and limits, and what is told."""

from __future__ import annotations

from typing import Any

from perfatlas.scenario.deployments import resolve_traffic, service
from perfatlas.scenario.resolution import split_fields
from tests.validation.test_validate_steps import RULES, run
from tests.validation.test_validate_traffic import LAUNCHES
from validation.runs import PoolRun, select_pool_runs
from validation.runs.pool_traffic import launched_pools, pool_fields
from validation.runs.run_selection import parse_serving_rules

DRAWN = RULES.replace("dump = 0.5", "dump = 0.9") + LAUNCHES
POOLS = """
[pool_goal.all]
ttft_median_error = 0.35
[[pool_plans]]
backend = "sglang"
attention_dp = 4
prefill = "tp"
decode = "ep"
ref = "a recipe"
[[pool_launches]]
name = "shared"
backend = "sglang"
prefill = { max_num_batched_tokens_of_worker = 4096, scheduler_recv_interval = 10 }
decode = { max_num_seqs_of_worker = 64, reserved_decode_tokens = 112 }
ref = "a recipe"
[[pool_launches]]
name = "whole"
backend = "trtllm"
prefill = { max_num_batched_tokens = 4096, max_num_seqs = 2, async_scheduling = false }
decode = {}
unsimulated = "something"
ref = "another"
[pool_batches]
backend = "trtllm"
rows = [["h100_sxm", "fp8", 1024, 256, 2, 1, [8, 12], 3]]
"""


def pools(**changes: Any) -> PoolRun:  # noqa: ANN401
    """Two workers of one GPU that prefill, and two of two that decode, eight requests in flight."""
    told = {"concurrency": 8, "kind": "dump", "on_rank": 4, "dp": 2, **changes}
    return PoolRun(prefill=run(**{**told, "tp": 1}), decode=run(**{"tp": 2, **told}))


def test_what_is_asked_for_a_run_of_pools() -> None:
    rules = parse_serving_rules(DRAWN + POOLS)
    asked = pool_fields(pools(), rules)
    assert asked["mode"] == "disaggregated"
    sizes = {name: asked[f"{name}"] for name in asked if name.startswith(("prefill_", "decode_"))}
    assert sizes == {
        "prefill_system": "h100_sxm",
        "prefill_tp": 1,
        "prefill_attention_dp": 1,
        "prefill_workers": 2,
        "decode_system": "h100_sxm",
        "decode_tp": 2,
        "decode_attention_dp": 1,
        "decode_workers": 2,
    }
    assert (asked["concurrency"], asked["num_requests"]) == (8, 80)
    assert asked["max_num_batched_tokens"] == 4096
    assert not {"tp", "dp", "attention_dp", "system", "method"} & set(asked)


def test_limits_of_both_pools() -> None:
    rules = parse_serving_rules(DRAWN + POOLS)
    asked = pools()
    traffic, scenario = split_fields(pool_fields(asked, rules))
    ready = service(scenario, traffic, resolve_traffic(traffic, scenario))
    prefill, decode = (pool.limits for pool in launched_pools(ready, asked, rules).pools)
    assert (prefill.max_num_seqs, prefill.async_scheduling) == (2, False)
    assert (decode.max_num_seqs, decode.async_scheduling) == (3, True)
    launch = rules.pool_launch(pools(backend="sglang"))
    assert launch is not None
    shared = pools(backend="sglang", attention_dp=4)
    assert launch.fields(shared) == {"max_num_batched_tokens": 1024}
    assert launch.changes("decode", shared.decode, decode._replace(max_num_seqs=100)) == {
        "max_num_seqs": 16,
        "reserved_decode_tokens": 112,
    }
    few = decode._replace(max_num_seqs=5)
    assert launch.changes("decode", shared.decode, few)["max_num_seqs"] == 5
    assert rules.decode_batch(pools(concurrency=9)) is None
    assert rules.decode_batch(pools(backend="vllm")) is None


def test_which_runs_of_pools_are_scored() -> None:
    rules = parse_serving_rules(DRAWN + POOLS)
    wide = pools(id="wide", tp=16, tpot_s=0.02)
    wrong = pools(id="wrong", on_rank=5, tpot_s=0.03)
    planned = pools(id="planned", backend="sglang", attention_dp=4, on_rank=1)
    kept, left = select_pool_runs([pools(id="a"), pools(id="again"), wide, wrong, planned], rules)
    assert {one.id: one.reason for one in left} == {
        "again": "copy",
        "wide": "deployment_width",
        "wrong": "load_unclear",
    }
    assert [one.id for one in kept] == ["a", "planned"]
    prefill, decode = kept[1].prefill, kept[1].decode
    assert (prefill.tp, prefill.attention_dp, prefill.moe_tp, prefill.ep) == (4, 1, 4, 1)
    assert (decode.tp, decode.attention_dp, decode.moe_tp, decode.ep) == (2, 4, 1, 8)
