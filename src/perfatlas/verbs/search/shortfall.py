"""The error of a search that finds no plan, with the nearest one, and why it ranks few plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InfeasibleError, PerfatlasError, counted, significant, two_digits
from perfatlas.scenario.deployments import evaluate_one
from perfatlas.scenario.resolution import read_scenario
from perfatlas.studies.deployments import (
    EXCHANGE,
    LATENCIES,
    SIZES,
    combinations_of,
    plan_row,
    ranked,
)
from perfatlas.verbs.search.metrics import RESULTS
from perfatlas.verbs.search.text import plan_text

if TYPE_CHECKING:
    from perfatlas.studies.deployments import Found, Leader, SearchInputs

LEAST_PROBABILITY: Final = 0.05  # advice to accept less would be advice to ignore the limit


def no_plan(found: Found, inputs: SearchInputs) -> InfeasibleError:
    """Return the error of a search without a plan that meets all limits."""
    if not found.size:
        labels = next(metric.parts for metric in RESULTS if metric.name == "rejected")
        counts = ", ".join(
            f"{labels.get(rule, rule)}: {count:,}" for rule, count in found.rejected.most_common()
        )
        sizes = {name: inputs.allowed(name) for name in SIZES}
        given = ", ".join(
            f"{name} = {' or '.join(map(str, own))}" for name, own in sizes.items() if own
        )
        rule = "must multiply to" if inputs.gpus is not None else "must not exceed"
        reason = counts or f"{given}: the sizes of a plan {rule} the GPUs"
        return InfeasibleError(
            f"no plan is possible on {counted(inputs.most_gpus, 'GPU')} ({reason})",
            advice=_fitting_advice(found, inputs),
        )
    place = int(ranked(found, inputs)[0])
    nearest = plan_row(found, place, inputs)
    missed = [
        f"{slo.removeprefix('slo_')} = {significant(1e3 * nearest[name], 4)} ms (limit"
        f" {significant(1e3 * limit, 4)} ms)"
        for slo, name in LATENCIES.items()
        if (limit := getattr(inputs, slo)) is not None and nearest[name] is not None
    ]
    if inputs.request_rate is not None:
        served = nearest["output_tokens_per_s_per_gpu"] * nearest["gpus"] / inputs.mix.mean_osl
        missed.append(f"{significant(served, 4)} requests/s (at least {inputs.request_rate:g})")
    if inputs.availability is not None and not found.candidates["spares_fit"][place]:
        missed.append(
            f"its spare replicas for availability = {inputs.availability:g} do not fit on"
            f" {counted(inputs.most_gpus, 'GPU')}"
        )
    load = nearest.get("concurrency") or nearest.get("batch")
    loaded = f", {counted(int(load), 'request')} in flight" if load else ""
    return InfeasibleError(
        f"none of {found.size:,} candidates meets all limits with probability"
        f" {inputs.min_slo_probability:g}; the nearest is"
        f" {nearest.get('system', nearest.get('prefill_system'))}, {plan_text(nearest)}{loaded},"
        f" with probability {two_digits(nearest['slo_probability'])}: {', '.join(missed)}",
        advice=(
            "relax the limit that is missed",
            "use more GPUs, or a system with more bandwidth",
            *_lower_probability(nearest["slo_probability"], inputs.min_slo_probability),
        ),
    )


def _fitting_advice(found: Found, inputs: SearchInputs) -> tuple[str, ...]:
    """Return what makes the model fit, as for an estimate; nothing where other rules refuse all."""
    if not found.rejected.get("fits_in_memory"):
        return ()
    if inputs.mode == "disaggregated":
        return ("each pool holds the whole model: use more GPUs, or a format with fewer bytes.",)
    fields = next(combinations_of(inputs))
    # the exchange is one between ranks of a plan, which an estimate chooses
    own = {n: v for n, v in fields.items() if n not in (*EXCHANGE, "mode", "redundant_experts")}
    try:
        evaluate_one(read_scenario({**own, "gpus": inputs.most_gpus, "mode": "aggregated"}))
    except InfeasibleError as error:
        return error.advice
    except PerfatlasError:
        return ()
    return ()


def _lower_probability(found: float, wanted: float) -> tuple[str, ...]:
    """Return the advice to accept the probability of the nearest plan, if it is worth having."""
    if found < LEAST_PROBABILITY:
        return ()
    return (f"accept a lower min_slo_probability than {wanted:g}",)


def no_simulated_plan(inputs: SearchInputs, count: int) -> InfeasibleError:
    """Return the error of a search whose best plans all miss a limit when simulated."""
    return InfeasibleError(
        f"the {counted(count, 'best plan')} by closed forms all miss a limit when simulated, with"
        f" probability {inputs.min_slo_probability:g} or more",
        advice=(
            "relax the limit that is missed",
            "simulate more plans: raise num_simulated",
            "set num_simulated = 0 for closed forms, which leave out queueing",
        ),
    )


def fewer_plans_note(leaders: list[Leader], inputs: SearchInputs) -> list[str]:
    """Return that num_simulated leaves fewer plans than num_plans asks for, if so.

    Args:
        leaders: Leaders by closed forms, also those that are not simulated.
        inputs: The search.
    """
    left = leaders[inputs.num_simulated : inputs.num_plans]
    if not any(leader.probability >= inputs.min_slo_probability for leader in left):
        return []
    note = f"num_simulated = {inputs.num_simulated} limits the number of ranked plans"
    return [f"{note}: raise it for num_plans = {inputs.num_plans}"]
