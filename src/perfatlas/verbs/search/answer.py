"""`search`: the best deployments of a model under service-level objectives."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.answer import (
    Answer,
    AnsweredRun,
    breakdown_rows,
    merged_evidence,
    question_evidence,
)
from perfatlas.declarations import signature_of, verb_fields
from perfatlas.engines import resolve_engine
from perfatlas.hardware import resolve_system
from perfatlas.inference import ITEM_NAMES
from perfatlas.networks import resolve_model
from perfatlas.quantities import InvalidSpecError, UnsupportedError, remarks
from perfatlas.report.text import format_share, format_value
from perfatlas.scenario import deployments
from perfatlas.scenario.fields import NOT_OF_GRAPHS, complete_scenario, left_out_notes
from perfatlas.scenario.resolution import image_fields, image_tokens, read_scenario
from perfatlas.studies import joined, rejected_counts
from perfatlas.studies.deployments import (
    DRAFTER,
    LATENCIES,
    NODE_DEVICES,
    OFFLOADED,
    OPTIONS,
    ROLES,
    SETTINGS,
    SIZES,
    Found,
    candidate_table,
    closed_form_leaders,
    deficit,
    estimate_fields,
    find_deployments,
    find_pools,
    frontier_rows,
    launch_commands,
    launch_rules,
    launcher_of,
    left_out_note,
    needed_checkpoint,
    no_plan,
    no_simulated_plan,
    placement_of,
    plan_name,
    plan_row,
    ranked,
    ranking_notes,
    read_search,
    reason_of,
    simplest_first,
    simulated_leaders,
    solved_machine,
    with_known_percentiles,
    within_slos,
    without_exceeded,
)
from perfatlas.verbs.search.metrics import RESULTS
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.answer import Evidence
    from perfatlas.scenario.fields import Scenario
    from perfatlas.studies.deployments import Columns, Leader, SearchInputs

SIMULATION: Final = "simulation"  # the constraint of a plan whose load the simulation lowered
EVERY_S: Final = 2.0  # between two lines about closed forms
SHOWN: Final = ("ttft_s", "tpot_s")


class SearchProgress:
    """Tells how a search goes on, in lines.

    Args:
        tell: Receives each line.
    """

    def __init__(self, tell: Callable[[str], None], inputs: SearchInputs) -> None:
        """Start with nothing priced."""
        self._tell, self._inputs = tell, inputs
        self._names = tuple(dict.fromkeys((*inputs.objectives, *SHOWN)))
        self._told = time.monotonic()
        self._best: Leader | None = None

    def priced(self, found: Found, best: list[Columns]) -> None:
        """Tell how many candidates are priced, and the best of them, every few seconds.

        Args:
            found: The families so far.
            best: Their candidates, in parts.
        """
        if time.monotonic() - self._told < EVERY_S:
            return
        known = replace(found, candidates=joined(best), by_frontier=False)
        words = "none meets all limits yet"
        if within_slos(known, self._inputs):
            index = int(ranked(known, self._inputs)[0])
            words = f"best so far {self._row(plan_row(known, index, self._inputs))}"
        self._tell(f"{known.size:,} candidates priced; {words}")
        self._told = time.monotonic()

    def simulated(self, leader: Leader, number: int, count: int) -> None:
        """Tell the metrics of a simulated plan, and the best of those so far.

        Args:
            number: Its number, from 1.
        """
        least = self._inputs.min_slo_probability
        if self._best is None or leader.order(least) < self._best.order(least):
            self._best = leader
        place = "best so far" if leader is self._best else f"behind {self._name(self._best.row)}"
        if leader.row["method"] != "simulate":
            text = f"plan {number} of {count}, {self._name(leader.row)}: not simulated; {place}"
        else:
            misses = "" if leader.probability >= least else "misses a limit, "
            text = f"simulated {number} of {count}: {misses}{self._row(leader.row)}; {place}"
        self._tell(text)

    def _name(self, row: Mapping[str, Any]) -> str:
        """Return a plan with what else the search varies."""
        return plan_name(row, vars(self._inputs))

    def _row(self, row: Mapping[str, Any]) -> str:
        """Return plan, load, objectives and latencies of a row."""
        load = row.get("concurrency") or row.get("batch")
        told = [
            f"{METRICS[name].short_label} {format_value(name, row[name])}"
            for name in self._names
            if row.get(name) is not None
        ]
        each = " per replica" if self._inputs.mode == "static" else ""
        loaded = f" at {load:,} in flight{each}" if load else ""
        if self._inputs.has_limits:
            told.append(f"P(SLO) {format_share(row['slo_probability'])}")
        return f"{self._name(row)}{loaded}: {', '.join(told)}"


__all__ = ["RESULTS", "SearchAnswer", "search"]
MIN_S: Final = 1e-9
PROBABILITIES: Final = (
    "an SLO is met with the probability that the metric stays within it: the logarithm of the"
    " metric is normal with the prediction as median and its 90% interval, symmetric where only"
    " queueing is left out (TTFT without it is a lower limit); where steps have no upper end, the"
    " prediction itself meets an SLO or misses it, and the probability is an upper limit; errors of"
    " all metrics are fully correlated, so that all SLOs are met with the least of their"
    " probabilities"
)
OF_SIMULATION: Final = (
    "a simulated plan meets them with clients spread evenly over their outputs, and with clients"
    " that start together, as simulate runs them: means with their first prompts, percentiles"
    " without"
)
PERCENTILES: Final = (
    "percentiles are over the simulated requests of a closed loop, with the lengths of the search;"
    " traffic with varying arrivals, or lengths that vary more, has longer tails"
)
BALANCED: Final = (
    "plans of several objectives are points of the frontier, one for each plan, ranked by the"
    " geometric mean of the objectives: a ratio counts the same in each"
)
CACHES: Final = {
    "round_robin": (
        "requests meet the caches of replicas and attention-DP ranks in turn (with max_gpus, of as"
        " many replicas as fit); set routing = prefix_aware for a router that follows prefixes"
    ),
    "prefix_aware": (
        "the router follows prefixes, so that the caches of replicas and attention-DP ranks are"
        " one: an upper limit, as a router also balances load"
    ),
    "pools": (
        "each prefill worker finds what its own cache would have of all requests: a router that"
        " follows prefixes finds more, and one that does not finds less"
    ),
}
OF_BATCHES: Final = (
    "latencies are those of a batch from its start, as in mode static: requests that arrive one by"
    " one wait for a pass, and simulate answers their queue"
)
FORMATS_OF_GRAPHS: Final = "one format is searched; set formats to search others"
FORMATS: Final = (
    "only the formats of the checkpoint are searched; set formats or kv_formats to search others"
)


@dataclass(frozen=True, kw_only=True)
class SearchAnswer(AnsweredRun):
    """The answer to a search, with all of its candidates."""

    found: Found
    inputs: SearchInputs
    best: Mapping[str, Any]  # Fields with which `estimate` prices the best plan

    def explained(self) -> Answer:
        """Return `explain` of the best plan, in closed form: what its latencies depend on.

        The SLOs of the search are the targets of the break-even values, as limits of the means.
        """
        from perfatlas.studies import explained_estimate

        targets: dict[str, float] = {}
        for name, metric in LATENCIES.items():  # of two limits of one metric the tighter one
            limit = getattr(self.inputs, name)
            if limit is not None:
                targets[metric] = min(limit, targets.get(metric, limit))
        return explained_estimate(self.best, targets)

    @property
    def candidates_per_cpu_s(self) -> float:
        """Candidates over the CPU time of their pricing, which differs between runs [1/s]."""
        return self.found.size / max(self.found.cpu_s, MIN_S)

    @property
    def columns(self) -> dict[str, list[Any]]:
        """All candidates at their best loads as columns, each (C,), in the order of the search."""
        table = candidate_table(self.found, self.inputs)
        return deployments.item_row(table) if self.inputs.of_items else table


@signature_of("search")
def search(
    *,
    progress: Callable[[str], None] | None = None,
    **fields: Any,  # noqa: ANN401 - checked against the table of fields
) -> SearchAnswer:
    """Return the best deployments of a model on a number of GPUs.

    Args:
        progress: Receives lines about the best plan so far and each simulated plan.
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
    if inputs.solve is not None:
        machine, asked = solved_machine(inputs)
        solved = replace(machine, scenario=_complete(inputs))
        return SearchAnswer(answer=solved, found=Found(), inputs=inputs, best=asked)
    if inputs.emit is not None:
        _refuse_changed_model(inputs)
        _launcher(inputs)
    search_progress = None if progress is None else SearchProgress(progress, inputs)
    found = (
        find_pools(inputs, search_progress.priced if search_progress else None)
        if inputs.mode == "disaggregated"
        else find_deployments(inputs, search_progress.priced if search_progress else None)
    )
    if found.size and not found.has_scores:
        raise UnsupportedError(
            f"objective = {inputs.objective} is not known for system = {inputs.system}; use another"
            " objective"
        )
    if not within_slos(found, inputs):
        raise no_plan(found, inputs)
    leaders = closed_form_leaders(found, inputs, max(inputs.num_plans + 1, inputs.num_simulated))
    notes: list[str] = []
    if inputs.num_simulated and inputs.mode != "static":
        fewer = _fewer_plans_note(leaders, inputs)
        leaders = simulated_leaders(
            found,
            leaders[: inputs.num_simulated],
            inputs,
            search_progress.simulated if search_progress else None,
        )
        notes = [*ranking_notes(leaders), *fewer]
        if found.by_frontier:
            leaders, exceeded = without_exceeded(leaders, inputs)
            notes += exceeded
    leaders, left_out = with_known_percentiles(leaders, inputs)
    notes += left_out
    leaders = [leader for leader in leaders if leader.probability >= inputs.min_slo_probability]
    if not leaders:
        raise no_simulated_plan(inputs, min(inputs.num_simulated, found.size))
    return _answer(inputs, found, leaders, notes)


def _fewer_plans_note(leaders: list[Leader], inputs: SearchInputs) -> list[str]:
    """Return that num_simulated leaves fewer plans than num_plans asks for, if so."""
    left = leaders[inputs.num_simulated : inputs.num_plans]
    if not any(leader.probability >= inputs.min_slo_probability for leader in left):
        return []
    note = f"num_simulated = {inputs.num_simulated} limits the number of ranked plans"
    return [f"{note}: raise it for num_plans = {inputs.num_plans}"]


def _launcher(inputs: SearchInputs) -> str:
    """Return the rules by which the searched engine is launched, one for all plans."""
    names = list(dict.fromkeys(resolve_engine(engine).name for engine in inputs.engines))
    pools = inputs.mode == "disaggregated"
    launchers = [launcher_of(str(inputs.emit), name, pools=pools) for name in names]
    if len(launchers) > 1:
        raise InvalidSpecError(
            f"emit = {inputs.emit} launches one engine, and {', '.join(names)} are searched; set"
            " engine, or leave emit out"
        )
    return launchers[0]


def _refuse_changed_model(inputs: SearchInputs) -> None:
    """Refuse to write a launch command for a model without a checkpoint."""
    model = resolve_model(inputs.model)
    if model.name != model.base:
        raise InvalidSpecError(
            f"emit = {inputs.emit}: {model.name} has no checkpoint to launch; leave emit out, or"
            f" search {model.base}"
        )


def _ranked(
    leaders: Sequence[Leader], number: int, tied: int, inputs: SearchInputs
) -> dict[str, Any]:
    """Return what a plan has beside its metrics: nodes, limits, the next plan, ties."""
    leader, following = leaders[number], next(iter(leaders[number + 1 :]), None)
    worse = deficit(leader.score, following.score if following else None, inputs)
    limited = {"binding_constraint": SIMULATION} if leader.is_lowered else {}
    return {
        **limited,
        **({} if inputs.has_limits else {"slo_probability": None}),
        "placement": placement_of(leader.row),
        # ties are in the order of their plans
        "runner_up_deficit": max(worse, 0.0) if worse and number < tied else worse,
        "ties": tied > 1 and number < tied,
    }


def _answer(
    inputs: SearchInputs, found: Found, leaders: list[Leader], ranking: list[str]
) -> SearchAnswer:
    """Return the answer with the leaders that meet all limits, best first."""
    plans = []
    leaders, tied = simplest_first(leaders, inputs)
    evidence, breakdown = [], []
    warnings: list[str] = []
    for number, leader in enumerate(leaders[: inputs.num_plans]):
        fields = estimate_fields(found, leader.row, leader.index, inputs)
        steps, grounds, warned = _priced(read_scenario(fields))
        row = {**leader.row, "tier": grounds.tier, "closed_form_rank": leader.rank}
        why = reason_of(leader, found, inputs, steps)
        plans.append(row | _ranked(leaders, number, tied, inputs) | {"why": why})
        breakdown.append(steps)
        evidence.append(grounds)
        warnings += warned
    warnings += [f"not searched: {why}" for why in sorted(found.reasons)]
    warnings += left_out_notes(inputs.all_systems)
    prices = [inputs.gpu_price(name) for name in inputs.all_systems]
    warnings += [price.warning for price in prices if price.warning]
    notes = [*_notes(inputs, ranking), *dict.fromkeys(price.note for price in prices)]
    front = frontier_rows(found, inputs)
    results: dict[str, Any] = {
        "plans": [deployments.item_row(plan) for plan in plans] if inputs.of_items else plans,
        "frontier": [deployments.item_row(row) for row in front] if inputs.of_items else front,
        "candidates": found.size,
        "candidates_within_slos": within_slos(found, inputs),
        "rejected": rejected_counts(found.rejected),
        "points": found.points,
        "ranking": ranking,
    }
    if inputs.images:
        results["image_tokens"] = image_tokens(vars(inputs))
    if inputs.emit is not None:
        asked = estimate_fields(found, leaders[0].row, leaders[0].index, inputs)
        settings = {name: asked[name] for name in SETTINGS if name in asked}
        settings |= _offloaded(asked)
        commands, left_out, own = _launched(_launcher(inputs), settings | plans[0], inputs)
        results["launch"] = commands
        warnings += left_out
        notes += own
    answer = Answer(
        command="search",
        scenario=_complete(inputs),
        results=results,
        breakdown=breakdown[0],
        evidence=replace(
            evidence[0],
            data_versions=_data_versions(evidence),
            assumptions=(*evidence[0].assumptions, *notes),
            sources=(*evidence[0].sources, *(text for price in prices for text in price.sources)),
        ),
        warnings=tuple(dict.fromkeys(warnings)),
    )
    first = leaders[0]
    best = estimate_fields(found, first.row, first.index, inputs)
    return SearchAnswer(answer=answer, found=found, inputs=inputs, best=best)


def _launched(
    launcher: str, best: Mapping[str, Any], inputs: SearchInputs
) -> tuple[list[str], list[str], list[str]]:
    """Return the commands that launch a plan, warnings of what they leave out, and notes."""
    longest = int(sum(inputs.mix.longest))
    model = resolve_model(inputs.model)
    checkpoint = model.network.checkpoint
    stored = checkpoint.gemm_format or "bf16"
    if checkpoint.unread:  # formats of the user stand for its own
        stored = str(best.get("gemm_format") or stored)
    plan = {**best, **_options(inputs), DRAFTER: model.network.mtp_layers > 0}
    plan |= _node_devices(best, inputs)
    commands = launch_commands(launcher, model.name, plan, longest, stored)
    left_out = [note] if (note := left_out_note(launcher, plan)) else []
    notes = [note] if (note := needed_checkpoint(launcher, plan, stored)) else []
    notes.append(f"launch arguments: {launch_rules()[launcher]['source']}")
    return commands, left_out, notes


def _offloaded(best: Mapping[str, Any]) -> dict[str, float]:
    """Return the weights of a GPU in its second memory, or those of each pool [bytes]."""
    if not best.get("weight_offload"):
        return {}
    pools = deployments.evaluated_pools(read_scenario(best))
    names = [f"{role}_" for role in ROLES] if len(pools) > 1 else [""]
    return {
        f"{name}{OFFLOADED}": float(pool.evaluation.memory.second_weights_bytes[0])
        for name, pool in zip(names, pools, strict=True)
    }


def _node_devices(best: Mapping[str, Any], inputs: SearchInputs) -> dict[str, int]:
    """Return the devices of a node of the plan, or of each of its pools."""
    pools = "prefill_workers" in best
    names = [f"{role}_" for role in ROLES] if pools else [""]
    found = {}
    for name in names:
        system = best.get(f"{name}system") or best.get("system") or inputs.system
        found[f"{name}{NODE_DEVICES}"] = resolve_system(str(system)).node.devices
    return found


def _options(inputs: SearchInputs) -> dict[str, Any]:
    """Return the limits that are set and not searched."""
    known = {name: getattr(inputs, name) for name in OPTIONS}
    return {name: value for name, value in known.items() if value is not None}


def _notes(inputs: SearchInputs, ranking: list[str]) -> list[str]:
    """Return the assumptions of the search, and how its ranking changed."""
    text = f"{PROBABILITIES}; {OF_SIMULATION}"
    notes = [*([PERCENTILES] if inputs.slo_percentile else []), text, *ranking]
    if inputs.of_items:
        notes = [PROBABILITIES, OF_BATCHES, *ranking]
    if len(inputs.objectives) > 1:
        notes.append(BALANCED)
    if inputs.mix.sample is not None:
        notes.append(inputs.mix.note)
    if inputs.mix.reuse is not None and inputs.prefix_caching is not False:
        pooled = inputs.mode == "disaggregated"
        notes.append(inputs.mix.cache_note(CACHES["pools" if pooled else inputs.routing]))
    if inputs.formats is None and inputs.format is None:
        notes.append(FORMATS_OF_GRAPHS if inputs.of_items else FORMATS)
    return notes


def _priced(scenario: Scenario) -> tuple[list[dict[str, Any]], Evidence, list[str]]:
    """Return the breakdown of a prefill chunk and a decode step, the evidence, and warnings."""
    if scenario.mode == "disaggregated":
        rates = deployments.evaluate_pools(scenario)
        (question, prefill), (second, decode) = rates.prefill, rates.decode
        pools = (question_evidence(question, prefill), question_evidence(second, decode))
        evidence = merged_evidence(*pools, rates.notes())
        first = deployments.Remarked(question, (prefill.prefills,))
        last = deployments.Remarked(second, (decode.decodes,))
        tables = [(deployments.POWER, first), (deployments.POWER, last)]
        tables += [(deployments.LOSSES, first), (deployments.LOSSES, last)]
        tables += [(deployments.UNSEEN, last)]
    else:
        question, prefill = deployments.evaluate_one(scenario)
        decode, evidence = prefill, question_evidence(question, prefill)
        first = deployments.Remarked(question, (prefill.prefills, prefill.decodes))
        tables = [(deployments.POWER, first), (deployments.LOSSES, first)]
    tables += [(deployments.network_remarks(first), first), (deployments.UNSEEN, first)]
    warned = list(remarks(1, *tables)[0])
    if question.model.network.item:
        return breakdown_rows(prefill.prefill, deployments.GRAPH_PHASE, 0), evidence, warned
    rows = [
        *breakdown_rows(prefill.prefill, "prefill", 0),
        *breakdown_rows(decode.decode, "decode", 0),
    ]
    return rows, evidence, warned


def _data_versions(evidence: Sequence[Evidence]) -> dict[str, str]:
    """Return the versions behind the first plan, with the engines of all."""
    engines = dict.fromkeys(found.data_versions["engine"] for found in evidence)
    return {**evidence[0].data_versions, "engine": " or ".join(engines)}


def _complete(inputs: SearchInputs) -> dict[str, Any]:
    """Return the fields of the search; sizes that are not given are searched, and have no value."""
    lengths = {"isl": inputs.isl, "osl": inputs.osl, **image_fields(vars(inputs))}
    # the mean lengths of a mix are derived
    derived = (*lengths, *(("prefix",) if inputs.mix.cached else ()))
    left_out = (*SIZES, *(() if inputs.mix.sample is None else derived))
    fields = {n: f for n, f in verb_fields("search").items() if n not in left_out}
    given = complete_scenario(fields, inputs, **(lengths if inputs.mix.sample is None else {}))
    given |= inputs.pinned
    if inputs.own_engines:  # the plans name them
        del given["engine"]
    if not inputs.of_items:
        return given
    given["objective"] = ",".join(
        ITEM_NAMES.get(objective, objective) for objective in inputs.objectives
    )
    own = () if "engine" in inputs.fields_set else ("engine",)
    return {name: value for name, value in given.items() if name not in (*NOT_OF_GRAPHS, *own)}
