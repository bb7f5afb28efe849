"""`search`: the best deployments of a model under service-level objectives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.answer import Answer, AnsweredRun, breakdown_rows, question_evidence
from perfatlas.declarations import signature_of, verb_fields
from perfatlas.quantities import InfeasibleError, UnsupportedError
from perfatlas.scenario.deployments import evaluate_one
from perfatlas.scenario.fields import complete_scenario
from perfatlas.scenario.resolution import read_scenario
from perfatlas.verbs.search.find import distinct_plans, find, ranked, within_slos
from perfatlas.verbs.search.metrics import RESULTS
from perfatlas.verbs.search.question import SIZES, read_search
from perfatlas.verbs.search.rows import (
    candidate_table,
    estimate_fields,
    frontier_rows,
    plan_rows,
)
from perfatlas.verbs.search.shortfall import no_plan
from perfatlas.verbs.search.why import reason_of

if TYPE_CHECKING:
    from perfatlas.answer import Evidence
    from perfatlas.verbs.search.find import Found
    from perfatlas.verbs.search.question import SearchInputs

__all__ = ["RESULTS", "SearchAnswer", "search"]
PROBABILITIES: Final = (
    "an SLO is met with the probability that the metric stays within it: the logarithm of the"
    " metric is normal with the prediction as median and its 90% interval, symmetric where the"
    " interval has no upper end (TTFT without queueing is a lower limit); errors of all metrics are"
    " fully correlated, so that all SLOs are met with the least of their probabilities"
)
FORMATS: Final = (
    "only the formats of the checkpoint are searched; set formats or kv_formats to search others"
)


@dataclass(frozen=True, kw_only=True)
class SearchAnswer(AnsweredRun):
    """The answer to a search, with all of its candidates.

    Args:
        found: The candidates.
        inputs: The search.
    """

    found: Found
    inputs: SearchInputs

    @property
    def columns(self) -> dict[str, list[Any]]:
        """All candidates at their best loads as columns, each (C,), in the order of the search."""
        return candidate_table(self.found, self.inputs)


@signature_of("search")
def search(**fields: Any) -> SearchAnswer:  # noqa: ANN401 - checked against the table of fields
    """Return the best deployments of a model on a number of GPUs.

    Args:
        **fields: Fields of `perfatlas search`: model, system, gpus or max_gpus, isl, osl, SLOs,
            objective and others. Sizes of the plan that are given are kept; others are searched.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another, or
            has no effect.
        InfeasibleError: No deployment fits, or none meets the SLOs; the message has the nearest.
        UnsupportedError: There is no model or data for the combination.

    Example:
        >>> from perfatlas.verbs.search import search
        >>> answer = search(model="meta-llama/Llama-3.1-8B", system="h200_sxm", gpus=2, isl=1024,
        ...     osl=128, slo_tpot_s=0.02)
        >>> best = answer.results["plans"][0]
        >>> best["gpus"], best["tpot_s"] < 0.02
        (2, True)
    """
    inputs = read_search(fields)
    found = find(inputs)
    if found.size and np.all(np.isnan(found.candidates["score"])):
        raise UnsupportedError(
            f"objective = {inputs.objective} is not known for system = {inputs.system}; use another"
            " objective"
        )
    meeting = within_slos(found, inputs)
    if not meeting:
        raise no_plan(found, inputs)
    return _answer(inputs, found, meeting)


def _answer(inputs: SearchInputs, found: Found, meeting: int) -> SearchAnswer:
    places = distinct_plans(found, ranked(found, inputs), inputs.num_plans + 1)
    enough = found.candidates["slo_probability"] >= inputs.min_slo_probability
    places = [place for place in places if enough[place]]
    plans = plan_rows(found, places, inputs)
    warnings: list[str] = []
    breakdown: list[dict[str, Any]] = []
    evidence: Evidence | None = None
    for place, plan in zip(places[: inputs.num_plans], plans, strict=False):
        scenario = read_scenario(estimate_fields(found, place, inputs))
        question, evaluation = evaluate_one(scenario)
        steps = [
            *breakdown_rows(evaluation.prefill, "prefill", 0),
            *breakdown_rows(evaluation.decode, "decode", 0),
        ]
        plan["why"] = reason_of(plan, found, place, inputs, steps)
        if evidence is None:
            evidence, breakdown = question_evidence(question, evaluation), steps
    if evidence is None:
        raise InfeasibleError("no plan meets the SLOs")
    notes = [PROBABILITIES]
    if inputs.formats is None and inputs.format is None:
        notes.append(FORMATS)
    results = {
        "plans": plans[: inputs.num_plans],
        "frontier": frontier_rows(found, inputs),
        "candidates": found.size,
        "candidates_within_slos": meeting,
        "rejected": dict(sorted(found.rejected.items(), key=lambda item: -item[1])),
        "points": found.points,
        "candidates_per_cpu_s": found.size / max(found.cpu_s, 1e-9),
    }
    answer = Answer(
        command="search",
        scenario=_complete(inputs),
        results=results,
        breakdown=breakdown,
        evidence=replace(evidence, assumptions=(*evidence.assumptions, *notes)),
        warnings=tuple(warnings),
    )
    return SearchAnswer(answer=answer, found=found, inputs=inputs)


def _complete(inputs: SearchInputs) -> dict[str, Any]:
    """Return the fields of the search; sizes that are not given are searched, and have no value."""
    fields = {n: f for n, f in verb_fields("search").items() if n not in SIZES}
    given = complete_scenario(fields, inputs)
    return {**given, **inputs.pinned}
