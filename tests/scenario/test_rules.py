"""Each rule of scenarios, operators, schedules and jobs applies to its own example alone."""

from __future__ import annotations

from typing import Any, Final

import pytest

from perfatlas.quantities import Rule, broken_rules
from perfatlas.scenario.cluster_schedules import ScheduleFields
from perfatlas.scenario.fields import InputFields, Scenario
from perfatlas.scenario.interrupted_jobs import FleetGoodput
from perfatlas.scenario.operator_queries import CollectiveInputs, inputs
from perfatlas.scenario.resolution import rules
from perfatlas.scenario.resolution.field_facts import EFFECTS, FORMATS
from perfatlas.scenario.resolution.pools import SHARED

Fields = dict[str, Any]
DEPLOYED: Final[Fields] = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm"}
POOLS: Final[Fields] = {"mode": "disaggregated", "prefill_workers": 2}
SPLIT: Final[Fields] = {"feed_forward_system": "h200_sxm"}
OWN: Final[dict[str, tuple[Any, Any]]] = {
    "system": ("h100_sxm", "h200_sxm"),
    "engine": ("vllm", "sglang"),
    "format": ("fp8", "bf16"),
    "expert_exchange": ("deepep", "all_to_all"),
    **dict.fromkeys(("weight_offload", "kv_offload"), (0.4, 0.2)),
}
SCENARIOS: Final[list[tuple[Rule[Any], Fields, str]]] = [
    (rules.LOADS[0], {"batch": 8, "concurrency": 8}, "batch = 8 and concurrency = 8 exclude"),
    (rules.LOADS[1], {"isl": 100, "prefix": 100}, "prefix is at most 99"),
    (rules.LOADS[2], {"usd_per_gpu_hour": "nowhere.toml"}, "nowhere.toml"),
    (rules.LOADS[3], {"speculative_depth": 2}, "needs speculative_acceptance"),
    (
        rules.LOADS[4],
        {"speculative_depth": 2, "acceptance_by_position": "0.9"},
        "has 1 numbers, one for each of speculative_depth = 2",
    ),
    (rules.SPLIT[0], {**SPLIT, "gpus": 8}, "gpus = 8 does not say how many machines"),
    (rules.SPLIT[1], {**SPLIT, "ep": 2}, "set feed_forward_tp and feed_forward_ep instead"),
    (rules.QUEUED_SPLIT[0], {**SPLIT, "pp": 2}, "pp = 2, cp = 1: simulate runs all layers"),
    (rules.STEADY_SPLIT[0], {**SPLIT, "batch": 1, "micro_batches": 2}, "micro_batches = 2"),
    (rules.STEADY[0], {"mode": "static", "method": "simulate"}, "set mode = aggregated"),
    (rules.POOLS[0], {**POOLS, "batch": 8}, "batch = 8 has no effect in mode disaggregated"),
    (rules.POOLS[1], {**POOLS, "dp": 2}, "use prefill_workers and decode_workers"),
    (rules.POOLS[2], {**POOLS, "gpus": 8}, "2 x 1 + 1 x 1 = 3; leave gpus out"),
    (rules.IN_FLIGHT[0], {**POOLS, "concurrency": 4, "prefill_batch": 8}, "to at most 4"),
    (rules.IN_FLIGHT[1], {**POOLS, "concurrency": 4, "decode_batch": 8}, "to at most 4"),
]
ATTENTION: Final[Fields] = {"system": "h200_sxm", "num_heads": 32, "kv_len": 64, "batch": 1}
OTHERS: Final[list[tuple[type[InputFields], Fields, list[tuple[Fields, str]]]]] = [
    (
        inputs.AttentionInputs,
        ATTENTION | {"phase": "prefill"},
        [
            ({"q_len": 65}, "q_len = 65 exceeds kv_len = 64"),
            ({"num_kv_heads": 3}, "num_kv_heads = 3 must divide num_heads = 32"),
            ({"mask": "none", "window": 8}, "window = 8 needs a causal mask"),
            ({"direction": "backward", "cache_append": "included"}, "training appends to no cache"),
        ],
    ),
    (
        inputs.MoeInputs,
        {"system": "h200_sxm", "tokens": 8, "hidden": 64, "intermediate": 64, "experts": 8}
        | {"top_k": 2},
        [({"top_k": 9}, "top_k = 9 exceeds experts = 8"), ({"ep": 3}, "ep = 3 must divide")],
    ),
    (
        inputs.ConvInputs,
        {"system": "h200_sxm", "batch": 1, "channels": 8, "height": 8, "width": 8, "filters": 8}
        | {"kernel": 3},
        [
            ({"tier": "measured"}, "set tier = physics"),
            ({"groups": 3}, "groups = 3 must divide channels = 8 and filters = 8"),
            ({"height": 1, "padding": 0}, "a kernel of 3 exceeds height = 1 with padding = 0"),
            ({"width": 1, "padding": 0}, "a kernel of 3 exceeds width = 1 with padding = 0"),
        ],
    ),
    (
        inputs.NormInputs,
        {"system": "h200_sxm", "tokens": 8, "width": 64, "kind": "group"},
        [
            ({"groups": 3}, "groups = 3 must divide width = 64"),
            ({"batch": 3}, "batch = 3 must divide tokens = 8"),
        ],
    ),
    (
        inputs.AttentionDesignInputs,
        ATTENTION,
        [
            ({"kind": "mla", "phase": "prefill"}, "set phase = decode, or use kernel attention"),
            ({"q_len": 65}, "q_len = 65 exceeds kv_len = 64"),
            ({"num_kv_heads": 3}, "num_kv_heads = 3 must divide num_heads = 32"),
        ],
    ),
    (
        ScheduleFields,
        {"nodes": 64, "num_jobs": 100, "load": 0.8},
        [
            ({"jobs": "jobs.csv"}, "jobs (a file) and num_jobs (generated); both set"),
            ({"load": None}, "generated jobs require either load"),
            ({"nodes": None}, "nodes is required"),
            ({"node_mtbf_s": 1e6, "fleet": "llama3"}, "node_mtbf_s and fleet are mutually"),
            ({"node_mtbf_s": 1e6}, "node_mtbf_s requires repair_s"),
            ({"power_w": 500}, "power_w requires idle_power_w"),
            (
                {"power_w": 500, "idle_power_w": 600},
                "idle_power_w = 600 exceeds power_w = 500",
            ),
            ({"site_cap_w": 1e6, "response": "drain"}, "jobs end above a cap of the site"),
            (
                {"site_profile": "p.csv", "trace_resolution_s": 1000},
                "does not divide the hours of site_profile",
            ),
            ({"pue_fixed_share": 0.7, "pue_square_share": 0.6}, "add to more than 1"),
            ({"num_jobs": None, "trace_resolution_s": 60}, "need a schedule with an end"),
            ({"num_jobs": None, "until_s": 60}, "set num_jobs too, or leave until_s out"),
        ],
    ),
    (
        FleetGoodput,
        {"fleet": "llama3", "model": "meta-llama/Llama-3.1-8B", "checkpoint_bytes_per_s": 1e9},
        [
            ({"checkpoint_write_s": 60}, "checkpoint_bytes_per_s are mutually exclusive"),
            ({"model": None}, "needs the checkpoint size: set checkpoint_bytes or model"),
            (
                {"step_time_s": 6.0, "system": "h100_sxm"},
                "tokens_per_step missing",
            ),
            ({"step_time_s": 6.0, "mfu": 0.4}, "mfu and step_time_s are mutually exclusive"),
            ({"power_w": 90, "idle_power_w": 100}, "idle_power_w = 100 exceeds power_w = 90"),
            ({"what_if": True, "work_s": 60}, "what_if requires duration_s"),
            ({"what_if": True, "num_seeds": 2}, "num_seeds = 2: what_if compares changes on the"),
        ],
    ),
    (
        CollectiveInputs,
        {"system": "h200_sxm", "op": "all_reduce", "bytes": 1024, "gpus": 16},
        [
            ({"nodes": 3}, "nodes = 3 must divide gpus = 16"),
            ({"nodes": 1}, "16 gpus on 1 nodes are 16 per node; a scale-up domain of h200_sxm"),
        ],
    ),
]


def check(
    schema: type[InputFields], rule: Rule[Any], usual: Fields, changed: Fields, words: str
) -> None:
    """Check that a rule applies to its example, and not to the usual row."""
    rows = [usual, {**usual, **changed}]
    names = dict.fromkeys(name for row in rows for name in row)
    columns, wrong = schema.read_table({name: [row.get(name) for row in rows] for name in names})
    assert not wrong
    ((row, problem),) = broken_rules([rule], columns).items()
    assert row == 1
    assert words in str(problem)


@pytest.mark.parametrize(("rule", "changed", "words"), SCENARIOS)
def test_a_rule_of_scenarios_applies_to_its_example(
    rule: Rule[Any], changed: Fields, words: str
) -> None:
    check(Scenario, rule, DEPLOYED, changed, words)


def test_each_rule_of_scenarios_has_an_example() -> None:
    known = (*rules.LOADS, *rules.SPLIT, *rules.QUEUED_SPLIT, *rules.STEADY_SPLIT, *rules.STEADY)
    assert [rule for rule, *_ in SCENARIOS] == [*known, *rules.POOLS, *rules.IN_FLIGHT]


def test_what_all_pools_override_has_no_effect() -> None:
    for rule, name in zip(EFFECTS, SHARED, strict=False):
        own, shared = OWN.get(name, (4, 2))
        pools = {f"prefill_{name}": own, f"decode_{name}": own}
        if pools.keys() <= Scenario.fields().keys():
            check(Scenario, rule, {**DEPLOYED, **POOLS}, {name: shared, **pools}, "all pools")
    formats = dict.fromkeys(FORMATS, "fp8") | {"format": "bf16"}
    check(Scenario, EFFECTS[len(SHARED)], DEPLOYED, formats, "format = bf16 has no effect here")


@pytest.mark.parametrize(("schema", "usual", "examples"), OTHERS)
def test_rules_of_other_fields_apply_to_their_examples(
    schema: type[InputFields], usual: Fields, examples: list[tuple[Fields, str]]
) -> None:
    for rule, (changed, words) in zip(schema.rules, examples, strict=True):
        check(schema, rule, usual, changed, words)
