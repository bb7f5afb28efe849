"""All candidates of a search, each at its best load, as columns.

Shape legend: C candidates, P points.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.parallelism import PlanColumns
from perfatlas.quantization import ACCURACY
from perfatlas.studies.deployments.limits import best_loads, frontier_points, judge
from perfatlas.studies.deployments.points import AC_POWER, COSTS, ENDS, priced_points
from perfatlas.studies.deployments.space import chunk_sizes, families
from perfatlas.studies.ranking import joined, rank_order, ranking_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.studies.deployments.limits import Judged
    from perfatlas.studies.deployments.question import SearchInputs
    from perfatlas.studies.deployments.space import Family

    PricedSoFar = Callable[["Found", list["Columns"]], None]

Columns = dict[str, np.ndarray[Any, Any]]

PLAN: Final = tuple(f.name for f in fields(PlanColumns) if f.name != "dp")  # of a replica
LIMITS: Final = ("max_num_seqs", "max_num_batched_tokens")
WITH_INTERVAL: Final = (
    "ttft_s",
    "tpot_s",
    "request_latency_s",
    "output_tokens_per_s_per_gpu",
    "output_tokens_per_s_per_user",
    "energy_per_output_token_j",
    "usd_per_million_output_tokens",
)
METRICS: Final = tuple(f"{name}{end}" for name in WITH_INTERVAL for end in ("", "_low", "_high"))


def reported(inputs: SearchInputs) -> tuple[str, ...]:
    """Return the metrics of candidates, with accuracy where it is asked for."""
    return METRICS if inputs.accuracy_benchmark is None else (*METRICS, *ACCURACY)


NO_GAIN: Final = "objective"


@dataclass(kw_only=True)
class Found:
    """What a search found."""

    # Candidates by system, formats and draft tokens
    families: list[Family] = field(default_factory=list)
    # Each candidate at its best load, as columns (C,)
    candidates: Columns = field(default_factory=dict)
    # Points that no other exceeds in both rates, or in all objectives, as columns
    frontier: Columns = field(default_factory=dict)
    rejected: Counter[str] = field(default_factory=Counter)  # Refused combinations by rule
    # Why combinations of system, engine, settings and formats are not supported
    reasons: set[str] = field(default_factory=set)
    points: int = 0
    steps: int = 0  # Number of distinct steps among them that were priced
    cpu_s: float = 0.0  # CPU time [s]
    # Whether plans are points of the frontier, as with several objectives
    by_frontier: bool = False

    @property
    def leading(self) -> Columns:
        """The columns from which plans are chosen: candidates, or points of the frontier."""
        points = self.frontier and self.frontier["gpus"].size
        return self.frontier if self.by_frontier and points else self.candidates

    @property
    def size(self) -> int:
        """Number of candidates C."""
        return int(self.candidates["score"].size) if self.candidates else 0

    @property
    def has_scores(self) -> bool:
        """Whether the objective is known of a candidate."""
        return bool(np.any(~np.isnan(self.candidates["score"])))

    def keep(self, best: list[Columns], frontiers: list[Columns], inputs: SearchInputs) -> None:
        """Keep candidates, and those points of several frontiers that no other one exceeds.

        Args:
            best: Candidates at their best loads, in parts.
            frontiers: Points of frontiers, in parts.
        """
        self.candidates = joined(best)
        if front := joined(frontiers):
            indices = frontier_points(front, front["gpus"], front["slo_probability"], inputs)
            self.frontier = {name: values[indices] for name, values in front.items()}
        self.by_frontier = len(inputs.objectives) > 1


def find_deployments(inputs: SearchInputs, progress: PricedSoFar | None = None) -> Found:
    """Return all candidates of a search.

    Args:
        progress: Receives the best of the candidates so far, some at a time.

    Raises:
        PerfatlasError: The only system, format and number of draft tokens is not supported.
    """
    started = time.process_time()
    search = Found()
    best: list[Columns] = []
    frontiers: list[Columns] = []
    spaces = families(inputs, search.rejected, chunk_sizes(inputs), search.reasons)
    for number, family in enumerate(spaces):
        search.families.append(family)
        for points in priced_points(family, inputs, search.rejected):
            search.points += points.size
            search.steps += points.evaluated.priced
            judged = judge(points, inputs)
            chosen = best_loads(judged, inputs.min_slo_probability)
            best.append(_columns(judged, chosen, inputs, number))
            if progress is not None:
                progress(search, best)
            judged_by = judged.gpus, judged.probability, inputs
            front = frontier_points(points.results, *judged_by)
            frontiers.append(_columns(judged, front, inputs, number))
    search.keep(best, frontiers, inputs)
    search.cpu_s = time.process_time() - started
    return search


def _columns(judged: Judged, indices: IntArray, inputs: SearchInputs, family: int) -> Columns:
    """Return some points as columns of plans, loads, limits, metrics and what binds them."""
    points = judged.points
    plan, limits = points.question.plan, points.question.limits
    replicas = judged.replicas[indices]
    columns: Columns = {"family": np.full(indices.size, family), "gpus": judged.gpus[indices]}
    columns |= {name: getattr(plan, name)[indices] for name in PLAN}
    columns |= {"dp": replicas, "spare_replicas": judged.spares[indices]}
    columns["spares_fit"] = judged.spares_fit[indices]
    if inputs.availability is not None:
        columns["availability"] = judged.availability(indices, inputs)
        columns["node_gpus"] = judged.node_gpus[indices]
    columns |= {"sequences": points.sequences[indices]}
    columns["concurrency"] = np.rint(points.sequences[indices] * replicas)
    columns |= {name: getattr(limits, name)[indices] for name in LIMITS}
    columns |= {name: points.results[name][indices] for name in reported(inputs)}
    for name in COSTS:
        columns[name] *= 1.0 + judged.spares[indices] / replicas
    if inputs.mix.reuse is not None:
        columns["cached_tokens"] = points.question.load.prefix[indices]
        columns["cache_tokens"] = points.cache_tokens[indices]
    columns["tier"] = points.evaluated.tiers[indices]
    if inputs.max_deployment_power_w is not None:
        gpus = plan.gpus_per_replica[indices] * replicas
        columns["deployment_power_w"] = gpus * points.results[AC_POWER][indices]
    columns |= {f"met_{name}": each[indices] for name, each in judged.probabilities.items()}
    columns["slo_probability"] = judged.probability[indices]
    columns["excess"] = judged.excess[indices]
    columns["score"] = judged.score[indices]
    return columns | _binding(judged, indices, inputs)


def _binding(judged: Judged, indices: IntArray, inputs: SearchInputs) -> Columns:
    """Return what prevents the next load of each candidate, and what that load would have.

    It is the SLO that the next load meets with the least probability, if that is not sufficient;
    the end of the loads; or the objective, which the next load does not improve.
    """
    points = judged.points
    after = np.minimum(indices + 1, points.size - 1)
    exists = (indices + 1 < points.size) & (points.rows[after] == points.rows[indices])
    ends = ["memory" if text == "kv_cache" and inputs.of_items else text for text in ENDS]
    names = [*judged.probabilities, NO_GAIN, *ends]
    code = np.where(exists, names.index(NO_GAIN), len(names) - len(ENDS) + points.ends[indices])
    if judged.probabilities:
        each = np.stack([probability[after] for probability in judged.probabilities.values()])
        missed = exists & (judged.probability[after] < inputs.min_slo_probability)
        code = np.where(missed, each.argmin(axis=0), code)
    next_probability: FloatArray = np.where(exists, judged.probability[after], np.nan)
    replicas = (
        1.0 if inputs.mode == "static" else judged.replicas[indices]
    )  # batches are per replica
    next_load = np.where(exists, points.sequences[after] * replicas, np.nan)
    return {
        "binding_constraint": np.array(names, np.object_)[code],
        "next_probability": next_probability,
        "next_load": next_load,
    }


def ranked(search: Found, inputs: SearchInputs) -> IntArray:
    """Return the candidates, or the points of the frontier, best first (C,).

    Those that meet all limits come first, by the objective; of equal ones, those with fewer GPUs,
    then with the lower latency. The others follow, the nearest to the limits first.
    """
    columns = search.leading
    meets = columns["slo_probability"] >= inputs.min_slo_probability
    value = ranking_values(meets, columns["score"], columns["excess"])
    return rank_order(meets, value, columns["gpus"], columns["request_latency_s"])


def within_slos(search: Found, inputs: SearchInputs) -> int:
    """Return the number of candidates that meet all limits with the required probability."""
    if not search.size:
        return 0
    meets = search.candidates["slo_probability"] >= inputs.min_slo_probability
    return int(np.count_nonzero(meets))
