"""The estimate of one scenario: latencies, throughput and memory, with a breakdown."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas import inference, quantization
from perfatlas.answer import (
    FORMULA,
    Answer,
    breakdown_rows,
    merged_evidence,
    question_evidence,
)
from perfatlas.cost import cost_parts
from perfatlas.energy import optics_note
from perfatlas.engines import resolve_engine
from perfatlas.scenario import resolution
from perfatlas.scenario.deployments.accuracies import quantized
from perfatlas.scenario.deployments.costs import cost_notes
from perfatlas.scenario.deployments.estimated_rows import (
    GRAPH_PHASE,
    PHASES,
    estimate_rows,
    row_results,
    row_warnings,
)
from perfatlas.scenario.fields import (
    NOT_OF_GRAPHS,
    Scenario,
    resolved_names,
    within_disputed_ends,
)
from perfatlas.vocabulary.fields import ESTIMATED, fields_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.answer import Evidence
    from perfatlas.scenario.deployments.estimated_rows import EstimatedRows
    from perfatlas.step import Candidates, StepCost

ENGINE_TIMES: Final = (
    "mode static: times are measured at the engine from the start of the batch, without HTTP,"
    " tokenization and detokenization"
)
LATENCIES: Final = ("ttft_s", "tpot_s", "request_latency_s")
ROUNDING: Final = 1e-9  # relative
ENDS_DIFFER: Final = (
    "the ends of TTFT and TPOT come from clients in different phases: TTFT + (osl - 1) x TPOT is"
    " further out than the end of the request latency"
)


def estimate_of(fields: Mapping[str, Any]) -> Answer:
    """Return the estimate of one inference scenario, a table of one row, with its texts.

    Args:
        fields: Arguments of `estimate`.
    """
    return within_disputed_ends(_estimate, fields)


def _estimate(fields: Mapping[str, Any]) -> Answer:
    """Return the estimate of a scenario at the figures that the catalog prefers."""
    scenario = Scenario.read(fields)
    table = resolution.resolve_one(scenario)
    answered = list(estimate_rows(table, advises=True))
    table.refusals.raise_first()
    (found,) = answered
    pools = found.pools
    results = row_results(found, scenario.osl)
    if isinstance(found.rates, inference.SplitLayers):
        results["feed_forward_memory"] = inference.plain_results(pools[1].memory)
    elif found.rates is not None:
        results["prefill_memory"] = inference.plain_results(pools[0].memory)
    item = pools[0].candidates.model.network.item
    if item:
        results["item"] = item.partition(" of ")[0]  # without its size
    if not item and (parts := cost_parts(results, found.prices)) is not None:
        results["parts_usd_per_million_output_tokens"] = parts
    static = scenario.mode == "static"
    results["method"] = "simulate" if found.simulated_C[0] else "static" if static else "formula"
    return Answer(
        command="estimate",
        scenario=_resolved_fields(scenario, found),
        results=results,
        breakdown=_breakdown(found),
        evidence=_evidence(scenario, found, results),
        warnings=(*row_warnings(found)[0], *cost_notes(found.prices)[2]),
    )


def step_costs(fields: Mapping[str, Any]) -> list[tuple[str, StepCost]]:
    """Return the steps behind the breakdown of an estimate: phase and priced operators.

    Args:
        fields: Arguments of `estimate`.
    """
    (found,) = estimate_rows(resolution.resolve_one(Scenario.read(fields)))
    return _steps(found)


def _steps(found: EstimatedRows) -> list[tuple[str, StepCost]]:
    """Return the steps of the first row; of split layers those of a micro-batch in decode."""
    if isinstance(found.rates, inference.SplitLayers):
        return [(PHASES[-1], step) for step in found.rates.steps]
    network = found.pools[0].candidates.model.network
    return [
        (
            GRAPH_PHASE if network.item and not network.decodes else phase,
            getattr(pool.evaluation, phase),
        )
        for pool in found.pools
        for phase in pool.phases
    ]


def _breakdown(found: EstimatedRows) -> list[dict[str, Any]]:
    """Return the operators of the steps of the first row."""
    steps = _steps(found)
    rows = [row for phase, step in steps for row in breakdown_rows(step, phase, 0)]
    if not isinstance(found.rates, inference.SplitLayers):
        return rows
    total_s = sum(float(step.total_s()[0]) for _, step in steps)
    return [row | {"share": row["time_s"] / total_s} for row in rows]


def _evidence(scenario: Scenario, found: EstimatedRows, results: Mapping[str, Any]) -> Evidence:
    """Return what the answer of the first row rests on."""
    first, *others = (question_evidence(pool.candidates, pool.evaluation) for pool in found.pools)
    evidence = first
    if found.rates is not None:
        evidence = merged_evidence(first, others[0], found.rates.notes())
    costs, sources, _ = cost_notes(found.prices)
    optics = (optics_note(pool.candidates.placement.systems[0].node) for pool in found.pools)
    notes = [*evidence.assumptions, *filter(None, dict.fromkeys(optics)), *costs]
    evidence = replace(evidence, sources=(*evidence.sources, *sources))
    if scenario.benchmark is not None:
        last = found.pools[-1].candidates
        asked = quantized(last, scenario.benchmark, scenario.quantization_method)
        notes.append(quantization.format_change(asked).note)
    if scenario.mode == "static":
        notes.append(ENGINE_TIMES)
    if found.simulated_C[0]:
        notes = [text for text in notes if not text.startswith((FORMULA, inference.POOL_RULES))]
        notes.append(found.simulation_notes[0])
    if _ends_differ(scenario, results):
        notes.append(ENDS_DIFFER)
    return replace(evidence, assumptions=tuple(notes))


def _ends_differ(scenario: Scenario, results: Mapping[str, Any]) -> bool:
    """Return whether an end of the request latency is not that of its TTFT and TPOT."""
    for end in ("low", "high"):
        times_s = [results.get(f"{name}_{end}") for name in LATENCIES]
        known_s = [float(time_s) for time_s in times_s if time_s is not None]
        if len(known_s) < len(LATENCIES):
            continue
        ttft_s, tpot_s, latency_s = known_s
        if not math.isclose(latency_s, ttft_s + (scenario.osl - 1.0) * tpot_s, rel_tol=ROUNDING):
            return True
    return False


def _resolved_fields(scenario: Scenario, found: EstimatedRows) -> dict[str, Any]:
    """Return the resolved scenario of an answer: the given fields, and the implied load and engine.

    Running exactly this scenario gives the same answer even if defaults change.
    """
    pools = [pool.candidates for pool in found.pools]
    fields: dict[str, Any] = {"model": scenario.model, "system": scenario.system}
    fields |= {"engine": "", "mode": scenario.mode}
    fields |= scenario.given
    fields = resolved_names(fields_of(*ESTIMATED), fields)
    fields |= {"engine": pools[-1].profile.id, "isl": scenario.isl, "osl": scenario.osl}
    fields |= resolution.image_fields(scenario.values)
    if found.rates is None or isinstance(found.rates, inference.SplitLayers):
        fields["engine"] = pools[0].profile.id
        if found.rates is not None:
            fields |= resolution.feed_forward_plan(pools[1])
        fields = resolution.with_formats(_with_load(fields, scenario, pools[0]), *pools)
        network = pools[0].model.network
        left_out = [
            n for n in NOT_OF_GRAPHS if network.item and not (n == "osl" and network.decodes)
        ]
        return {name: value for name, value in fields.items() if name not in left_out}
    own = resolve_engine(resolution.split_pools(scenario).prefill.engine).id
    if own != fields["engine"]:
        fields["prefill_engine"] = own
    fields.pop("decode_engine", None)  # it is engine
    fields |= resolution.worker_batches(scenario)
    if found.simulated_C[0]:  # fields not given are no limits
        for name in {"prefill_batch", "decode_batch"} - scenario.fields_set:
            del fields[name]
    for role, pool in zip(PHASES, pools, strict=True):
        fields |= resolution.pool_plan(role, resolution.resolved_plan(pool))
    return resolution.with_formats(fields, *pools)


def _with_load(fields: dict[str, Any], scenario: Scenario, question: Candidates) -> dict[str, Any]:
    """Return fields with the plan of one pool, and the load that is implied."""
    fields |= resolution.resolved_plan(question)
    dp = fields["dp"]
    if scenario.mode == "static" and scenario.batch is None:
        per_replica, rest = divmod(scenario.concurrency or dp, dp)
        if not rest:  # otherwise replicas differ and only the concurrency describes the load
            fields.pop("concurrency", None)
            fields["batch"] = per_replica
    elif scenario.batch is None and scenario.concurrency is None:
        fields["concurrency"] = dp
    return fields
