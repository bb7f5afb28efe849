"""Heterogeneous replicas behind one router: results and evidence of each kind.

Shape legend: N requests, F replicas of all kinds.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas import answer
from perfatlas.scenario.deployments.services import by_holders
from perfatlas.scenario.fields import ReplicaKind
from perfatlas.serving.outcome import request_latencies
from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.vocabulary.metrics import (
    output_tokens_per_s_per_gpu,
    share,
    statistics,
    utilization,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.scenario.deployments.services import Service
    from perfatlas.serving.outcome import Outcome
    from perfatlas.serving.requests import Requests

LATENCIES: Final = ("ttft_s", "tpot_s", "request_latency_s")


class Part(NamedTuple):
    """One kind of replicas."""

    name: str  # Label, such as "kind 1"
    ready: Service
    outcome: Outcome  # Outcome of its requests; all others count as unfinished
    requests: int  # Number of requests whose last replica is of this kind


def parts_of(ready: Service, outcome: Outcome) -> list[Part]:
    """Return the kinds in order."""
    parts = []
    first = 0
    for number, pool in enumerate(ready.pools, start=1):
        end = first + pool.replicas.number
        there_N = (outcome.replica_N >= first) & (outcome.replica_N < end)
        own = outcome._replace(
            finished_N=np.where(there_N, outcome.finished_N, -1),
            busy_F=outcome.busy_F[first:end],
            steps_F=outcome.steps_F[first:end],
        )
        alone = replace(ready, pools=(pool,), heterogeneous=False)
        parts.append(Part(f"kind {number}", alone, own, int(np.count_nonzero(there_N))))
        first = end
    return parts


def kind_results(
    ready: Service, requests: Requests, outcome: Outcome, makespan_s: float
) -> dict[str, dict[str, Any]]:
    """Return the results of each kind, as `kind_1` and so on.

    Rates are over the makespan of the whole run, and utilization is the mean fraction of it in
    which replicas ran steps.
    """
    parts = parts_of(ready, outcome)
    sent = sum(part.requests for part in parts)
    results = {}
    for part in parts:
        pool = part.ready.entry
        found = request_latencies(requests, part.outcome, ready.seen)
        tokens = int(requests.osl_N[found.place_N].sum())
        rate = share(tokens, makespan_s)
        busy_s = float(part.outcome.busy_F.mean()) / TICKS_PER_SECOND
        results[part.name.replace(" ", "_")] = {
            "system": pool.scenario.system,
            "engine": pool.question.profile.id,
            "tier": answer.tier_of((pool.table.prefills, pool.table.decodes)),
            "replicas": pool.replicas.number,
            "gpus": part.ready.gpus,
            "requests": part.requests,
            "request_share": share(part.requests, sent),
            **{name: statistics(getattr(found, name)) for name in LATENCIES},
            "utilization": utilization(busy_s, makespan_s),
            "output_tokens_per_s": rate,
            "output_tokens_per_s_per_gpu": output_tokens_per_s_per_gpu(rate, part.ready.gpus),
            "kv_capacity_tokens": pool.capacity_tokens,
            "kv_blocks": pool.limits.kv_blocks,
        }
    return results


def kinds_evidence(ready: Service, standing: Sequence[str]) -> answer.Evidence:
    """Return the merged evidence of all kinds; entries that differ name their kinds.

    Args:
        standing: Assumptions of the simulation itself.
    """
    found = [
        answer.step_evidence(
            pool.question,
            pool.table,
            [
                *answer.engine_assumptions(pool.question),
                *answer.held_prompts_note(pool.limits.rank_balance_iters),
            ],
        )
        for pool in ready.pools
    ]
    engines = dict.fromkeys(evidence.data_versions["engine"] for evidence in found)
    merged = reduce(answer.merged_evidence, found)
    return replace(
        merged,
        assumptions=(*standing, *by_holders([evidence.assumptions for evidence in found])),
        data_versions={**merged.data_versions, "engine": " and ".join(engines)},
    )


def resolved_kinds(ready: Service) -> list[dict[str, Any]]:
    """Return the kinds as input, each with its share of the common fields."""
    rows = []
    for pool in ready.pools:
        plan, scenario = pool.question.plan, pool.scenario
        row = {"system": scenario.system, "tp": int(plan.tp[0]), "dp": int(plan.dp[0])}
        row |= {"engine": pool.question.profile.id, "attention_dp": int(plan.attention_dp[0])}
        if pool.question.model.network.divides_weights:
            row |= {"ep": int(plan.ep[0]), "moe_tp": int(plan.moe_tp[0])}
        given = {name: getattr(scenario, name) for name in scenario.fields_set - {"engine"}}
        own = {name: given[name] for name in ReplicaKind.fields() if name in given}
        rows.append(row | {name: value for name, value in own.items() if value is not None})
    return rows


def common_entries(columns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the entries that are equal in all mappings."""
    first, *others = columns
    missing = object()
    return {
        name: value
        for name, value in first.items()
        if all(other.get(name, missing) == value for other in others)
    }


def kind_column(numbers: Sequence[int], replica_N: Sequence[int | None]) -> list[int | None]:
    """Return the kind of each request, from 1; None if it has no replica.

    Args:
        replica_N: The replica of each request (N,).
    """
    of_F = np.repeat(np.arange(1, len(numbers) + 1), numbers).tolist()
    return [None if replica is None else of_F[replica] for replica in replica_N]
