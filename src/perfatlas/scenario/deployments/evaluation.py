"""Evaluation of a single scenario by closed forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.inference import (
    Evaluation,
    PoolRates,
    breaks_limits,
    evaluate,
    memory_columns,
    plain_results,
    power_limit_error,
    prompt_rejection,
    rejects_prompts,
    result_columns,
)
from perfatlas.parallelism import plan_problems
from perfatlas.quantities import InfeasibleError, InvalidSpecError
from perfatlas.scenario.deployments.fitting_changes import fitting_changes
from perfatlas.scenario.resolution import (
    columns_of,
    pool_load,
    resolve_scenarios,
    split_pools,
)
from perfatlas.step import cache_limits

if TYPE_CHECKING:
    from perfatlas.scenario.fields import Scenario
    from perfatlas.step import Candidates


def evaluate_one(
    scenario: Scenario, *, prefills: bool = True, decodes: bool = True
) -> tuple[Candidates, Evaluation]:
    """Return the candidates of one scenario and their results.

    Args:
        scenario: The scenario.
        prefills: Whether prompts are computed; the workers of a decode pool receive their cache.
        decodes: Whether output tokens are decoded; the workers of a prefill pool hand over.

    Raises:
        InvalidSpecError: A name, value or plan is invalid.
        InfeasibleError: The model and its KV cache do not fit, or the engine rejects the prompt.
        UnsupportedError: There is no model or data for the combination.
    """
    pooled = not (prefills and decodes)
    question, problems = resolve_scenarios([scenario], pooled=pooled)
    if question is None:
        raise problems[0] or InvalidSpecError("no candidate is left to estimate")
    (problem,) = plan_problems(question.model.network, question.plan)
    if problem is not None:
        raise InvalidSpecError(problem)
    evaluation = evaluate(question)
    if not evaluation.memory.fits[0]:
        sentence, advice = fitting_changes(scenario, question)
        memory = plain_results(memory_columns(evaluation.memory))
        raise InfeasibleError(sentence, advice=advice, memory=memory)
    if prefills and rejects_prompts(question)[0]:
        raise prompt_rejection(question)
    steps = evaluation.steps(prefills=prefills, decodes=decodes)
    if breaks_limits(question, steps)[0]:
        raise power_limit_error(question, steps)
    return question, evaluation


def evaluate_pools(scenario: Scenario) -> PoolRates[Evaluation]:
    """Return the rates of the two pools of a disaggregated scenario.

    Args:
        scenario: The scenario.

    Raises:
        PerfatlasError: As for `evaluate_one`; an InfeasibleError names the pool.
    """
    pools = split_pools(scenario)
    return PoolRates(
        load=pool_load(columns_of([scenario])),
        prefill=_worker("prefill", pools.prefill),
        decode=_worker("decode", pools.decode),
    )


def _worker(role: str, scenario: Scenario) -> tuple[Candidates, Evaluation]:
    """Evaluate one worker of a pool; an InfeasibleError names the pool."""
    try:
        return evaluate_one(scenario, prefills=role == "prefill", decodes=role == "decode")
    except InfeasibleError as error:
        sentence = f"{role} worker: {error.args[0]}"
        raise InfeasibleError(sentence, advice=error.advice, memory=error.memory) from None


def plain_answer(question: Candidates, evaluation: Evaluation) -> dict[str, Any]:
    """Return the results of one pool, by name.

    Args:
        question: The candidate, from `evaluate_one`.
        evaluation: Its evaluation.
    """
    results = plain_results(result_columns(question, evaluation))
    results["memory"] = _memory(question, evaluation)
    results["method"] = "formula" if question.aggregated_C[0] else "static"
    return results


def pool_results(rates: PoolRates[Evaluation]) -> dict[str, Any]:
    """Return the results of two pools, by name.

    Args:
        rates: From `evaluate_pools`.
    """
    results = plain_results(rates.columns())
    results["memory"] = _memory(*rates.decode)
    results["prefill_memory"] = _memory(*rates.prefill)
    results["method"] = "formula"
    return results


def _memory(question: Candidates, evaluation: Evaluation) -> dict[str, Any]:
    """Return the memory of a worker, with the interval of its cache."""
    memory = evaluation.memory
    return plain_results(memory_columns(memory) | cache_limits(question, memory))
