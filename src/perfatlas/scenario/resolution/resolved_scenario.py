"""Resolution of columns to candidates: defaults of plans, loads and limits; systems.

Shape legend: N rows, C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.answer import require_tier
from perfatlas.energy import ZEROS
from perfatlas.hardware import System, resolve_system
from perfatlas.kernels.devices import device_peak
from perfatlas.models import INDEX_FORMAT, Architecture, ModelFormats
from perfatlas.parallelism import PlanColumns, default_moe_split
from perfatlas.quantities import InvalidSpecError, PerfatlasError
from perfatlas.scenario.resolution.default_limits import NO_RECIPE, LimitedLoad, filled_limits
from perfatlas.scenario.resolution.default_plans import (
    across_domains,
    fitted_plans,
    has_free_plan,
    replaced_rows,
)
from perfatlas.scenario.resolution.field_columns import columns_of
from perfatlas.scenario.resolution.groups import SHARED_FIELDS, distinct_rows, formats_of_rows
from perfatlas.scenario.resolution.node_limits import (
    LIMITS_OF_POWER,
    NODE_LIMIT,
    gpu_limits_w,
    limit_at_bound_error,
    node_limit_error,
    unknown_power,
)
from perfatlas.scenario.resolution.refusals import Refusals
from perfatlas.scenario.resolution.resolved_names import (
    acceptance_of_drafts,
    launched_engine,
    model_in_engine,
)
from perfatlas.scenario.resolution.size_errors import product_message, sequences_message
from perfatlas.step import Candidates, EngineLimits, Load, Placement, take_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.scenario.fields import Scenario
    from perfatlas.scenario.resolution.field_columns import BoolArray, ScenarioColumns
    from perfatlas.scenario.resolution.refusals import Reason

LIMITS: Final = (
    "max_num_seqs",
    "max_num_batched_tokens",
    "block_size",
    "gpu_memory_utilization",
    "kv_blocks",
    "stream_interval",
    "server_processes",
)


@dataclass(frozen=True, kw_only=True)
class Workers:
    """The workers of one pool, for all rows.

    Args:
        columns: Fields (N,).
        plan: Parallel sizes; unset ones are derived from gpus.
        load: Sequences per replica and lengths.
        limits: Engine limits, NaN if unset.
        clock_ratio_N: Clock over the sustained clock (N,).
        power_cap_w_N: Power limit of a GPU (N,) [W], inf for none.
        zeros_N: Whether all tensors hold zeros (N,).
        aggregated_N: Whether batching is continuous (N,).
        rules: Rows with contradictory sizes (N,), and the error of a row.
        stage: Stage of its refusals.
    """

    columns: ScenarioColumns
    plan: PlanColumns
    load: Load
    limits: EngineLimits
    clock_ratio_N: FloatArray
    power_cap_w_N: FloatArray
    zeros_N: BoolArray
    aggregated_N: BoolArray
    rules: tuple[tuple[BoolArray, Reason], ...]
    stage: int


def workers_of(
    columns: ScenarioColumns, scenario: Callable[[int], Scenario], stage: int = 0
) -> Workers:
    """Return the workers of a pool with defaults filled in.

    Args:
        columns: Fields of all rows (N).
        scenario: Returns the scenario of a row.
        stage: Stage of its refusals.
    """
    plan = _plan_columns(columns)
    return Workers(
        columns=columns,
        plan=plan,
        load=_load(columns, plan.dp),
        limits=EngineLimits(**{name: columns.numbers(name) for name in LIMITS}),
        clock_ratio_N=columns.numbers("clock_ratio"),
        power_cap_w_N=columns.numbers("power_cap_w", np.inf),
        zeros_N=columns.equals("input_distribution", ZEROS),
        aggregated_N=columns.equals("mode", "aggregated"),
        rules=_size_rules(columns, plan, scenario),
        stage=stage,
    )


def _plan_columns(columns: ScenarioColumns) -> PlanColumns:
    """Return the plans; dp is derived from gpus and tp if divisible.

    If tp is not given, the plan is provisional, with tp = 1, until `fitted_plans` replaces it.
    """
    pp, cp, attention_dp = (columns.numbers(name) for name in ("pp", "cp", "attention_dp"))
    inner = pp * cp * attention_dp
    gpus, tp, dp = columns.numbers("gpus", 0.0), columns.numbers("tp"), columns.numbers("dp")
    tp = np.where(np.isnan(tp), 1.0, tp)
    dp = np.where(np.isnan(dp), _quotient(gpus, tp * inner), dp)
    given = columns.numbers("ep"), columns.numbers("moe_tp")
    ep, moe_tp = default_moe_split(tp, attention_dp, *given)
    return PlanColumns(tp=tp, pp=pp, cp=cp, attention_dp=attention_dp, ep=ep, moe_tp=moe_tp, dp=dp)


def _quotient(gpus_N: FloatArray, others_N: FloatArray) -> FloatArray:
    """Return gpus / others (N,); 1 if not divisible or unset."""
    divides_N = (gpus_N > 0.0) & (np.mod(gpus_N, others_N) == 0.0)
    quotient_N: FloatArray = np.where(divides_N, gpus_N / others_N, 1.0)
    return quotient_N


def _load(columns: ScenarioColumns, replicas_N: FloatArray) -> Load:
    """Sequences of one replica: `batch` is per replica, `concurrency` over the deployment."""
    batch, concurrency = columns.numbers("batch"), columns.numbers("concurrency")
    concurrency = np.where(np.isnan(concurrency), replicas_N, concurrency)
    sequences = np.where(np.isnan(batch), concurrency / replicas_N, batch)
    same_names = ("isl", "osl", "prefix", "osl_spread")
    return Load(
        occupancy=np.minimum(sequences, 1.0),
        sequences=np.maximum(sequences, 1.0),
        rounds=columns.numbers("requests_per_client"),
        **{name: columns.numbers(name) for name in same_names},
    )


def _size_rules(
    columns: ScenarioColumns, plan: PlanColumns, scenario: Callable[[int], Scenario]
) -> tuple[tuple[BoolArray, Reason], ...]:
    """Return plans that do not match gpus, and static batches above the engine's limit."""
    total_N = plan.tp * plan.pp * plan.cp * plan.attention_dp * plan.dp
    batch_N, concurrency_N = columns.numbers("batch"), columns.numbers("concurrency", 1.0)
    batch_N = np.where(np.isnan(batch_N), np.ceil(concurrency_N / plan.dp), batch_N)
    most_N, gpus_N = columns.numbers("max_num_seqs", np.inf), columns.numbers("gpus")
    remainder_N = np.where(has_free_plan(columns), np.mod(gpus_N, total_N), gpus_N - total_N)
    too_many_N = np.ceil(batch_N / plan.attention_dp) > most_N

    def false_product(row: int) -> InvalidSpecError:
        sizes = int(plan.tp[row]), int(plan.dp[row])
        return InvalidSpecError(product_message(scenario(row), *sizes))

    def too_many(row: int) -> InvalidSpecError:
        return InvalidSpecError(sequences_message(scenario(row), int(batch_N[row])))

    return (
        (columns.is_set("gpus") & (remainder_N != 0.0), false_product),
        (columns.equals("mode", "static") & too_many_N, too_many),
    )


def candidates_of(
    workers: Workers,
    rows_C: IntArray,
    formats: tuple[ModelFormats, tuple[str, ...]],
    refusals: Refusals,
    longest: int = 0,
) -> tuple[IntArray, Candidates] | None:
    """Return rows that share model, engine, formats and tier as candidates; others are refused.

    Args:
        workers: The workers.
        rows_C: The rows (C,).
        formats: Resolved number formats, and sentences on their origin.
        refusals: Receives the refused rows.
        longest: Longest prompt of the traffic, 0 for isl [tokens].

    Raises:
        PerfatlasError: The model or engine cannot be resolved.
    """
    fields = workers.columns.at(int(rows_C[0]), SHARED_FIELDS)
    profile = launched_engine(fields)
    if isinstance(profile, InvalidSpecError):
        refusals.refuse(rows_C, _always(profile), workers.stage)
        return None
    model = model_in_engine(fields["model"], profile)
    version = fields["silicon_version"]

    def usable(name: str) -> System:
        system = resolve_system(name)
        require_tier(system, fields["tier"], profile.kernel_family, version)
        for format_name in _needed_formats(formats[0], model.architecture):
            device_peak(system.device, format_name)
        return system

    _refuse_limits(workers, rows_C, fields["tier"], refusals)
    systems = _systems(workers, rows_C, usable, refusals)
    _refuse_node_limits(workers, rows_C, systems, refusals)
    for broken_N, reason in workers.rules:
        refusals.refuse(rows_C[broken_N[rows_C]], reason, workers.stage)
    rows_C = rows_C[refusals.kept(rows_C, workers.stage)]
    if not rows_C.size:
        return None
    shared = Candidates(
        model=model,
        profile=profile,
        formats=formats[0],
        tier=fields["tier"],
        silicon_version=version or "",
        expert_distribution=fields["expert_distribution"],
        drafts=fields["speculative_depth"],
        draft_acceptance=acceptance_of_drafts(fields),
        assumptions=formats[1],
        placement=_placement(workers, rows_C, systems),
        plan=PlanColumns(**take_columns(workers.plan, rows_C)),
        load=Load(**take_columns(workers.load, rows_C)),
        limits=EngineLimits(**take_columns(workers.limits, rows_C)),
        derived_plan_C=has_free_plan(workers.columns)[rows_C],
        recipe_C=np.full(rows_C.shape, NO_RECIPE),
        aggregated_C=workers.aggregated_N[rows_C],
    )
    found = _completed(workers.columns.take(rows_C), shared, longest)
    return _inside_domains(workers, rows_C, found, refusals)


def _inside_domains(
    workers: Workers, rows_C: IntArray, found: Candidates, refusals: Refusals
) -> tuple[IntArray, Candidates] | None:
    """Refuse rows whose gpus and dp leave no plan inside scale-up domains."""
    wide_C = across_domains(workers.columns.take(rows_C), found.plan, found.placement)
    if not np.any(wide_C):
        return rows_C, found
    tp_of = dict(zip(rows_C.tolist(), found.plan.tp.tolist(), strict=True))

    def too_wide(row: int) -> InvalidSpecError:
        plan = workers.plan
        return InvalidSpecError(
            f"gpus = {workers.columns.numbers('gpus')[row]:g} with pp = {plan.pp[row]:g}, cp ="
            f" {plan.cp[row]:g}, attention_dp = {plan.attention_dp[row]:g} and dp ="
            f" {plan.dp[row]:g} leaves only tp = {tp_of[row]:g}, across scale-up domains; set"
            f" tp = {tp_of[row]:g} to ask for it, or leave dp out"
        )

    refusals.refuse(rows_C[wide_C], too_wide, workers.stage)
    kept = np.flatnonzero(~wide_C)
    return (rows_C[kept], found.take(kept.tolist())) if kept.size else None


def _refuse_limits(workers: Workers, rows_C: IntArray, tier: str, refusals: Refusals) -> None:
    """Refuse power limits in tier bound."""
    for name in LIMITS_OF_POWER if tier == "bound" else ():
        limit_w_N = workers.columns.numbers(name, np.inf)
        limited_C = rows_C[np.isfinite(limit_w_N[rows_C])]
        refusals.refuse(limited_C, partial(limit_at_bound_error, name, limit_w_N), workers.stage)


def _refuse_node_limits(
    workers: Workers, rows_C: IntArray, systems: Mapping[str, System], refusals: Refusals
) -> None:
    """Refuse power limits of unknown effect, and of nodes that leave nothing to their GPUs."""
    column = workers.columns["system"]
    gpu_w_C = gpu_limits_w(workers.columns, rows_C, systems)
    limited_C = np.isfinite(workers.power_cap_w_N[rows_C]) | np.isfinite(gpu_w_C)
    for code in dict.fromkeys(column.codes_N[rows_C[limited_C]].tolist()):
        if (system := systems.get(column.values[code])) and (unknown := unknown_power(system)):
            of_system_C = limited_C & (column.codes_N[rows_C] == code)
            refusals.refuse(rows_C[of_system_C], _always(unknown), workers.stage)
    limit_w_N = workers.columns.numbers(NODE_LIMIT, np.inf)
    for c in np.flatnonzero(~(gpu_w_C > 0.0)):
        row, gpu_w = int(rows_C[c]), float(gpu_w_C[c])
        system = systems[column.values[int(column.codes_N[row])]]
        error = node_limit_error(float(limit_w_N[row]), system, gpu_w)
        refusals.refuse(rows_C[c : c + 1], _always(error), workers.stage)


def _placement(workers: Workers, rows_C: IntArray, systems: Mapping[str, System]) -> Placement:
    """Return the systems, clocks and power limits of rows (C,)."""
    column, clock_C = workers.columns["system"], workers.clock_ratio_N[rows_C]
    own_w_C = workers.power_cap_w_N[rows_C]
    node_w_C = gpu_limits_w(workers.columns, rows_C, systems)
    limit_w_C, zeros_C = np.minimum(own_w_C, node_w_C), workers.zeros_N[rows_C]
    used = distinct_rows([column.value_codes[rows_C]])
    names = [column.values[code] for code in column.codes_N[rows_C[used.first_U]].tolist()]
    return Placement(
        systems=tuple(systems[name] for name in names),
        index_C=used.codes_N,
        clock_ratio_C=None if np.all(clock_C == 1.0) else clock_C,
        power_cap_w_C=None if np.all(np.isinf(limit_w_C)) else limit_w_C,
        by_node_C=None if np.all(np.isinf(node_w_C)) else node_w_C < own_w_C,
        zeros_C=zeros_C if zeros_C.any() else None,
    )


def _completed(columns: ScenarioColumns, given: Candidates, longest: int) -> Candidates:
    """Return the candidates with plans that fit, where only gpus are given, and all limits.

    Args:
        columns: Their fields (C).
        given: Candidates with provisional plans, and limits that are NaN where not given (C).
        longest: Longest prompt of the traffic, 0 for isl [tokens].
    """
    places = np.flatnonzero(given.derived_plan_C)
    if not places.size:
        return _limited(columns, given, longest)
    free, start = columns.take(places), given.take(places.tolist())

    def with_plan(plan: PlanColumns) -> Candidates:
        moved = replace(start, plan=plan, load=_load(free, plan.dp))
        return _limited(free, moved, longest)

    plan = replaced_rows(given.plan, places, fitted_plans(free, start.plan, with_plan))
    load = _load(columns, plan.dp)
    return _limited(columns, replace(given, plan=plan, load=load), longest)


def _limited(columns: ScenarioColumns, given: Candidates, longest: int) -> Candidates:
    """Return the candidates with the limits that are not given filled in."""
    known_C = columns.is_set("batch") | columns.is_set("concurrency")
    load = LimitedLoad(
        isl=np.maximum(given.load.isl, float(longest)),
        requests=np.where(known_C | ~given.aggregated_C, np.ceil(given.load.sequences), np.inf),
        attention_dp=given.plan.attention_dp,
        gpus=given.plan.gpus_per_replica,
    )
    model = given.model.base
    limits, recipe_C = filled_limits(given.limits, model, given.profile, given.placement, load)
    return replace(given, limits=limits, recipe_C=recipe_C)


def _systems(
    workers: Workers, rows_C: IntArray, usable: Callable[[str], System], refusals: Refusals
) -> dict[str, System]:
    """Return the distinct systems of rows by name, and refuse rows with invalid ones."""
    column = workers.columns["system"]
    distinct = distinct_rows([column.value_codes[rows_C]])
    systems = {}
    for code, place in enumerate(distinct.first_U.tolist()):
        name = column.values[column.codes_N[rows_C[place]]]
        try:
            systems[name] = usable(name)
        except PerfatlasError as error:
            refused_C = rows_C[distinct.codes_N == code]
            refusals.refuse(refused_C, _always(error), workers.stage)
    return systems


def _always(error: PerfatlasError) -> Callable[[int], PerfatlasError]:
    return lambda _: error


def _needed_formats(formats: ModelFormats, architecture: Architecture) -> set[str]:
    needed = {formats.gemm, formats.attention, formats.head}
    if architecture.has_experts:
        needed.add(formats.moe)
    if any(getattr(group.mixer, "indexer", None) for group in architecture.layers):
        needed.add(INDEX_FORMAT)
    return needed


def resolve_scenarios(
    scenarios: Sequence[Scenario], longest: int = 0
) -> tuple[Candidates | None, list[PerfatlasError | None]]:
    """Return scenarios that share model, engine, formats and tier as candidates, and their errors.

    Args:
        scenarios: Scenarios of one group (N).
        longest: Longest prompt of the traffic, on which default limits depend; 0 for isl.

    Returns:
        Candidates of the scenarios without errors (None if there are none), and N entries.

    Raises:
        PerfatlasError: The shared model, engine or format cannot be resolved.
    """
    columns, refusals = columns_of(scenarios), Refusals(len(scenarios))
    formats = formats_of_rows(columns)
    found, assumptions = formats.at(0)
    if isinstance(found, PerfatlasError):
        raise found
    workers = workers_of(columns, lambda row: scenarios[row])
    rows = np.arange(len(scenarios))
    answered = candidates_of(workers, rows, (found, assumptions), refusals, longest)
    errors: list[PerfatlasError | None] = [None] * len(scenarios)
    for row in refusals.rows():
        errors[row] = refusals.error(row)
    return None if answered is None else answered[1], errors
