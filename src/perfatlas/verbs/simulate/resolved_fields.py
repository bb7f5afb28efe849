"""Resolved fields of the scenario of a simulation: lengths, limits, engine, plan and seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.scenario.deployments import common_entries, draws, resolved_kinds
from perfatlas.scenario.resolution import pool_plan, resolved_plan

if TYPE_CHECKING:
    from perfatlas.scenario.deployments import Service
    from perfatlas.scenario.fields import Scenario, Traffic


def generated_lengths(traffic: Traffic, scenario: Scenario) -> dict[str, int]:
    """Return the lengths of generated requests, if set by isl and osl.

    Args:
        traffic: The traffic.
        scenario: Gives isl and osl.
    """
    drawn = traffic.requests is None and traffic.lengths_from is None
    return {"isl": scenario.isl, "osl": scenario.osl} if drawn else {}


def resolved_fields(ready: Service, traffic: Traffic, scenario: Scenario) -> dict[str, Any]:
    """Return the resolved fields of an answer: common limits, engine, plans and seed.

    Args:
        ready: What serves the traffic.
        traffic: The traffic.
        scenario: The deployment.
    """
    limits = [
        {
            "max_num_seqs": int(pool.question.limits.max_num_seqs[0]),
            "max_num_batched_tokens": pool.limits.max_num_batched_tokens,
        }
        for pool in ready.pools
    ]
    settings = common_entries(limits) if ready.heterogeneous or limits[0] == limits[-1] else {}
    settings |= common_entries([{"engine": pool.question.profile.id} for pool in ready.pools])
    settings["mode"] = scenario.mode
    if draws(traffic, scenario):
        settings["seed"] = traffic.seed
    if ready.heterogeneous:
        return settings | {"replica_kinds": resolved_kinds(ready)}
    for role, pool in ready.named.items():
        workers = int(pool.question.plan.dp[0])
        settings |= {**pool_plan(role, pool.question), f"{role}_workers": workers}
    if not ready.named:
        plan = resolved_plan(ready.entry.question)
        if traffic.max_replicas and scenario.dp is None:
            del plan["dp"]  # with an autoscaler, the initial number
        settings |= plan
    return settings
