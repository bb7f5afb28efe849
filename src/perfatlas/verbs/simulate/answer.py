"""`simulate`: traffic on a deployment, from step prices to request latencies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.answer import (
    Answer,
    AnsweredRun,
    averaged,
    engine_assumptions,
    half_widths,
    merged_evidence,
    plan_note,
    step_bounds,
    step_evidence,
)
from perfatlas.declarations import signature_of, verb_fields
from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.sampling import normal_quantile
from perfatlas.scenario import deployments, resolution
from perfatlas.scenario.fields import NOT_OF_GRAPHS, Traffic, left_out_notes, plain_values
from perfatlas.serving.config import Control, Outage
from perfatlas.serving.outcome import (
    ClientDelays,
    Outcome,
    binned_power,
    binned_series,
    power_column,
    release_columns,
    request_columns,
    series_columns,
    summarize,
)
from perfatlas.serving.requests import TICKS_PER_SECOND, Requests
from perfatlas.studies.traffic import (
    arrival_spread,
    draws_traffic,
    gaps_between,
    length_note,
    load_results,
    sized_run,
    slow_load,
    stable_probability,
    steady_rates,
    steady_warnings,
    widened,
    window_results,
    without_steady_mean,
    without_upper_limit,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.answer import Evidence
    from perfatlas.scenario.fields import Scenario
    from perfatlas.serving.run import ArrivingRequest, ReplicaLoads
    from perfatlas.studies.traffic import Spread, TrafficRun

    OnProgress = Callable[[float], bool]

WITHIN_SLOS: Final = 0.9  # share of requests within SLOs whose probability is given
BISECTIONS: Final = 4  # of it, to 1.4%


def generated_lengths(traffic: Traffic, scenario: Scenario) -> dict[str, int]:
    """Return the lengths and images of generated requests, if set by isl and osl."""
    drawn = traffic.requests is None and traffic.lengths_from is None
    lengths = {"isl": scenario.isl, "osl": scenario.osl, **resolution.image_fields(scenario.values)}
    return lengths if drawn else {}


def resolved_fields(
    ready: deployments.Service, traffic: Traffic, scenario: Scenario
) -> dict[str, Any]:
    """Return the resolved fields of an answer: common limits, engine, plans and seed."""
    limits = [
        {
            "max_num_seqs": int(pool.question.limits.max_num_seqs[0]),
            "max_num_batched_tokens": pool.limits.max_num_batched_tokens,
        }
        for pool in ready.pools
    ]
    settings = (
        deployments.common_entries(limits) if ready.heterogeneous or limits[0] == limits[-1] else {}
    )
    settings |= deployments.common_entries(
        [{"engine": pool.question.profile.id} for pool in ready.pools]
    )
    settings["mode"] = scenario.mode
    if deployments.draws(traffic, scenario):
        settings["seed"] = traffic.seed
    if ready.heterogeneous:
        return settings | {"replica_kinds": deployments.resolved_kinds(ready)}
    for role, pool in ready.named.items():
        plan = pool.plan
        settings |= resolution.pool_plan(role, plan) | {f"{role}_workers": plan["dp"]}
        settings |= {name: plan[name] for name in plan if name.startswith("feed_forward")}
    if not ready.named:
        plan = ready.entry.plan
        if traffic.max_replicas and scenario.dp is None:
            del plan["dp"]  # with an autoscaler, the initial number
        settings |= plan
    return settings


SERIES_ROWS: Final = 2000  # rows of the sampled time series
SERIES_BINS: Final = 200  # bins of the time series in answers


@dataclass(frozen=True, kw_only=True)
class Simulation(AnsweredRun):
    """A simulation: its answer, requests and results."""

    requests: Requests  # The requests, of the first seed if there are several
    outcome: Outcome
    seen: ClientDelays  # Delays between engine and client
    kv_blocks: int  # KV cache blocks of all schedulers
    kinds: tuple[int, ...] = ()  # Number of replicas of each type, if there are several
    seed: int | None = None  # The first seed, if there are several; otherwise None
    has_energy: bool = False  # Whether the devices have energies
    outages: tuple[Outage, ...] = ()  # Configured outages of replicas

    def _beside(self) -> dict[str, Any]:
        from perfatlas.verbs.simulate.blocks import SimulatedRun

        seen = SimulatedRun(self.per_request(), self.series(), self.out_of_service(), self.seed)
        return {"run": seen}

    def series(self) -> dict[str, list[float]]:
        """Return the state over time: requests, KV cache usage, power from each row on."""
        columns = series_columns(self.outcome.series, self.kv_blocks)
        power = {"deployment_power_w": power_column(self.outcome.energy)}
        return columns | (power if self.has_energy else {})

    def out_of_service(self) -> list[dict[str, Any]]:
        """Return the outages of replicas: replica, from_s, to_s (None if permanent) and kind."""
        return [
            {
                "replica": outage.replica,
                "from_s": outage.start / TICKS_PER_SECOND,
                "to_s": None if outage.end < 0 else outage.end / TICKS_PER_SECOND,
                "kind": "drain" if outage.drain else "crash",
            }
            for outage in self.outages
        ]

    def per_request(self) -> dict[str, list[Any]]:
        """Return per-request results as columns of a table; times [s].

        With several seeds, they are those of the first one, given in the column `seed`.
        """
        columns = request_columns(self.requests, self.outcome, self.seen)
        if self.seed is not None:
            columns = {"seed": [self.seed] * len(columns["request"]), **columns}
        if self.kinds:
            columns["kind"] = deployments.kind_column(self.kinds, columns["replica"])
        return columns


@signature_of("simulate")
def simulate(
    *,
    progress: Callable[[float], bool] | None = None,
    router: Callable[[ArrivingRequest, ReplicaLoads], int] | None = None,
    **fields: Any,  # noqa: ANN401 - checked by schema
) -> Simulation:
    """Simulate traffic on an inference deployment and return the results.

    Args:
        router: Called for each arriving request instead of `routing`, with the request and the
            loads of all replicas (`ArrivingRequest` and `ReplicaLoads` of perfatlas.serving.run);
            returns the index of a replica in service, or -1 to reject the request. Prefill workers
            are those that are chosen among two pools. A router that remembers requests is an object
            with `__call__`, of which each run (one per seed and per end of the interval) gets a
            copy; what a function keeps elsewhere is shared by all runs. A call costs some 20 us.
        progress: Called regularly with the fraction of the work done; returns True to stop the
            simulation and keep the results so far.
        **fields: Names of the vocabulary: model, system, engine, the plan, formats, engine limits;
            mode disaggregated with prefill_* and decode_* for two pools, or replica_kinds for
            heterogeneous replicas; and the traffic: requests, request_rate or concurrency, arrival,
            isl, osl, seed, slo_*.

    Raises:
        InvalidSpecError: A name, value or request is invalid.
        InfeasibleError: The model and one request do not fit.
        UnsupportedError: There is no model, data or scheduler for the combination.

    Example:
        >>> from perfatlas.verbs.simulate import simulate
        >>> found = simulate(model="meta-llama/Llama-3.1-8B", system="h200_sxm", request_rate=8,
        ...     num_requests=100)
        >>> found.answer.results["requests_completed"]
        100
    """
    inputs, scenario = resolution.split_fields(fields)
    deployments.refuse_unused_options(inputs, scenario)
    if router is not None and not callable(router):
        raise InvalidSpecError(
            f"router = {repr_for_error(router)}: expected a function of a request and the loads of"
            " the replicas"
        )
    if router is not None and fields.get("routing"):
        raise InvalidSpecError(
            f"routing = {fields['routing']} has no effect beside a router; remove one of the two"
        )
    inputs.router = router
    known: deployments.Priced = {}
    run = sized_run(inputs, scenario, known, _part(progress, 0, 1 + inputs.num_seeds))
    return simulation_of(run, scenario, fields, known, progress)


def simulate_row(**fields: object) -> Answer:
    """Return the answer of a row of `simulate`.

    Args:
        **fields: Its fields, without empty cells.

    Raises:
        PerfatlasError: The row cannot be answered.
    """
    return simulated_row(simulate, fields)


def simulated_row(function: Callable[..., Simulation], fields: Mapping[str, Any]) -> Answer:
    """Return the answer of a row, with its tier and what binds its steps.

    Args:
        function: `simulate`, or a search for a rate or a number of replicas.
        fields: Its fields, without empty cells.

    Raises:
        PerfatlasError: The row cannot be answered.
    """
    answer = function(**fields).answer
    told = {"tier": answer.evidence.tier, **step_bounds(answer.breakdown)}
    return replace(answer, results={**answer.results, **told})


def simulation_of(
    run: TrafficRun,
    scenario: Scenario,
    fields: Mapping[str, Any],
    known: deployments.Priced,
    progress: OnProgress | None = None,
) -> Simulation:
    """Return the simulation of a run whose length is known.

    Args:
        fields: The fields, as for `simulate`.
        progress: As for `simulate`.
    """
    traffic = run.traffic
    slow = slow_load(run, scenario, known)
    drawn = draws_traffic(traffic, scenario)
    repeated: list[_Repetition] = []
    interrupted = False
    for seed in range(traffic.seed, traffic.seed + traffic.num_seeds):
        again = traffic.changed(seed=seed)
        resolved_again = deployments.resolve_traffic(again, scenario) if repeated else run.resolved
        watch = _part(progress, 1 + seed - traffic.seed, 1 + traffic.num_seeds)
        repetition = _repetition(
            run._replace(resolved=resolved_again, traffic=again), watch, drawn=drawn
        )
        interrupted = repetition.results["interrupted"]
        if not (interrupted and repeated):  # an incomplete run counts only if there is no other
            repeated.append(repetition)
        if interrupted:
            break
    results = averaged([repetition.results for repetition in repeated]) | {
        "interrupted": interrupted
    }
    if traffic.num_seeds > 1:
        results["seeds_simulated"] = len(repeated)
    if len(repeated) > 1:
        results |= half_widths(
            [repetition.results for repetition in repeated]
        ) | deployments.mean_power(results)
    warnings = steady_warnings(run, slow)
    if run.window is not None:
        results = steady_rates(results, run.load, slow)
        results = without_upper_limit(without_steady_mean(results, run.load), slow)
        results |= stable_probability(run.load, slow)
    if traffic.objectives() and not interrupted:
        results |= _attainment_probability(run, results)
    results = widened(results, repeated[0].spread)
    spent = [run for repetition in repeated for run in repetition.spent]
    repetition = repeated[0]._replace(results=results, spent=spent)
    resolved = run.resolved._replace(
        assumptions=(*run.resolved.assumptions, *length_note(run, results)),
        warnings=(*warnings, *run.resolved.warnings),
    )
    return _simulation(run.ready, resolved, repetition, (traffic, scenario, fields))


def simulated(
    ready: deployments.Service,
    resolved: deployments.ResolvedTraffic,
    outcome: Outcome,
    fields: Mapping[str, Any],
) -> Simulation:
    """Return the simulation for a finished run, without an interval.

    Args:
        fields: The fields, as for `simulate`.
    """
    traffic, scenario = resolution.split_fields(fields)
    found = summarize(
        resolved.requests,
        outcome,
        traffic.objectives(),
        ready.seen,
        partial_N=resolved.partial_N,
    )
    results = deployments.traffic_results(ready, resolved, outcome, found)
    results |= deployments.run_energy(ready, outcome, results["makespan_s"])
    repetition = _Repetition(
        results, outcome, [deployments.spent_energy(ready, resolved.requests, outcome)], {}
    )
    return _simulation(ready, resolved, repetition, (traffic, scenario, fields))


class _Repetition(NamedTuple):
    results: dict[str, Any]
    outcome: Outcome
    spent: list[deployments.Spent]
    spread: Spread


def _simulation(
    ready: deployments.Service,
    resolved: deployments.ResolvedTraffic,
    repetition: _Repetition,
    inputs: tuple[Traffic, Scenario, Mapping[str, Any]],
) -> Simulation:
    traffic, scenario, _ = inputs
    seeds = repetition.results.get("seeds_simulated", 1)
    energies = deployments.energy_results(ready, repetition.spent, repetition.results)
    prices = deployments.run_prices(ready, energies)
    assumed, sources, stale = deployments.cost_notes(prices)
    own = (*deployments.seeds_note(traffic, seeds), *traffic.assumptions(), *assumed)
    notes = (*resolved.assumptions, *own)
    remarks = (
        *resolved.warnings,
        *deployments.no_effect_remarks(traffic, scenario, resolved, ready),
        *deployments.unknown_power(ready),
        *deployments.meters_without_power(ready, energies),
        *left_out_notes((scenario.system,)),
        *stale,
    )
    resolved = resolved._replace(assumptions=notes, warnings=remarks)
    series: dict[str, Any] = {"seed": traffic.seed}
    series |= binned_series(repetition.outcome.series, ready.kv_blocks, SERIES_BINS)
    if deployments.known_energy(ready):
        series |= binned_power(repetition.outcome.series, repetition.outcome.energy, SERIES_BINS)
    costs = deployments.cost_results(ready, repetition.spent, repetition.results, prices)
    results = repetition.results | energies | costs | {"series": series}
    if (images := ready.entry.question.model.network.images) is not None:
        results["image_tokens"] = images.prompt_tokens
    repetition = repetition._replace(
        results=deployments.item_results(results, ready.item) if ready.item else results
    )
    answer = _answer(ready, resolved, repetition, inputs)
    evidence = replace(answer.evidence, sources=(*answer.evidence.sources, *sources))
    return Simulation(
        answer=replace(answer, evidence=evidence),
        requests=resolved.requests,
        outcome=repetition.outcome,
        seen=ready.seen,
        kv_blocks=ready.kv_blocks,
        kinds=tuple(pool.replicas.number for pool in ready.pools) if ready.heterogeneous else (),
        seed=traffic.seed if traffic.num_seeds > 1 else None,
        has_energy=deployments.known_energy(ready),
        outages=ready.entry.replicas.availability.outages,
    )


def _repetition(run: TrafficRun, watch: OnProgress | None, *, drawn: bool) -> _Repetition:
    """Return the results of one seed, at the prices and at both ends of their interval.

    The interval of drawn traffic also holds other draws.
    """
    ready, resolved, traffic = (
        deployments.reseeded(run.ready, run.traffic.seed),
        run.resolved,
        run.traffic,
    )
    ends = deployments.price_ends(ready)
    runs = 1 + len(ends)
    between = gaps_between(run)
    control = Control(
        watch=_part(watch, 0, runs),
        keeps_partial=True,
        series_rows=SERIES_ROWS,
        gaps_between=between,
    )
    outcome = deployments.run_traffic(ready, resolved, control)
    stopped = watch is not None and watch(1 / runs)
    measured: dict[str, Any] = {"window": run.window, "partial_N": resolved.partial_N}
    found = summarize(resolved.requests, outcome, traffic.objectives(), ready.seen, **measured)
    results = deployments.traffic_results(ready, resolved, outcome, found) | load_results(run)
    results |= window_results(run, outcome) | deployments.run_energy(
        ready, outcome, results["makespan_s"]
    )
    spread = arrival_spread(run, outcome) if drawn else {}
    release_columns(resolved.requests, outcome)
    spent = [deployments.spent_energy(ready, resolved.requests, outcome)]
    interval: dict[str, Any] = {}
    for number, (end, factors) in enumerate(ends.items(), start=1):
        if outcome.interrupted or stopped:
            return _Repetition(results | {"interrupted": True}, outcome, spent, spread)
        control = control._replace(watch=_part(watch, number, runs), series_rows=0)
        slower = deployments.slowed(ready, factors)
        moved = deployments.run_traffic(slower, resolved, control)
        if moved.interrupted:
            return _Repetition(results | {"interrupted": True}, outcome, spent, spread)
        found = summarize(resolved.requests, moved, traffic.objectives(), slower.seen, **measured)
        del moved  # its columns, some hundred bytes per request, before the next run has its own
        interval |= deployments.end_of_interval(found, end)
        stopped = watch is not None and watch((number + 1) / runs)
    return _Repetition(
        deployments.containing_predictions(results | interval), outcome, spent, spread
    )


def _attainment_probability(run: TrafficRun, results: Mapping[str, Any]) -> dict[str, float]:
    """Return the probability that `WITHIN_SLOS` of the requests meet the SLOs, where ends differ.

    It is found by bisection with the same requests: steps are slower or faster by the factors of an
    end of their interval to the power of the normal quantile over that of the end.
    """
    ends = deployments.price_ends(run.ready)
    slow, fast = (results.get(f"slo_attainment_{end}") for end in ("low", "high"))
    if "high" not in ends or slow is None or fast is None or not slow < WITHIN_SLOS <= fast:
        return {}
    holds = results["slo_attainment"] >= WITHIN_SLOS
    least, most = (0.5, 0.95) if holds else (0.05, 0.5)
    ready = deployments.reseeded(run.ready, run.traffic.seed)
    for _ in range(BISECTIONS):
        middle = (least + most) / 2
        power = abs(normal_quantile(middle)) / normal_quantile(0.95)
        moved = deployments.slowed(
            ready, [one.to_power(power) for one in ends["high" if holds else "low"]]
        )
        outcome = deployments.run_traffic(
            moved, run.resolved, Control(gaps_between=gaps_between(run))
        )
        asked = run.traffic.objectives()
        found = summarize(run.resolved.requests, outcome, asked, moved.seen, run.window)
        met = found["slo_attainment"] >= WITHIN_SLOS
        least, most = (middle, most) if met else (least, middle)
    return {"attainment_probability": (least + most) / 2}


def _part(watch: OnProgress | None, number: int, parts: int) -> OnProgress | None:
    """Return a progress callback for one of several equal parts of the work."""
    if watch is None:
        return None
    return lambda share: watch((number + share) / parts)


def _answer(
    ready: deployments.Service,
    resolved: deployments.ResolvedTraffic,
    repetition: _Repetition,
    inputs: tuple[Traffic, Scenario, Mapping[str, Any]],
) -> Answer:
    traffic, scenario, fields = inputs
    rows, shown, raised = deployments.typical_step_rows(
        ready, resolved.requests, repetition.outcome
    )
    standing = [
        *ready.descriptions(),
        *resolved.assumptions,
        *shown,
        deployments.client_note(ready),
    ]
    if not ready.heterogeneous:
        standing += engine_assumptions(ready.decoding.question)
        standing += deployments.reserved_blocks_note(ready.decoding.question)
    standing += deployments.interval_note(ready, drawn=draws_traffic(traffic, scenario))
    given = plain_values(verb_fields("simulate"), fields)
    if "gpus" in given and not {"tp", "dp"} & given.keys() and not ready.named:
        standing.append(plan_note(ready.entry.question))
    formatted = resolution.with_formats(given, *(pool.question for pool in ready.pools))
    resolved_scenario = generated_lengths(traffic, scenario) | formatted
    resolved_scenario |= resolved_fields(ready, traffic, scenario)
    for name in NOT_OF_GRAPHS if ready.item else ():
        resolved_scenario.pop(name, None)
    return Answer(
        command="simulate",
        scenario=resolved_scenario,
        results=repetition.results,
        breakdown=rows,
        evidence=_evidence(ready, standing),
        warnings=(
            *resolved.warnings,
            *deployments.traffic_warnings(ready, resolved, repetition.outcome, repetition.results),
            *raised,
        ),
    )


def _evidence(ready: deployments.Service, standing: Sequence[str]) -> Evidence:
    """Return the evidence of the steps of all pools."""
    if ready.heterogeneous:
        return deployments.kinds_evidence(ready, standing)
    return reduce(
        merged_evidence,
        (
            step_evidence(each.question, each.table, standing)
            for pool in ready.pools
            for each in pool.machines
        ),
    )
