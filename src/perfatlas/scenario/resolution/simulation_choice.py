"""Choice of the rows that a short simulation answers: by request, or if queueing matters.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.inference import Prompt, client_side
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.scenario import fields as scenario_fields
from perfatlas.scenario.resolution.resolved_scenario import planned_scenario
from perfatlas.scenario.resolution.rules import read_scenario

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.inference import Evaluation, PoolRates
    from perfatlas.operators import FloatArray
    from perfatlas.scenario.fields import BoolArray, Columns, Scenario, Traffic
    from perfatlas.step import Candidates


WARM_ROUNDS: Final = 2  # warm-up requests per one in flight
ROUNDS: Final = 8  # measured requests per one in flight
MAX_ENGINES: Final = 1_000  # limit for auto: every event visits every engine
MAX_STEPS: Final = 2_000_000  # limit for auto: three runs of them take some seconds
MAX_BLOCKS: Final = 2_000_000  # limit for auto: blocks of a cached prefix in all prompts
HELD_BACK: Final = 0.8  # fraction of a step for sending its tokens, from which auto simulates
# mean number of other prefilling requests from which queueing matters: each of them adds part of
# its prompt to a TTFT that is mostly one prompt
WAITING: Final = 0.05


def split_fields(fields: Mapping[str, Any]) -> tuple[Traffic, Scenario]:
    """Return the traffic and the deployment of named fields.

    Raises:
        InvalidSpecError: A name or value is invalid.
    """
    traffic = scenario_fields.Traffic.read(
        {name: v for name, v in fields.items() if name in scenario_fields.TRAFFIC_NAMES}
    )
    rest = {name: v for name, v in fields.items() if name not in scenario_fields.TRAFFIC_NAMES}
    if traffic.replica_kinds is not None:
        rest = scenario_fields.shared_fields(rest, traffic)
        traffic = scenario_fields.with_kind_engines(traffic, rest)
    mode = rest.get("mode") or "aggregated"
    if mode == "static":
        raise UnsupportedError(
            "simulate does not support mode = static; use aggregated or disaggregated, or estimate"
        )
    for name in ("method", "batch", "prefix"):
        if rest.get(name) not in (None, "", 0):
            raise InvalidSpecError(f"{name} has no effect in simulate; remove it")
    return traffic, planned_scenario(read_scenario({**rest, "mode": mode}, queues=True))


def may_be_simulated(columns: Columns) -> BoolArray:
    """Return the rows that may be simulated (C,)."""
    may_C: BoolArray = ~(columns.equals("mode", "static") | columns.equals("method", "formula"))
    return may_C


def is_simulated(
    columns: Columns, question: Candidates, results: Mapping[str, FloatArray]
) -> BoolArray:
    """Return the rows to simulate: by request, or with auto if queueing matters (C,).

    Args:
        columns: The fields, in mode aggregated.
        results: Their closed forms: TTFT and request latency (C,).
    """
    late_s_C = client_side(question).late_s
    prompt = Prompt(results["ttft_s"] - late_s_C, results["request_latency_s"] - late_s_C)
    others_C = question.load.sequences - 1.0
    matters_C = others_C * prompt.engine_s >= WAITING * prompt.request_s
    matters_C |= _is_held_back(question, results)
    auto_C = columns.equals("method", "auto")
    simulated_C: BoolArray = columns.equals("method", "simulate")
    return simulated_C | (auto_C & matters_C & _is_known(columns, question))


def are_pools_simulated(columns: Columns, rates: PoolRates[Evaluation]) -> BoolArray:
    """Return the rows with two pools to simulate (C,), as `is_simulated` does for one.

    Without a concurrency, closed forms assume full pools, which no closed loop reproduces.

    Args:
        columns: The fields, in mode disaggregated.
        rates: Results of the closed forms.
    """
    prefill, prompt = rates.prefill[0], rates.prompt()
    concurrency_C = columns.numbers("concurrency", 0.0)
    known_C = _prefix_blocks(prefill, concurrency_C) <= MAX_BLOCKS
    osl_C = columns.numbers("osl")
    known_C &= _least_steps(prefill, concurrency_C, osl_C) <= MAX_STEPS
    known_C &= np.maximum(rates.load.prefill_workers, rates.load.decode_workers) <= MAX_ENGINES
    others_C = concurrency_C / rates.load.prefill_workers - 1.0
    matters_C = others_C * prompt.engine_s >= WAITING * prompt.request_s
    auto_C = columns.equals("method", "auto") & (concurrency_C > 0.0)
    simulated_C: BoolArray = columns.equals("method", "simulate")
    simulated_C |= auto_C & matters_C & known_C
    return simulated_C


def _least_steps(question: Candidates, in_flight_C: FloatArray, osl_C: FloatArray) -> FloatArray:
    """Return the minimum number of steps of a steady-state simulation (C,)."""
    limits, ranks_C, isl_C = question.limits, question.plan.attention_dp, question.load.isl
    requests_C = (WARM_ROUNDS + ROUNDS + 1) * in_flight_C
    tokens_C = requests_C * (isl_C + osl_C) / limits.max_num_batched_tokens
    held_C = in_flight_C / question.plan.dp / ranks_C
    sequences_C = np.maximum(np.minimum(limits.max_num_seqs, held_C), 1.0)
    least_C: FloatArray = np.maximum(tokens_C / ranks_C, requests_C * osl_C / sequences_C / ranks_C)
    return least_C


def _prefix_blocks(question: Candidates, in_flight_C: FloatArray) -> FloatArray:
    """Return the blocks of the length of a cached prefix in all prompts (C,), 0 without one."""
    load = question.load
    each_C = np.ceil(load.isl / np.maximum(load.prefix, 1.0)) * (load.prefix > 0.0)
    blocks_C: FloatArray = (WARM_ROUNDS + ROUNDS + 1) * in_flight_C * each_C
    return blocks_C


def _is_known(columns: Columns, question: Candidates) -> BoolArray:
    """Return whether a simulation is supported and takes only seconds (C,)."""
    replicas_C = columns.numbers("batch", 1.0) * question.plan.dp
    concurrency_C = columns.numbers("concurrency", 0.0)
    in_flight_C = np.where(concurrency_C > 0.0, concurrency_C, replicas_C)
    load, plan = question.load, question.plan
    blocks_C = _prefix_blocks(question, in_flight_C)
    known_C: BoolArray = blocks_C <= MAX_BLOCKS
    known_C &= _least_steps(question, in_flight_C, load.osl) <= MAX_STEPS
    known_C &= plan.dp <= MAX_ENGINES
    return known_C


def _is_held_back(question: Candidates, results: Mapping[str, FloatArray]) -> BoolArray:
    """Return whether a front end needs most of a step to send its tokens (C,)."""
    gaps_C = question.load.osl - 1.0
    between_s_C = results["request_latency_s"] - results["ttft_s"]
    on_rank_C = question.load.sequences / question.plan.attention_dp
    sends_s_C = on_rank_C * client_side(question).gap_s
    held_C: BoolArray = (gaps_C > 0.0) & (gaps_C * sends_s_C > HELD_BACK * between_s_C)
    return held_C
