"""What a reader of a simulation must know: where its interval comes from, and its warnings."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.engines import step_errors
from perfatlas.scenario.deployments.replica_results import (
    operated_warnings,
    requests_were,
    saturation_warning,
)
from perfatlas.scenario.deployments.services import price_ends
from perfatlas.serving.requests import TICKS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.scenario.deployments.arrivals import Arriving
    from perfatlas.scenario.deployments.engine_deployment import Deployment
    from perfatlas.scenario.deployments.services import Service
    from perfatlas.scenario.fields import Traffic
    from perfatlas.serving.outcome import Outcome

BUSY: Final = 0.8  # share of the time that front ends send, from which on they hold clients back


def said_of_interval(ready: Service) -> list[str]:
    """Return what the interval is made of, a sentence for each engine.

    Args:
        ready: What served.
    """
    if not price_ends(ready):
        return []
    known = step_errors()
    names = dict.fromkeys(pool.question.profile.name for pool in ready.pools)
    errors = [error for name in names if (error := known.get(name)) is not None]
    step = "every step of {}" if len(errors) > 1 else "every step"
    return [
        f"the interval scales {step.format(error.engine)} by {_percent(error.q05)} to"
        f" {_percent(error.q95)}, as {error.runs:,} serving runs on {error.engine} were"
        f" beside their predictions (`{error.command}`); arrivals and lengths stay"
        for error in errors
    ]


def _percent(logarithm: float) -> str:
    return f"{100.0 * math.expm1(logarithm):+.0f} %"


def said_of_client(ready: Service) -> str:
    """Return what a client sees later than the engine, a sentence.

    Args:
        ready: What served.
    """
    profile = ready.entry.question.profile
    engines = {pool.question.profile.name for pool in ready.pools}
    whose = f"; those of {profile.id}, for all kinds" if len(engines) > 1 else ""
    return f"{ready.entry.front.said}{whose}"


def said_of_seeds(traffic: Traffic, whole: int) -> list[str]:
    """Return what is a mean over seeds and what is of one, a sentence at most.

    Args:
        traffic: With its first seed and their number.
        whole: How many were simulated to their end.
    """
    if traffic.num_seeds == 1:
        return []
    if whole < 2:
        return [f"results are of seed {traffic.seed} alone: no other was simulated to its end"]
    last = traffic.seed + whole - 1
    said = (
        f"results are means over {whole} runs, of seeds {traffic.seed} to {last}, and the slowest"
        " 1 % of each run count alike; half-widths (±) are of 90 % confidence intervals of those"
        f" means; the series, the charts, the steps shown and what is written of every request are"
        f" of seed {traffic.seed}"
    )
    return [said]


def traffic_warnings(
    ready: Service, came: Arriving, outcome: Outcome, results: Mapping[str, Any]
) -> list[str]:
    """Return what a reader should know before trusting a simulation.

    Args:
        ready: What served.
        came: What arrived.
        outcome: What came of it, of the first seed.
        results: Over all seeds.
    """
    said = _too_long(ready.decoding, came)
    if results["saturated"] and "stability" not in results:  # else told from rates
        said.append(saturation_warning(results))
    if results["requests_rejected"]:
        said += _rejected(ready, came, outcome, results)
    said += _front_ends_hold_back(ready, came, outcome)
    said += operated_warnings(results)
    if results["interrupted"]:
        said.append("interrupted: only what was simulated until then is counted")
    return said


def _front_ends_hold_back(ready: Service, came: Arriving, outcome: Outcome) -> list[str]:
    """Return that clients wait for front ends and not for engines, one text at most."""
    late_N = outcome.fronted.late_last_N
    done_N = outcome.finished_N >= 0
    if not late_N.size or not done_N.any():
        return []
    ended = int((outcome.finished_N + late_N)[done_N].max())
    spent = ended - int(outcome.arrival_N[done_N].min())
    replica_N = outcome.replica_N
    busiest, first = 0.0, 0
    for pool in ready.pools:
        number = pool.replicas.number
        there_N = done_N & (replica_N >= first) & (replica_N < first + number)
        first += number
        osl_N, replicas = came.requests.osl_N[there_N], pool.replicas
        sent = int((1 + (osl_N - 1) / replicas.stream_interval).sum()) * replicas.stream_token
        busiest = max(busiest, sent / (number * max(spent, 1)))
    if busiest < BUSY:
        return []
    said = (
        f"front ends send output tokens for {100.0 * busiest:.0f} % of the time, and clients wait"
        f" {late_N[done_N].mean() / TICKS_PER_SECOND:.2g} s for tokens that engines have given: a"
        " larger stream_interval or more server processes, not faster GPUs, raise the rate; whether"
        " they wait before their first token or after depends on how requests overlap, and so on"
        " how the traffic starts"
    )
    return [said]


def _too_long(pool: Deployment, came: Arriving) -> list[str]:
    """Return that requests are longer than the model's context, one text at most."""
    longest = pool.question.model.architecture.max_position_embeddings
    total_N = came.requests.isl_N + came.requests.osl_N
    above = int((total_N > longest).sum())
    if not longest or not above:
        return []
    one = above == 1
    said = (
        f"{above:,} request{'' if one else 's'} of up to {total_N.max():,} tokens"
        f" exceed{'s' if one else ''} the model's stated context of {longest:,}: an engine started"
        f" without a longer one rejects {'it' if one else 'them'}; here"
        f" {'it runs' if one else 'they run'}"
    )
    return [said]


def _rejected(
    ready: Service, came: Arriving, outcome: Outcome, results: Mapping[str, Any]
) -> list[str]:
    """Return why requests were rejected: prompts no step takes whole, or too little cache."""
    isl_N = came.requests.isl_N[outcome.rejected()]
    limits = [pool.limits for pool in ready.pools if not pool.limits.chunked_prefill]
    budget = min((one.max_num_batched_tokens for one in limits), default=None)
    whole = 0 if budget is None else int(np.count_nonzero(isl_N > budget))
    said = []
    if whole:
        said.append(
            f"{requests_were(whole)} rejected: the prompt is longer than the {budget:,} tokens of a"
            " step (max_num_batched_tokens), and prompts do not run in several (chunked_prefill)"
        )
    if results["requests_rejected"] > whole:
        said.append(
            f"{requests_were(results['requests_rejected'] - whole)} rejected: the cache"
            f" ({_capacities(results)}) is too small for prompt and output{_drafted(ready)}"
        )
    return said


def _drafted(ready: Service) -> str:
    """Return what drafts need beside them, "" without any."""
    drafts = ready.decoding.limits.draft_tokens
    if not drafts:
        return ""
    return (
        f" with the {2 * drafts} tokens that speculative decoding needs beside them: blocks for the"
        f" {drafts} drafts a step verifies and the {drafts} it drafts next"
    )


def _capacities(results: Mapping[str, Any]) -> str:
    own = f"{results['kv_capacity_tokens']:,} tokens"
    prefill = results.get("prefill_kv_capacity_tokens")
    if prefill is None:
        return own
    return f"{prefill:,} tokens on a prefill worker, {own} on a decode worker"
