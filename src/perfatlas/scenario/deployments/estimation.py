"""The estimate of one scenario: latencies, throughput and memory, with a breakdown."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.answer import (
    FORMULA,
    Answer,
    breakdown_rows,
    merged_evidence,
    question_evidence,
)
from perfatlas.engines import resolve_engine
from perfatlas.inference import (
    POOL_RULES,
    common_nodes,
    energies_at,
    node_results,
    result_columns,
    unused_prices,
)
from perfatlas.scenario.deployments.estimate_remarks import (
    LEAVES_OUT,
    estimate_warnings,
    pool_warnings,
)
from perfatlas.scenario.deployments.evaluation import (
    evaluate_one,
    evaluate_pools,
    plain_answer,
    pool_results,
)
from perfatlas.scenario.fields import resolved_names
from perfatlas.scenario.resolution import (
    are_pools_simulated,
    columns_of,
    is_simulated,
    may_be_simulated,
    pool_plan,
    read_scenario,
    resolved_plan,
    split_pools,
    with_formats,
    worker_batches,
)
from perfatlas.vocabulary.fields import ESTIMATED, fields_of
from perfatlas.vocabulary.metrics import metrics_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.hardware import Node
    from perfatlas.inference import Evaluation, TokenEnergy
    from perfatlas.scenario.fields import Scenario
    from perfatlas.step import Candidates

# closed-form results that a simulation replaces: all except memory
NOT_SIMULATED: Final = frozenset(
    f"{metric.name}{end}"
    for metric in metrics_of("estimate")
    if metric.has_interval
    for end in ("", "_low", "_high")
) | {"prefill_steps", "gpus"}
ALONE: Final = (
    "mode static: times are measured at the engine from the start of the batch, without HTTP,"
    " tokenization and detokenization"
)


LATENCIES: Final = ("ttft_s", "tpot_s", "request_latency_s")
SAME: Final = 1e-9
APART: Final = (
    "the ends of TTFT and TPOT come from clients in different phases: TTFT + (osl - 1) x TPOT is"
    " further out than the end of the request latency"
)


def estimate_of(fields: Mapping[str, Any]) -> Answer:
    """Return the estimate of one inference scenario.

    Args:
        fields: Arguments of `estimate`.

    Raises:
        PerfatlasError: As for `estimate`.
    """
    scenario = read_scenario(fields)
    if scenario.mode == "disaggregated":
        return _answer_pools(scenario)
    question, evaluation = evaluate_one(scenario)
    nodes = common_nodes(question)
    fields = with_formats(_resolved_fields(scenario, question), question)
    answer = _answer(question, evaluation, fields)
    columns = columns_of([scenario])
    if may_be_simulated(columns)[0]:
        found = result_columns(question, evaluation)
        if is_simulated(columns, question, found)[0]:
            answer = _simulated(scenario, answer, evaluation.energy)
    return _with_nodes(scenario, answer, nodes)


def _with_nodes(scenario: Scenario, answer: Answer, nodes: Sequence[Node]) -> Answer:
    """Return an answer with the power of nodes and facility."""
    answer = _with_phases(scenario, answer)
    prices = scenario.pue, scenario.usd_per_kwh
    of_nodes = node_results(answer.results, nodes, prices, scenario.node_power_cap_w)
    results = {**answer.results, **of_nodes}
    notes = unused_prices(results, nodes, prices)
    return replace(answer, results=results, warnings=(*answer.warnings, *notes))


def _with_phases(scenario: Scenario, answer: Answer) -> Answer:
    """Return an answer that says which ends of its latencies belong to no single run."""
    found = answer.results
    for end in ("low", "high"):
        times_s = [found.get(f"{name}_{end}") for name in LATENCIES]
        known_s = [float(time_s) for time_s in times_s if time_s is not None]
        if len(known_s) < len(LATENCIES):
            continue
        ttft_s, tpot_s, latency_s = known_s
        if not math.isclose(latency_s, ttft_s + (scenario.osl - 1.0) * tpot_s, rel_tol=SAME):
            evidence = answer.evidence
            notes = (*evidence.assumptions, APART)
            return replace(answer, evidence=replace(evidence, assumptions=notes))
    return answer


def _simulated(scenario: Scenario, formula: Answer, energy: TokenEnergy) -> Answer:
    """Return an answer with simulated latencies; memory and breakdown are unchanged."""
    from perfatlas.scenario.deployments.closed_loop import steady_state

    found = steady_state(scenario)
    notes = (
        text for text in formula.evidence.assumptions if not text.startswith((FORMULA, POOL_RULES))
    )
    replaced = found.results | energies_at(energy, found.results, scenario.osl)
    results = {
        name: value
        for name, value in formula.results.items()
        if name not in NOT_SIMULATED and name not in replaced
    }
    return replace(
        formula,
        results=replaced | results | {"method": "simulate"},
        evidence=replace(formula.evidence, assumptions=(*notes, found.note)),
        warnings=tuple(text.replace(LEAVES_OUT, "") for text in formula.warnings),
    )


def _resolved_fields(scenario: Scenario, question: Candidates) -> dict[str, Any]:
    """Return the resolved scenario of an answer: the given fields, and the implied load and engine.

    Running exactly this scenario gives the same answer even if defaults change.

    Args:
        scenario: The scenario as given.
        question: The candidates; with two pools, those of the decode workers.
    """
    fields: dict[str, Any] = {"model": scenario.model, "system": scenario.system}
    fields |= {"engine": "", "mode": scenario.mode}
    fields |= scenario.model_dump(exclude_unset=True, exclude_none=True)
    fields = resolved_names(fields_of(*ESTIMATED), fields)
    fields |= {"engine": question.profile.id, "isl": scenario.isl, "osl": scenario.osl}
    if scenario.mode == "disaggregated":
        own = resolve_engine(split_pools(scenario).prefill.engine).id
        if own != fields["engine"]:
            fields["prefill_engine"] = own
        fields.pop("decode_engine", None)  # it is engine
        return fields | worker_batches(scenario)
    fields |= resolved_plan(question)
    dp = fields["dp"]
    if scenario.mode == "static" and scenario.batch is None:
        per_replica, rest = divmod(scenario.concurrency or dp, dp)
        if not rest:  # otherwise replicas differ and only the concurrency describes the load
            fields.pop("concurrency", None)
            fields["batch"] = per_replica
    elif scenario.batch is None and scenario.concurrency is None:
        fields["concurrency"] = dp
    return fields


def _answer(question: Candidates, evaluation: Evaluation, given: Mapping[str, Any]) -> Answer:
    static = not question.aggregated_C[0]
    phases = [phase.value for phase in question.model.network.phases]
    evidence = question_evidence(question, evaluation)
    if static:
        evidence = replace(evidence, assumptions=(*evidence.assumptions, ALONE))
    return Answer(
        command="estimate",
        scenario=given,
        results=plain_answer(question, evaluation),
        breakdown=[
            row for phase in phases for row in breakdown_rows(getattr(evaluation, phase), phase, 0)
        ],
        evidence=evidence,
        warnings=estimate_warnings(question, evaluation, phases)[0],
    )


def _answer_pools(scenario: Scenario) -> Answer:
    """Answer a disaggregated scenario, with the memory of the decode pool."""
    rates = evaluate_pools(scenario)
    simulated = bool(are_pools_simulated(columns_of([scenario]), rates)[0])
    worker_warnings = [
        estimate_warnings(*rates.prefill, ("prefill",)),
        estimate_warnings(*rates.decode, ("decode",)),
    ]
    fields = _resolved_fields(scenario, rates.decode[0])
    if simulated:  # fields not given are no limits
        derived = {"prefill_batch", "decode_batch"} - scenario.model_fields_set
        fields = {name: value for name, value in fields.items() if name not in derived}
    fields |= pool_plan("prefill", rates.prefill[0]) | pool_plan("decode", rates.decode[0])
    formula = Answer(
        command="estimate",
        scenario=with_formats(fields, rates.prefill[0], rates.decode[0]),
        results=pool_results(rates),
        breakdown=[
            *breakdown_rows(rates.prefill[1].prefill, "prefill", 0),
            *breakdown_rows(rates.decode[1].decode, "decode", 0),
        ],
        evidence=merged_evidence(
            question_evidence(*rates.prefill), question_evidence(*rates.decode), rates.notes()
        ),
        warnings=pool_warnings(rates, worker_warnings, [simulated])[0],
    )
    answer = _simulated(scenario, formula, rates.energy()) if simulated else formula
    return _with_nodes(scenario, answer, common_nodes(rates.prefill[0], rates.decode[0]))
