"""An engine on its devices, ready to run requests."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.engines import step_errors
from perfatlas.parallelism import plan_problems
from perfatlas.quantities import InfeasibleError, InvalidSpecError, UnsupportedError
from perfatlas.scenario.capacity import derived_blocks
from perfatlas.scenario.evaluate import step_context
from perfatlas.scenario.memory import does_not_fit, question_memory
from perfatlas.scenario.question import Question, resolve_question
from perfatlas.serving import (
    Control,
    Limits,
    Outcome,
    PriceTable,
    Replicas,
    Requests,
    StepPrices,
    TableLimits,
    price_table,
    run,
)

if TYPE_CHECKING:
    from perfatlas.parallelism import MemoryColumns
    from perfatlas.scenario.traffic import Arriving, Traffic
    from perfatlas.scenario.vocabulary import Scenario

# Engines whose scheduling rules are simulated; `ideal` is vLLM's scheduler without host time.
SIMULATED: Final = ("vllm", "ideal")
NULL_BLOCKS: Final = 1  # vLLM keeps one block that holds nothing


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """An engine on its devices, ready to run requests.

    Args:
        question: What runs where.
        memory: Of the fullest rank.
        limits: Of one scheduler.
        replicas: How many, and how requests are divided among them.
        table: What steps cost.
    """

    question: Question
    memory: MemoryColumns
    limits: Limits
    replicas: Replicas
    table: PriceTable


def deployment(scenario: Scenario, traffic: Traffic, came: Arriving) -> Deployment:
    """Return the deployment of a scenario, its steps priced for what arrives.

    Raises:
        InvalidSpecError: A name, value or plan breaks a rule.
        InfeasibleError: The model and one request do not fit.
        UnsupportedError: No model, data or scheduler for the combination.
    """
    question, problems = resolve_question([scenario])
    if question is None:
        raise problems[0] or InvalidSpecError("nothing to simulate")
    if question.profile.name not in SIMULATED:
        raise UnsupportedError(
            f"engine {question.profile.id}: its scheduler is not simulated; use vllm or ideal, or"
            " `estimate --mode aggregated --method formula`"
        )
    (problem,) = plan_problems(question.model.architecture, question.plan)
    if problem is not None:
        raise InvalidSpecError(problem)
    memory = question_memory(question)
    if derived_blocks(question, memory) <= NULL_BLOCKS:
        sentence, advice = does_not_fit(question)
        raise InfeasibleError(sentence, advice=advice)
    limits = _limits(question, memory, traffic, came.requests)
    requests = came.requests
    longest = int((requests.isl_N + requests.osl_N).max())
    table = price_table(
        step_context(question),
        TableLimits(
            max_num_seqs=limits.max_num_seqs,
            max_num_batched_tokens=limits.max_num_batched_tokens,
            longest_context=min(longest, limits.kv_blocks * limits.block_size + limits.block_size),
        ),
    )
    replicas = Replicas(
        number=int(question.plan.dp[0]),
        ranks=int(question.plan.attention_dp[0]),
        routing=traffic.routing,
        seed=traffic.seed,
    )
    return Deployment(
        question=question, memory=memory, limits=limits, replicas=replicas, table=table
    )


def _limits(
    question: Question, memory: MemoryColumns, traffic: Traffic, requests: Requests
) -> Limits:
    asked = question.limits
    block = int(asked.block_size[0])
    derived = derived_blocks(question, memory) - NULL_BLOCKS
    blocks = derived if math.isnan(asked.kv_blocks[0]) else int(asked.kv_blocks[0])
    budget = int(asked.max_num_batched_tokens[0])
    # no more run at a time than arrive, or than hold a block each
    most = min(int(asked.max_num_seqs[0]), budget, blocks, requests.isl_N.shape[0])
    shared = traffic.prefix_caching
    return Limits(
        max_num_seqs=max(most, 1),
        max_num_batched_tokens=budget,
        block_size=block,
        kv_blocks=blocks,
        prefix_caching=requests.hash_block > 0 if shared is None else shared,
        async_scheduling=question.profile.host.overlapped,
    )


def run_traffic(ready: Deployment, came: Arriving, prices: StepPrices, control: Control) -> Outcome:
    """Return what comes of traffic at a deployment.

    Args:
        ready: The deployment.
        came: What arrives.
        prices: Its step prices, or those scaled.
        control: Interruption and series.
    """
    return run(
        came.requests,
        prices,
        ready.limits,
        ready.replicas,
        concurrency=came.concurrency,
        control=control,
    )


def scaled_prices(prices: StepPrices, factor: float) -> StepPrices:
    """Return prices with every time of the device and the host times a factor.

    Args:
        prices: The tables.
        factor: Above 0.
    """
    times = [
        name
        for name, value in prices._asdict().items()
        if name.startswith(("decode_", "mixed_", "head_", "prefill_"))
    ]
    tables = {name: np.rint(getattr(prices, name) * factor).astype(np.int64) for name in times}
    hosts = {
        name: round(getattr(prices, name) * factor)
        for name in ("host_step", "host_sequence", "host_prefill")
    }
    return prices._replace(**tables, **hosts)


def price_ends(question: Question) -> dict[str, float]:
    """Return factors of all step times at both ends of the interval, none where nothing is known.

    They are how far time per output token of published runs was from predicted; as one factor on
    all steps, so that queues grow with it.
    """
    error = step_errors().get(question.profile.name)
    if error is None or question.scenarios[0].tier == "bound":
        return {}
    return {"low": math.exp(error.q05), "high": math.exp(error.q95)}
