"""The best candidates, re-scored by the serving simulator."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files import shipped_table
from perfatlas.inference import energies_at
from perfatlas.parallelism import PlanColumns
from perfatlas.quantities import (
    InfeasibleError,
    InvalidSpecError,
    UnsupportedError,
    counted,
)
from perfatlas.quantization import ACCURACY
from perfatlas.scenario import deployments
from perfatlas.scenario.resolution import read_scenario
from perfatlas.serving.requests import caches_of
from perfatlas.studies.bisection import bisected
from perfatlas.studies.deployments import limits
from perfatlas.studies.deployments.find import PLAN, ranked, reported
from perfatlas.studies.deployments.groups import LATENCIES
from perfatlas.studies.deployments.points import LOADS, ac_powers, costs
from perfatlas.studies.deployments.rows import (
    HIT_RATE,
    POOL_PLAN,
    deficit,
    estimate_fields,
    plan_row,
)
from perfatlas.studies.deployments.space import REPLICA
from perfatlas.studies.ranking import first_distinct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.inference import TokenEnergy
    from perfatlas.operators import FloatArray
    from perfatlas.scenario.fields import Scenario
    from perfatlas.serving.requests import Caches
    from perfatlas.studies.deployments.find import Found
    from perfatlas.studies.deployments.question import SearchInputs

# requests of one simulation of a leader: 0.7 GB and half a minute of ten times as many
MAX_IN_FLIGHT: Final = 65_536


RANKING: Final = "data/plan_ranking.toml"


@dataclass(frozen=True, kw_only=True)
class Leader:
    """A candidate at a load, by closed forms or simulated."""

    index: int  # Position of the candidate
    row: dict[str, Any]  # Plan, load and metrics by name
    rank: int  # Rank by closed forms, from 1
    score: float  # The objective, larger is better
    probability: float  # Least probability that a limit is met
    excess: float  # Largest ratio of a prediction to its limit
    note: str = ""  # Why it is not simulated, "" if it is
    # Simulated metrics at the best load of the closed forms, empty if not simulated, and the
    # probability that each limit is met there
    at_first: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_lowered(self) -> bool:
        """Whether the simulation meets the limits only at a lower load than the closed forms."""
        if not self.at_first:
            return False
        now, first = (row["concurrency"] / row.get("dp", 1) for row in (self.row, self.at_first))
        return bool(now < first)

    def order(self, least: float) -> tuple[bool, float, float, float]:
        """Return the key by which leaders are ranked, best first.

        Args:
            least: Least probability with which limits must be met.
        """
        meets = self.probability >= least
        value = self.score if meets else -self.excess
        return (not meets, -value, self.row["gpus"], self.row["request_latency_s"])


def simplest_first(leaders: list[Leader], inputs: SearchInputs) -> tuple[list[Leader], int]:
    """Return leaders with the simplest of those that tie with the best first, and how many tie.

    Plans of one system and engine tie if they differ by less than predictions tell plans apart.
    """
    best = leaders[0]
    tied = 1
    while (
        tied < len(leaders)
        and len(inputs.objectives) == 1
        and all(best.row.get(name) == leaders[tied].row.get(name) for name in ("system", "engine"))
        and (deficit(best.score, leaders[tied].score, inputs) or 0.0) <= ranking_error()
    ):
        tied += 1

    def divided(leader: Leader) -> int:
        return sum(int(leader.row.get(name) or 1) > 1 for name in (*PLAN, *POOL_PLAN))

    return [*sorted(leaders[:tied], key=divided), *leaders[tied:]], tied


def ranking_error() -> float:
    """Return how much better a plan must be predicted to be told from another [relative]."""
    return float(shipped_table(RANKING)["regret_p90"])


def closed_form_leaders(search: Found, inputs: SearchInputs, most: int) -> list[Leader]:
    """Return the best candidates by closed forms, best first, each of another plan.

    Those whose spare replicas do not fit are left out: simulations do not add replicas.
    """
    columns = search.leading
    identity = POOL_PLAN if inputs.mode == "disaggregated" else (*PLAN, "dp")
    order = ranked(search, inputs)
    order = order[~np.isnan(columns["score"][order])]  # the objective is not known for each system
    if inputs.availability is not None:
        order = order[columns["spares_fit"][order]]
    positions = first_distinct(order, *(columns[name] for name in ("family", *identity)))[:most]
    return [
        Leader(
            index=index,
            row=plan_row(search, index, inputs),
            rank=rank,
            score=float(columns["score"][index]),
            probability=float(columns["slo_probability"][index]),
            excess=float(columns["excess"][index]),
        )
        for rank, index in enumerate(positions.tolist(), start=1)
    ]


def simulated_leaders(
    search: Found,
    leaders: list[Leader],
    inputs: SearchInputs,
    progress: Callable[[Leader, int, int], None] | None = None,
) -> list[Leader]:
    """Return leaders with simulated metrics, best first.

    A leader that misses a limit when simulated is simulated at lower loads, down to the highest one
    that meets all limits; one whose simulated rate is too low for the request rate gets more
    replicas. What the simulator does not support keeps its closed forms, with the reason.

    Args:
        leaders: The best by closed forms.
        progress: Receives each plan when it is simulated, its number and that of all.
    """
    prices: deployments.Priced = {}
    done = []
    for number, leader in enumerate(leaders, start=1):
        done.append(_simulated(search, leader, inputs, prices))
        if progress is not None:
            progress(done[-1], number, len(leaders))
    return sorted(done, key=lambda leader: leader.order(inputs.min_slo_probability))


def _simulated(
    search: Found, leader: Leader, inputs: SearchInputs, prices: deployments.Priced
) -> Leader:
    """Return a leader at its load, or else at the highest load that meets the limits, bisected."""
    try:
        best, met = _at(search, replace(leader, row=_at_load(leader, inputs)), inputs, prices)
        at_first = {
            **best.row,
            "formula_ttft_s": leader.row["ttft_s"],
            "probabilities": {name: float(each[0]) for name, each in met.probabilities.items()},
        }
        best = replace(_replicated(search, best, inputs, prices), at_first=at_first)
    except (UnsupportedError, InvalidSpecError, InfeasibleError) as error:
        return replace(leader, note=str(error.args[0]))
    rows = [] if best.probability >= inputs.min_slo_probability else _lower(leader, inputs)

    def meets(index: int) -> bool:
        nonlocal best
        try:
            tried, _ = _at(search, replace(best, row=rows[index]), inputs, prices)
            tried = _replicated(search, tried, inputs, prices)
        except (UnsupportedError, InvalidSpecError, InfeasibleError):
            return True  # fewer requests than the batches of a pool
        within = tried.probability >= inputs.min_slo_probability
        misses = best.probability < inputs.min_slo_probability
        if within or (misses and tried.excess < best.excess):
            best = tried
        return within

    bisected(
        meets,
        len(rows),
        -1,
        lambda high, low: (high + low + 1) // 2,
        lambda high, low: high - low <= 1,
    )
    return best


def _replicated(
    search: Found, tried: Leader, inputs: SearchInputs, prices: deployments.Priced
) -> Leader:
    """Return a simulated leader with as many replicas as the request rate needs."""
    more = _with_more_replicas(tried.row, inputs)
    return tried if more is None else _at(search, replace(tried, row=more), inputs, prices)[0]


def _at_load(leader: Leader, inputs: SearchInputs) -> dict[str, Any]:
    """Return the row of a leader at its load: for two pools, the requests that they hold."""
    if inputs.mode != "disaggregated":
        return leader.row
    concurrency = inputs.concurrency or _held_by_pools(leader.row, inputs)
    return {**leader.row, "concurrency": concurrency}


def _lower(leader: Leader, inputs: SearchInputs) -> list[dict[str, Any]]:
    """Return the row of a leader at lower loads, the highest first, none if the load is given."""
    if inputs.concurrency is not None:
        return []
    row = _at_load(leader, inputs)
    each = row.get("attention_dp", 1) * row.get("dp", 1)
    lower = {int(each * load) for load in LOADS if each * load < row["concurrency"]}
    return [{**row, "concurrency": load} for load in sorted(lower, reverse=True)]


def _held_by_pools(row: Mapping[str, Any], inputs: SearchInputs) -> int:
    """Return the requests in flight at the rate and latency of two pools, by Little's law."""
    requests_per_s = float(row[limits.PER_GPU] * row["gpus"]) / inputs.mix.mean_osl
    return max(round(requests_per_s * float(row["request_latency_s"])), 1)


def _with_more_replicas(row: dict[str, Any], inputs: SearchInputs) -> dict[str, Any] | None:
    """Return a simulated row with as many replicas as serve the request rate, None if it does.

    Closed forms counted the replicas; the simulated rate of a replica may be lower. None also where
    they do not fit, or their number is given.
    """
    if inputs.request_rate is None or inputs.max_gpus is None or inputs.availability is not None:
        return None
    if inputs.mode == "disaggregated":
        return None  # replicas
    dp, each = row["dp"], row["gpus"] // row["dp"]
    rates = {f"{limits.PER_GPU}{end}": _array(row[f"{limits.PER_GPU}{end}"]) for end in limits.ENDS}
    needed = int(limits.replicas_for_rate(rates, np.array([float(each)]), inputs)[0])
    if needed <= dp or needed * each > inputs.max_gpus or "dp" in inputs.pinned:
        return None
    load = row["concurrency"] // dp * needed
    return {**row, "dp": needed, "gpus": needed * each, "concurrency": load}


def _at(
    search: Found, leader: Leader, inputs: SearchInputs, prices: deployments.Priced
) -> tuple[Leader, limits.Met]:
    """Return a leader with the metrics of a simulation at the load of its row, and its limits."""
    fields = estimate_fields(search, leader.row, leader.index, inputs)
    if leader.row["concurrency"] > MAX_IN_FLIGHT:
        raise UnsupportedError(
            f"concurrency = {leader.row['concurrency']:,}: a search simulates at most"
            f" {MAX_IN_FLIGHT:,} requests in flight; search fewer GPUs"
        )
    scenario = read_scenario({**fields, "method": "simulate"})
    sample = inputs.mix.sample_of(_caches(search, leader, inputs) if scenario.prefix else None)
    steady = deployments.steady_state(scenario, prices, inputs.slo_percentile, sample)
    results = dict(steady.results)
    results |= energies_at(_energy(read_scenario(fields)), results, inputs.mix.mean_osl)
    arrays = {
        name: _array(results.get(name, leader.row.get(name) if name in ACCURACY else None))
        for name in reported(inputs)
    }
    replicas = leader.row.get("dp", 1)
    share = replicas / (replicas + leader.row.get("spare_replicas", 0))
    arrays |= {n: v / share for n, v in costs(inputs, arrays, _systems(leader.row)).items()}
    watts = {n: _array(results.get(n)) for n in (f"power_w{end}" for end in limits.ENDS)}
    arrays |= ac_powers(inputs, watts, _systems(leader.row)[0][0])
    gpus = np.array([float(leader.row["gpus"])])
    tails = steady.at_percentile
    limited = [tails]
    if any(getattr(inputs, name) is not None for name in LATENCIES) and inputs.request_rate is None:
        percentile = inputs.slo_percentile
        limited.append(deployments.latencies_from_start(scenario, prices, percentile, sample))
    met = min(
        (
            limits.met_limits(arrays | {n: _array(v) for n, v in row.items()}, gpus * share, inputs)
            for row in limited
        ),
        key=lambda met: float(met.least[0]),
    )
    metrics = {name: float(value[0]) for name, value in arrays.items()}
    values = {n: v if np.isfinite(v) else None for n, v in metrics.items() if n in leader.row}
    if tails:
        names = dict.fromkeys(LATENCIES.values())
        values |= {
            f"{limits.percentile_name(n)}{end}": tails[f"{n}{end}"]
            for n in names
            for end in limits.ENDS
        }
    if sample is not None and inputs.mix.reuse is not None:
        share = sample.cached_E.sum() / sample.isl_E.sum() if scenario.prefix else 0.0
        values[HIT_RATE] = float(share)
    probability = float(met.least[0])
    simulated = replace(
        leader,
        row={**leader.row, **values, "slo_probability": probability, "method": "simulate"},
        score=float(limits.score_of(arrays, gpus, inputs)[0]),
        probability=probability,
        excess=float(met.excess[0]),
    )
    return simulated, met


def _systems(row: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Return the system of each pool of a plan, and its share of the GPUs."""
    if "prefill_workers" not in row:
        return [(row["system"], 1.0)]
    sizes = (row.get(f"prefill_{name}", 1) for name in ("workers", *REPLICA))
    share = math.prod(sizes) / row["gpus"]
    return [(row["prefill_system"], share), (row["decode_system"], 1.0 - share)]


def _energy(scenario: Scenario) -> TokenEnergy:
    if scenario.mode == "disaggregated":
        return deployments.evaluate_pools(scenario).energy()
    return deployments.evaluate_one(scenario)[1].energy


def _caches(search: Found, leader: Leader, inputs: SearchInputs) -> Caches | None:
    """Return the prefix caches of a leader, None where prompts of a trace do not repeat."""
    if inputs.mix.reuse is None:
        return None
    if inputs.mode == "disaggregated":
        raise UnsupportedError("pools with the prefix caches of a trace are not simulated")
    sizes = {name: np.array([float(leader.row.get(name, 1))]) for name in (*PLAN, "dp")}
    tokens = search.leading["cache_tokens"][leader.index : leader.index + 1]
    return caches_of(PlanColumns(**sizes), tokens, inputs.routing)


def _array(value: float | None) -> FloatArray:
    return np.array([np.nan if value is None else value], np.float64)


def with_known_percentiles(
    leaders: list[Leader], inputs: SearchInputs
) -> tuple[list[Leader], list[str]]:
    """Return the leaders whose SLOs are tested at their percentile, and which ones are left out.

    Args:
        leaders: Leaders in the order of their simulated metrics.
    """
    if inputs.slo_percentile is None:
        return leaders, []
    simulated = [leader for leader in leaders if leader.row["method"] == "simulate"]
    if len(simulated) == len(leaders):
        return simulated, []
    count = counted(len(leaders) - len(simulated), "plan")
    text = f"{count} without simulation left out: closed forms have no p{inputs.slo_percentile:g}"
    return simulated, [text]


def without_exceeded(leaders: list[Leader], inputs: SearchInputs) -> tuple[list[Leader], list[str]]:
    """Return the leaders that no other one exceeds in every objective, and how many are left out.

    Args:
        leaders: Leaders in the order of their simulated metrics.
        inputs: The search, with several objectives.
    """
    names = {*inputs.objectives, "gpus", "slo_probability"}
    columns = {name: np.array([leader.row[name] for leader in leaders], float) for name in names}
    frontier = limits.frontier_points(columns, columns["gpus"], columns["slo_probability"], inputs)
    missed = np.flatnonzero(columns["slo_probability"] < inputs.min_slo_probability)
    positions = sorted({*frontier.tolist(), *missed.tolist()})
    if len(positions) == len(leaders):
        return leaders, []
    count = counted(len(leaders) - len(positions), "plan")
    text = f"{count} left out: another one exceeds it in every objective when simulated"
    return [leaders[position] for position in positions], [text]
