"""`simulate`: traffic through an engine, from step prices to latencies of requests."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.engines import step_errors
from perfatlas.parallelism import plan_problems
from perfatlas.quantities import InfeasibleError, InvalidSpecError, UnsupportedError
from perfatlas.scenario.answer import Answer
from perfatlas.scenario.breakdown import breakdown_rows
from perfatlas.scenario.contradictions import read_scenario
from perfatlas.scenario.estimate import resolved_formats
from perfatlas.scenario.evaluate import step_context
from perfatlas.scenario.evidence import engine_assumptions, step_evidence
from perfatlas.scenario.memory import does_not_fit, question_memory
from perfatlas.scenario.question import Question, resolve_question
from perfatlas.scenario.traffic import TRAFFIC_NAMES, Arriving, Traffic, arriving, parse_traffic
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
    summarize,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.parallelism import MemoryColumns
    from perfatlas.scenario.vocabulary import Scenario

# Engines whose scheduling rules are simulated; `ideal` is vLLM's scheduler without host time.
SIMULATED: Final = ("vllm", "ideal")
NULL_BLOCKS: Final = 1  # vLLM keeps one block that holds nothing
STANDING: Final = (
    "requests wait in the queues of vLLM V1 schedulers: one token budget for prompts and decodes,"
    " cache by blocks, the last admitted recomputed when none is free; an output token is seen in"
    " the step that makes it; tokenizing, HTTP and detokenizing take no time"
)
UNCHANGING: Final = ("requests_completed", "requests_rejected", "kv_capacity_tokens")


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """What was asked, what ran, what came of it.

    Args:
        answer: The envelope.
        requests: What arrived.
        outcome: What came of every request.
    """

    answer: Answer
    requests: Requests
    outcome: Outcome


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


def simulate(
    *,
    progress: Callable[[], bool] | None = None,
    **fields: Any,  # noqa: ANN401 - checked by schema
) -> Simulation:
    """Return what comes of traffic at an inference deployment.

    Args:
        progress: Asked now and then; true stops the simulation and keeps what was simulated.
        **fields: Names of the vocabulary: model, system, engine, the plan, formats, engine limits;
            and the traffic: requests, request_rate or concurrency, arrival, isl, osl, seed, slo_*.

    Raises:
        InvalidSpecError: A name, value or request breaks a rule.
        InfeasibleError: The model and one request do not fit.
        UnsupportedError: No model, data or scheduler for the combination.

    Example:
        >>> from perfatlas import simulate
        >>> found = simulate(model="meta-llama/Llama-3.1-8B", system="h200_sxm", request_rate=8,
        ...     num_requests=100)
        >>> found.answer.results["requests_completed"]
        100
    """
    traffic, scenario = split_fields(fields)
    came = arriving(traffic, scenario)
    ready = deployment(scenario, traffic, came)
    control = Control(interrupt=progress)
    outcome = _run(ready, came, ready.table.prices, control)
    results = _results(ready, came, outcome, traffic)
    for end, factor in _price_ends(ready.question).items():
        if outcome.interrupted:
            break
        moved = _run(ready, came, scaled_prices(ready.table.prices, factor), control)
        if moved.interrupted:
            break
        results |= _end(summarize(came.requests, moved, traffic.objectives()), end)
    return Simulation(
        answer=_answer(ready, came, results, dict(fields)),
        requests=came.requests,
        outcome=outcome,
    )


def split_fields(fields: Mapping[str, Any]) -> tuple[Traffic, Scenario]:
    """Return the traffic and the deployment of named fields.

    Raises:
        InvalidSpecError: A name or value breaks a rule.
    """
    traffic = parse_traffic({name: v for name, v in fields.items() if name in TRAFFIC_NAMES})
    rest = {name: v for name, v in fields.items() if name not in TRAFFIC_NAMES}
    if rest.get("mode") not in (None, "", "aggregated"):
        raise UnsupportedError(
            f"mode = {rest['mode']}: simulate runs mode aggregated; estimate answers the others"
        )
    for name in ("method", "batch", "prefix"):
        if rest.get(name) not in (None, "", 0):
            raise InvalidSpecError(f"simulate does not read {name}; leave it out")
    return traffic, read_scenario({**rest, "mode": "aggregated"})


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
    if not memory.fits[0]:
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
    ranks = int(question.plan.attention_dp[0])
    derived = int(memory.kv_capacity_tokens[0]) // ranks // block - NULL_BLOCKS
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
    )


def _run(ready: Deployment, came: Arriving, prices: StepPrices, control: Control) -> Outcome:
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


def _price_ends(question: Question) -> dict[str, float]:
    """Return factors of all step times at both ends of the interval, none where nothing is known.

    They are how far time per output token of published runs was from predicted; as one factor on
    all steps, so that queues grow with it.
    """
    error = step_errors().get(question.profile.name)
    if error is None or question.scenarios[0].tier == "bound":
        return {}
    return {"low": math.exp(error.q05), "high": math.exp(error.q95)}


def _end(found: Mapping[str, Any], end: str) -> dict[str, Any]:
    """Return the results at one end of the interval, by name; rates have the other end."""
    other = {"low": "high", "high": "low"}[end]
    rates = ("output_tokens_per_s", "requests_per_s", "goodput_requests_per_s", "slo_attainment")
    times = ("ttft_s", "tpot_s", "request_latency_s", "queue_s", "makespan_s")
    ends = {f"{name}_{end}": found[name] for name in times}
    return ends | {f"{name}_{other}": found[name] for name in rates if name in found}


def _results(
    ready: Deployment, came: Arriving, outcome: Outcome, traffic: Traffic
) -> dict[str, Any]:
    found = summarize(came.requests, outcome, traffic.objectives())
    question = ready.question
    if came.concurrency:
        found["saturated"] = False
    gpus = int(question.plan.ranks[0])
    rate = found["output_tokens_per_s"]
    ranks = ready.replicas.ranks
    return found | {
        "gpus": gpus,
        "output_tokens_per_s_per_gpu": None if rate is None else rate / gpus,
        "kv_capacity_tokens": ready.limits.kv_blocks * ready.limits.block_size * ranks,
        "kv_blocks": ready.limits.kv_blocks,
        "max_num_seqs": int(question.limits.max_num_seqs[0]),
        "max_num_batched_tokens": ready.limits.max_num_batched_tokens,
    }


def _answer(
    ready: Deployment, came: Arriving, results: dict[str, Any], asked: dict[str, Any]
) -> Answer:
    question = ready.question
    error = step_errors().get(question.profile.name)
    standing = [STANDING, *came.assumptions, *engine_assumptions(question)]
    if error is not None:
        standing.append(
            f"the interval scales every step by {math.expm1(error.q05):+.0%} to"
            f" {math.expm1(error.q95):+.0%}, as {error.runs:,} serving runs on {error.engine} were"
            f" beside their predictions (`{error.command}`); arrivals and lengths stay"
        )
    given = {name: value for name, value in asked.items() if value is not None}
    return Answer(
        command="simulate",
        scenario=given | resolved_formats(question),
        results=results,
        breakdown=[
            *breakdown_rows(ready.table.prefill, "prefill", 0),
            *breakdown_rows(ready.table.decode, "decode", 0),
        ],
        evidence=step_evidence(question, ready.table, standing),
        warnings=(*came.warnings, *_warnings(results)),
    )


def _warnings(results: Mapping[str, Any]) -> list[str]:
    said = []
    if results["saturated"]:
        said.append(
            "requests come faster than they are served: the queue grows to the last arrival, and"
            " latencies depend on how long the traffic lasts"
        )
    if results["requests_rejected"]:
        said.append(
            f"{results['requests_rejected']:,} requests need more cache than there is"
            f" ({results['kv_capacity_tokens']:,} tokens) and were rejected"
        )
    if results["interrupted"]:
        said.append("interrupted: only what was simulated until then is counted, no interval")
    return said
