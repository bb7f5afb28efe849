"""Why a plan is where it is in a search, what holds its load, and why there is none: sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas import quantities
from perfatlas.answer import comparison_note
from perfatlas.inference import ITEM_NAMES
from perfatlas.report.text import format_share, format_value
from perfatlas.scenario.deployments import evaluate_one
from perfatlas.scenario.resolution import read_scenario
from perfatlas.studies.deployments.choices import EXCHANGE, SIZES
from perfatlas.studies.deployments.find import NO_GAIN, ranked
from perfatlas.studies.deployments.groups import LATENCIES
from perfatlas.studies.deployments.leaders import ranking_error
from perfatlas.studies.deployments.limits import (
    AVAILABILITY,
    COST,
    DELTA,
    HIGHER,
    LOSS,
    MAX_COST,
    POWER,
    RATE,
)
from perfatlas.studies.deployments.plan_nodes import crossing_of, plan_text
from perfatlas.studies.deployments.rows import plan_row
from perfatlas.studies.deployments.space import combinations_of
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.studies.deployments.find import Found
    from perfatlas.studies.deployments.leaders import Leader
    from perfatlas.studies.deployments.question import SearchInputs


def first_line(plans: Sequence[Mapping[str, Any]], objectives: Sequence[str]) -> str:
    """Return why the first plan is first, and how far the second is behind it."""
    name, deficit = objectives[0], plans[0]["runner_up_deficit"]
    known = [plan[name] for plan in plans if plan.get(name) is not None]
    which, best = ("highest", max) if METRICS[name].better == "higher" else ("lowest", min)
    why, mean = "it ranks first by closed forms", ""
    if len(objectives) > 1:
        why, mean = "it is the best compromise", " by the geometric mean of the objectives"
    elif known and plans[0].get(name) == best(known):
        why = f"it has the {which} {METRICS[name].short_label} of the plans that meet all limits"
    if tied := sum(bool(plan.get("ties")) for plan in plans):
        error = format_share(ranking_error())
        which = f"the first {tied}" if tied > 1 else "several plans"
        return (
            f"it is the simplest of {which}, equal within {error}, the error with which plans are"
            " ranked"
        )
    if deficit is None:
        return f"{why}; no other plan meets all limits"
    note = comparison_note(*(plan["tier"] for plan in plans[:2])) if len(plans) > 1 else ""
    behind = f"{format_share(deficit)} worse{mean}" if deficit else "equal by the objective"
    return f"{why}; the next plan is {behind}" + (f" ({note})" if note else "")


def placement_line(plans: Sequence[Mapping[str, Any]]) -> str:
    """Return the nodes of the first plan, and which of the others cross nodes; "" for one node.

    Example:
        >>> from perfatlas.studies.deployments import placement_line
        >>> first = {"system": "h200_sxm", "tp": 8, "pp": 1, "dp": 2}
        >>> first["placement"] = "2 nodes of 8 GPUs"
        >>> placement_line([first, first | {"pp": 2, "dp": 1}])
        'placement of the first: 2 nodes of 8 GPUs; plan 2 crosses nodes'
    """
    first = str(plans[0]["placement"])
    others = enumerate(plans[1:], start=2)
    crossing = [str(number) for number, plan in others if crossing_of(plan)]
    if first.startswith("1 ") and not crossing:
        return ""
    verb = "plan {} crosses" if len(crossing) == 1 else "plans {} cross"
    also = f"; {verb.format(', '.join(crossing))} nodes" if crossing else ""
    return f"placement of the first: {first}{also}"


def nodes_line(plan: Mapping[str, Any]) -> str:
    """Return the GPUs of the nodes that the first plan occupies, "" if it leaves none idle."""
    whole = plan.get("node_gpus", plan["gpus"])
    if whole == plan["gpus"]:
        return ""
    return (
        f"the first has {plan['gpus']:,} GPUs on nodes of {whole:,}: where nodes are not shared,"
        f" the {whole - plan['gpus']:,} others are idle and cost as much"
    )


ENDED: Final = {
    "kv_cache": "the next larger number of requests searched does not fit in the KV cache",
    "memory": "the next larger batch searched does not fit in memory",  # of a graph of operators
    "max_num_seqs": "max_num_seqs admits no more requests",
    "max_num_batched_tokens": "max_num_batched_tokens admits no more requests at once",
    "prefill_workers": "the prefill workers limit the rate",
    "decode_workers": "the decode workers limit the rate",
    "loads": "no higher load is searched",
    NO_GAIN: "a higher load does not improve the objective",
}
LOWEST: Final = ("lowest {}", "{} {:.2f}x the lowest")
HIGHEST: Final = ("highest {}", "{} {:.0%} of the highest")
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
    balance = f"{_balance(leader.index, found, inputs)}; " if found.by_frontier else ""
    return f"{balance}{held_back(leader, found, inputs)}; {_bounds(steps)}"


def in_flight(load: float, inputs: SearchInputs) -> str:
    """Return the load of a plan: over the deployment, or in mode static per replica."""
    each = " per replica" if inputs.mode == "static" else ""
    return f"{quantities.counted(round(load), 'request')} in flight{each}"


def held_back(leader: Leader, found: Found, inputs: SearchInputs) -> str:
    """Return what prevents a higher load of a plan."""
    index, binding = leader.index, str(leader.row["binding_constraint"])
    columns = found.leading
    if leader.is_lowered:
        load = leader.at_first["concurrency"]
        chances = leader.at_first["probabilities"]
        binding = min(chances, key=lambda name: chances[name])
        statistic = _statistic(binding, inputs)
        limit = _limit(binding, inputs)
        return (
            f"at {in_flight(load, inputs)}, the best load by closed forms, simulated"
            f" {statistic}{limit} {chances[binding]:.0%}"
        )
    if binding == NO_GAIN and found.by_frontier:
        return "a higher load improves one objective at the expense of another"
    if binding in ENDED:
        return ENDED[binding]
    load = float(columns["next_load"][index])
    if binding == AVAILABILITY:
        return (
            f"at {in_flight(load, inputs)}, the spare replicas for availability ="
            f" {inputs.availability:g} do not fit"
        )
    chance = float(columns["next_probability"][index])
    # closed forms have no percentiles
    mean = "mean " if inputs.slo_percentile is not None and binding in LATENCIES else ""
    return f"at {in_flight(load, inputs)}, {mean}{_limit(binding, inputs)} {chance:.0%}"


def _balance(place: int, found: Found, inputs: SearchInputs) -> str:
    """Return each objective of a point of the frontier relative to the best of the frontier."""
    told = []
    for name in inputs.objectives:
        values = found.leading[name]
        if name == DELTA:
            told.append(f"{METRICS[name].short_label} {format_value(name, float(values[place]))}")
            continue
        best = values.max() if name in HIGHER else values.min()
        words = HIGHEST if name in HIGHER else LOWEST
        ratio = float(values[place] / best)
        label = METRICS[ITEM_NAMES.get(name, name) if inputs.of_items else name].short_label
        told.append(words[ratio != 1.0].format(label, ratio))
    return f"on the frontier, by closed forms: {', '.join(told)}"


def _statistic(binding: str, inputs: SearchInputs) -> str:
    """Return the percentile of an SLO, "" of the mean."""
    percentile = inputs.slo_percentile
    return "" if percentile is None or binding not in LATENCIES else f"p{percentile:g} of "


def _limit(binding: str, inputs: SearchInputs) -> str:
    if binding == RATE:
        return f"request_rate = {inputs.request_rate:g}/s is served with probability"
    if binding not in LATENCIES:
        name = binding.replace("_output", "")  # of a cost, whose tokens are output tokens
        return f"{name} = {getattr(inputs, name):g} is kept with probability"
    limit = format_value(LATENCIES[binding], float(getattr(inputs, binding)))
    return f"{LABELS[binding]} is within {limit} with probability"


def _bounds(steps: Sequence[Mapping[str, Any]]) -> str:
    """Return the largest bound of both phases, with its share of the step."""
    told = []
    for phase in dict.fromkeys(row["phase"] for row in steps):
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
    moved = sum(leader.rank != index for index, leader in enumerate(leaders, start=1))
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
            f" of {quantities.significant(told['ttft_s'])} s with queueing and"
            f" {quantities.significant(told['formula_ttft_s'])} s without"
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
    text = (
        f"{why}: prefer the best simulated plan, at rank {rank + 1}, unless a benchmark of both"
        f" confirms the order{alone}"
    )
    return [text]


MIN_PROBABILITY: Final = 0.05  # advice to accept less would be advice to ignore the limit


def no_plan(found: Found, inputs: SearchInputs) -> quantities.InfeasibleError:
    """Return the error of a search without a plan that meets all limits."""
    if not found.size:
        labels = METRICS["rejected"].parts
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
        return quantities.InfeasibleError(
            f"no plan is possible on {quantities.counted(inputs.most_gpus, 'GPU')} ({reason})",
            advice=_fitting_advice(found, inputs),
        )
    index = int(ranked(found, inputs)[0])
    nearest, columns = plan_row(found, index, inputs), found.leading

    def misses(limit: str) -> bool:
        """Return whether the nearest plan misses a limit; each may be missed by two pools."""
        met = columns.get(f"met_{limit}")
        return met is None or bool(met[index] < inputs.min_slo_probability)

    missed = [
        f"{slo.removeprefix('slo_')} = {quantities.significant(1e3 * nearest[name], 4)} ms (limit"
        f" {quantities.significant(1e3 * limit, 4)} ms)"
        for slo, name in LATENCIES.items()
        if (limit := getattr(inputs, slo)) is not None and nearest[name] is not None and misses(slo)
    ]
    if inputs.request_rate is not None and misses(RATE):
        served = nearest["output_tokens_per_s_per_gpu"] * nearest["gpus"] / inputs.mix.mean_osl
        missed.append(
            f"{quantities.significant(served, 4)} requests/s (at least {inputs.request_rate:g})"
        )
    if inputs.availability is not None and not found.candidates["spares_fit"][index]:
        missed.append(
            f"its spare replicas for availability = {inputs.availability:g} do not fit on"
            f" {quantities.counted(inputs.most_gpus, 'GPU')}"
        )
    for limit, of, name in (("max_usd_per_million_tokens", MAX_COST, COST), (LOSS, LOSS, DELTA)):
        most, value = getattr(inputs, limit), nearest.get(name)
        if most is not None and misses(of) and value is not None:
            missed.append(f"{name} = {quantities.significant(value, 4)} ({limit} = {most:g})")
    over_power = inputs.max_deployment_power_w is not None and misses(POWER)
    if over_power:
        drawn = quantities.significant(columns["deployment_power_w"][index], 4)
        missed.append(f"{drawn} W of its nodes (limit {inputs.max_deployment_power_w:g} W)")
    load = nearest.get("concurrency") or nearest.get("batch")
    loaded = f", {in_flight(load, inputs)}" if load else ""
    return quantities.InfeasibleError(
        f"none of {found.size:,} candidates meets all limits with probability"
        f" {inputs.min_slo_probability:g}; the nearest is"
        f" {nearest.get('system', nearest.get('prefill_system'))}, {plan_text(nearest)}{loaded},"
        f" with probability {quantities.two_digits(nearest['slo_probability'])}:"
        f" {', '.join(missed)}",
        advice=(
            "relax the limit that is missed",
            "use fewer GPUs, or a system of less power"
            if over_power
            else "use more GPUs, or a system with more bandwidth",
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
    except quantities.InfeasibleError as error:
        return error.advice
    except quantities.PerfatlasError:
        return ()
    return ()


def _lower_probability(found: float, wanted: float) -> tuple[str, ...]:
    """Return the advice to accept the probability of the nearest plan, if it is worth having."""
    if found < MIN_PROBABILITY:
        return ()
    return (f"accept a lower min_slo_probability than {wanted:g}",)


def no_simulated_plan(inputs: SearchInputs, count: int) -> quantities.InfeasibleError:
    """Return the error of a search whose best plans all miss a limit when simulated."""
    return quantities.InfeasibleError(
        f"the {quantities.counted(count, 'best plan')} by closed forms all miss a limit when"
        f" simulated, with probability {inputs.min_slo_probability:g} or more",
        advice=(
            "relax the limit that is missed",
            "simulate more plans: raise num_simulated",
            "set num_simulated = 0 for closed forms, which leave out queueing",
        ),
    )
