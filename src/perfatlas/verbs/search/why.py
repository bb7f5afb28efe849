"""Why a plan is the one that it is, and why a search finds none or ranks few."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import (
    InfeasibleError,
    PerfatlasError,
    counted,
    significant,
    two_digits,
)
from perfatlas.report.text import format_value
from perfatlas.scenario.deployments import evaluate_one
from perfatlas.scenario.resolution import read_scenario
from perfatlas.studies.deployments import (
    AVAILABILITY,
    DELTA,
    EXCHANGE,
    HIGHER,
    LATENCIES,
    NO_GAIN,
    RATE,
    SIZES,
    combinations_of,
    plan_row,
    ranked,
)
from perfatlas.verbs.search.metrics import RESULTS
from perfatlas.verbs.search.text import plan_text
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.studies.deployments import Found, Leader, SearchInputs

SIMULATION: Final = "simulation"  # of a plan whose load the simulation lowered
ENDED: Final = {
    "kv_cache": "the KV cache holds no more requests",
    "max_num_seqs": "max_num_seqs admits no more requests",
    "max_num_batched_tokens": "max_num_batched_tokens admits no more requests at once",
    "prefill_workers": "the prefill workers limit the rate",
    "decode_workers": "the decode workers limit the rate",
    "loads": "no higher load is searched",
    NO_GAIN: "a higher load does not improve the objective",
}
LOWEST: Final = ("the lowest", "{:.2f} times the lowest")
LABELS: Final = {
    "slo_ttft_s": "TTFT",
    "slo_tpot_s": "TPOT",
    "slo_itl_s": "ITL",
    "slo_request_latency_s": "latency",
}


def reason_of(
    leader: Leader,
    found: Found,
    inputs: SearchInputs,
    steps: Sequence[Mapping[str, Any]],
) -> str:
    """Return the binding constraint of a plan and what bounds its phases, in a sentence."""
    balance = f"{_balance(leader.place, found, inputs)}; " if found.by_frontier else ""
    return f"{balance}{held_back(leader, found, inputs)}; {_bounds(steps)}"


def held_back(leader: Leader, found: Found, inputs: SearchInputs) -> str:
    """Return what prevents a higher load of a plan."""
    place, binding = leader.place, str(leader.row["binding_constraint"])
    columns = found.leading
    if leader.is_lowered:
        load = leader.at_first["concurrency"]
        chances = leader.at_first["probabilities"]
        binding = min(chances, key=lambda name: chances[name])
        statistic = _statistic(binding, inputs)
        limit = _limit(binding, inputs)
        return (
            f"at {load:,.0f} requests in flight, the best load by closed forms, simulated"
            f" {statistic}{limit} {chances[binding]:.0%}"
        )
    if binding == NO_GAIN and found.by_frontier:
        return "a higher load improves one objective at the expense of another"
    if binding in ENDED:
        return ENDED[binding]
    load = float(columns["next_concurrency"][place])
    if binding == AVAILABILITY:
        return (
            f"at {load:,.0f} requests in flight, the spare replicas for availability ="
            f" {inputs.availability:g} do not fit"
        )
    chance = float(columns["next_probability"][place])
    # closed forms have no percentiles
    mean = "mean " if inputs.slo_percentile is not None and binding in LATENCIES else ""
    return f"at {load:,.0f} requests in flight, {mean}{_limit(binding, inputs)} {chance:.0%}"


def _balance(place: int, found: Found, inputs: SearchInputs) -> str:
    """Return each objective of a point of the frontier relative to the best of the frontier."""
    told = []
    for name in inputs.objectives:
        values = found.leading[name]
        if name == DELTA:
            points = format_value(name, float(values[place]))
            told.append(f"{METRICS[name].short_label} {points} points")
            continue
        best = values.max() if name in HIGHER else values.min()
        words = ("the highest", "{:.0%} of the highest") if name in HIGHER else LOWEST
        ratio = float(values[place] / best)
        told.append(f"{words[ratio != 1.0].format(ratio)} {METRICS[name].short_label}")
    return f"by closed forms it has {', '.join(told)} of the frontier"


def _statistic(binding: str, inputs: SearchInputs) -> str:
    """Return the percentile of an SLO, "" of the mean."""
    percentile = inputs.slo_percentile
    return "" if percentile is None or binding == RATE else f"p{percentile:g} of "


def _limit(binding: str, inputs: SearchInputs) -> str:
    if binding == RATE:
        return f"request_rate = {inputs.request_rate:g}/s is served with probability"
    limit = 1e3 * float(getattr(inputs, binding))
    return f"{LABELS[binding]} is within {limit:g} ms with probability"


def _bounds(steps: Sequence[Mapping[str, Any]]) -> str:
    """Return the largest bound of both phases, with its share of the step."""
    told = []
    for phase in ("prefill", "decode"):
        shares: dict[str, float] = {}
        for row in steps:
            if row["phase"] == phase:
                shares[row["bound"]] = shares.get(row["bound"], 0.0) + row["share"]
        bound = max(shares, key=lambda name: shares[name])
        told.append(f"{phase} is bound by {bound} ({shares[bound]:.0%})")
    return ", ".join(told)


def ranking_notes(leaders: list[Leader]) -> list[str]:
    """Return how the ranking by closed forms changed, and why, in sentences.

    Args:
        leaders: Leaders in the order of their simulated metrics.
    """
    simulated = [leader for leader in leaders if leader.row["method"] == "simulate"]
    if not simulated:
        none = f"none of the {len(leaders)} best plans is" if leaders[1:] else "the plan is not"
        return [f"{none} simulated: {leaders[0].note}"]
    first = next(leader for leader in leaders if leader.rank == 1)
    now = leaders.index(first) + 1
    moved = sum(leader.rank != place for place, leader in enumerate(leaders, start=1))
    verb = "is" if len(simulated) == 1 else "are"
    count = "the plan is simulated"
    if len(simulated) < len(leaders):
        count = f"{len(simulated)} of the {len(leaders)} best plans {verb} simulated"
        count += " (the others cannot be, and have no queueing)"
    elif len(leaders) > 1:
        count = f"the {len(leaders)} best plans are simulated"
    notes = _before_simulated(leaders[: leaders.index(simulated[0])])
    if now == 1:
        others = f"; {moved} others change rank" if moved else ""
        return [f"{count}: the best by closed forms stays first{others}", *notes]
    fallen = f"{count}: the best by closed forms falls to rank {now}; {moved} plans change rank"
    notes = [fallen, *notes]
    if first.at_first:
        told = first.at_first
        notes.append(
            f"at {told['concurrency']:,} requests in flight, the best by closed forms has a TTFT"
            f" of {significant(told['ttft_s'])} s with queueing and"
            f" {significant(told['formula_ttft_s'])} s without"
        )
    return notes


def _before_simulated(leaders: list[Leader]) -> list[str]:
    """Return that the first plans are not simulated and what to do, if so."""
    if not leaders:
        return []
    rank = len(leaders)
    plans = "the first plan is" if rank == 1 else f"the first {rank} plans are"
    why = f"{plans} ranked by closed forms, which leave out queueing and may favor them"
    staged = all(leader.row.get("pp", 1) > 1 for leader in leaders)
    alone = "; set pp = 1 to search plans that can be simulated" if staged else ""
    told = (
        f"{why}: prefer the best simulated plan, at rank {rank + 1}, unless a benchmark of both"
        f" confirms the order{alone}"
    )
    return [told]


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
        counts = "; ".join([*([counts] if counts else []), *sorted(found.reasons)])
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
    """
    left = leaders[inputs.num_simulated : inputs.num_plans]
    if not any(leader.probability >= inputs.min_slo_probability for leader in left):
        return []
    note = f"num_simulated = {inputs.num_simulated} limits the number of ranked plans"
    return [f"{note}: raise it for num_plans = {inputs.num_plans}"]
