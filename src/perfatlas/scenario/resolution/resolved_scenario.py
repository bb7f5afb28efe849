"""Resolution of the workers of a pool to candidates: systems, plans that fit, limits.

Shape legend: N rows, C candidates.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from perfatlas.answer import require_engine, require_tier
from perfatlas.hardware import System, resolve_system
from perfatlas.machines import device_peak
from perfatlas.networks import INDEX_FORMAT, ModelFormats, Network
from perfatlas.parallelism import PlanColumns
from perfatlas.quantities import InvalidSpecError, PerfatlasError
from perfatlas.scenario.fields import (
    Refusals,
    always,
    columns_of,
    distinct_rows,
)
from perfatlas.scenario.resolution import default_limits, default_plans, resolved_names
from perfatlas.scenario.resolution.default_limits import NO_RECIPE, LimitedLoad, filled_limits
from perfatlas.scenario.resolution.deployment_rules import DEPLOYMENTS, SIZES, Deployed
from perfatlas.scenario.resolution.groups import SHARED_FIELDS, formats_of_rows
from perfatlas.scenario.resolution.pools import PARTS
from perfatlas.scenario.resolution.workers import load_of, workers_of
from perfatlas.step import (
    Candidates,
    EngineLimits,
    Load,
    Placement,
    rebalance_rates,
    take_columns,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.engines import EngineProfile
    from perfatlas.operators import IntArray
    from perfatlas.scenario.fields import Columns, Scenario
    from perfatlas.scenario.resolution.workers import Workers


def candidates_of(
    workers: Workers,
    rows_C: IntArray,
    formats: tuple[ModelFormats, tuple[str, ...]],
    refusals: Refusals,
    longest: int = 0,
) -> tuple[IntArray, Candidates] | None:
    """Return rows that share model, engine, formats and tier as candidates; others are refused.

    Args:
        longest: Longest prompt of the traffic, 0 for isl [tokens].
    """
    fields = workers.columns.at(int(rows_C[0]), SHARED_FIELDS)
    profile = resolved_names.launched_engine(fields)
    if isinstance(profile, InvalidSpecError):
        refusals.refuse(rows_C, always(profile), workers.stage)
        return None
    try:
        model = resolved_names.model_in_engine(fields, profile)
        distribution = resolved_names.placed_distribution(fields, model.network)
        if fields["eplb_step_interval"]:
            rebalance_rates(profile.name)
        if workers.part:
            parts = dict(zip(PARTS, model.network.split(), strict=True))
            model = replace(model, network=parts[workers.part])
        model = resolved_names.with_sizes_of_rows(model, workers.columns["model"], rows_C)
    except PerfatlasError as error:
        refusals.refuse(rows_C, always(error), workers.stage)
        return None

    deployed = Deployed(
        workers=workers, model=model, profile=profile, gemm=formats[0].gemm, fields=fields
    )
    refusals.refuse_by(DEPLOYMENTS, deployed, rows_C, workers.stage)
    needed = _needed_formats(formats[0], model.network)
    systems = _systems(workers, rows_C, (profile, fields, needed), refusals)
    _refuse_node_limits(workers, rows_C, systems, refusals)
    _refuse_offloads(workers, rows_C, systems, refusals)
    refusals.refuse_by(SIZES, deployed, rows_C, workers.stage)
    kept_X = np.flatnonzero(refusals.kept(rows_C, workers.stage))
    rows_C = rows_C[kept_X]
    if not rows_C.size:
        return None
    shared = Candidates(
        model=model.take(kept_X),
        profile=profile,
        formats=formats[0],
        tier=fields["tier"],
        silicon_version=fields["silicon_version"] or "",
        expert_distribution=distribution,
        rebalance_steps=fields["eplb_step_interval"] or 0,
        drafts=fields["speculative_depth"],
        draft_acceptance=resolved_names.acceptance_of_drafts(fields),
        assumptions=(*formats[1], *resolved_names.curve_notes(fields, model.network)),
        placement=_placement(workers, rows_C, systems),
        plan=PlanColumns(**take_columns(workers.plan, rows_C)),
        load=Load(**take_columns(workers.load, rows_C)),
        limits=EngineLimits(**take_columns(workers.limits, rows_C)),
        derived_plan_C=default_plans.has_free_plan(workers.columns)[rows_C],
        recipe_C=np.full(rows_C.shape, NO_RECIPE),
        aggregated_C=workers.aggregated_N[rows_C],
        pooled=workers.pooled,
    )
    return _inside_domains(workers, rows_C, shared, refusals, longest)


def _inside_domains(
    workers: Workers, rows_C: IntArray, shared: Candidates, refusals: Refusals, longest: int
) -> tuple[IntArray, Candidates] | None:
    """Complete the candidates; refuse rows whose gpus and dp leave no plan inside domains."""
    found = _completed(workers.columns.take(rows_C), shared, longest)
    wide_C = default_plans.across_domains(workers.columns.take(rows_C), found.plan, found.placement)
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


def _refuse_node_limits(
    workers: Workers, rows_C: IntArray, systems: Mapping[str, System], refusals: Refusals
) -> None:
    """Refuse power limits of unknown effect, and of nodes that leave nothing to their GPUs."""
    column = workers.columns["system"]
    gpu_w_C = default_limits.gpu_limits_w(workers.columns, rows_C, systems)
    limited_C = np.isfinite(workers.power_cap_w_N[rows_C]) | np.isfinite(gpu_w_C)
    for code in dict.fromkeys(column.codes_N[rows_C[limited_C]].tolist()):
        if (system := systems.get(column.values[code])) and (
            unknown := default_limits.unknown_power(system)
        ):
            of_system_C = limited_C & (column.codes_N[rows_C] == code)
            refusals.refuse(rows_C[of_system_C], always(unknown), workers.stage)
    limit_w_N = workers.columns.numbers(default_limits.NODE_LIMIT, np.inf)
    for c in np.flatnonzero(~(gpu_w_C > 0.0)):
        row, gpu_w = int(rows_C[c]), float(gpu_w_C[c])
        system = systems[column.values[int(column.codes_N[row])]]
        error = default_limits.node_limit_error(float(limit_w_N[row]), system, gpu_w)
        refusals.refuse(rows_C[c : c + 1], always(error), workers.stage)


def _refuse_offloads(
    workers: Workers, rows_C: IntArray, systems: Mapping[str, System], refusals: Refusals
) -> None:
    """Refuse to offload to a second memory of unknown size."""
    column = workers.columns["system"]
    codes_C, offloads_C = column.codes_N[rows_C], np.add(*workers.offload_N)[rows_C] > 0.0
    for code in dict.fromkeys(codes_C[offloads_C].tolist()):
        system = systems.get(column.values[code])
        if system is None or system.device.number("second_memory_bytes"):
            continue
        example = f"{system.device.name}{{device.second_memory.capacity=512GB}}"
        error = InvalidSpecError(
            f"weight_offload and kv_offload need the size of a second memory, which {system.name}"
            f" does not state: LPDDR, flash, or what a GPU may take of the memory of its host; set"
            f" system = {example}, whose bandwidth is that of the host link"
        )
        refusals.refuse(rows_C[offloads_C & (codes_C == code)], always(error), workers.stage)


def _placement(workers: Workers, rows_C: IntArray, systems: Mapping[str, System]) -> Placement:
    """Return the systems, clocks and power limits of rows (C,)."""
    column, clock_C = workers.columns["system"], workers.clock_ratio_N[rows_C]
    own_w_C = workers.power_cap_w_N[rows_C]
    node_w_C = default_limits.gpu_limits_w(workers.columns, rows_C, systems)
    limit_w_C, zeros_C = np.minimum(own_w_C, node_w_C), workers.zeros_N[rows_C]
    higher_w_C = np.maximum(own_w_C, node_w_C)
    weights_C, kv_C = (share_N[rows_C] for share_N in workers.offload_N)
    prefetch_C = workers.prefetch_N[rows_C]
    used = distinct_rows([column.value_codes[rows_C]])
    names = [column.values[code] for code in column.codes_N[rows_C[used.first_U]].tolist()]
    return Placement(
        systems=tuple(systems[name] for name in names),
        index_C=used.codes_N,
        clock_ratio_C=None if np.all(clock_C == 1.0) else clock_C,
        power_cap_w_C=None if np.all(np.isinf(limit_w_C)) else limit_w_C,
        by_node_C=None if np.all(np.isinf(node_w_C)) else node_w_C < own_w_C,
        higher_limit_w_C=None if np.all(np.isinf(higher_w_C)) else higher_w_C,
        zeros_C=zeros_C if zeros_C.any() else None,
        weight_offload_C=weights_C if weights_C.any() else None,
        kv_offload_C=kv_C if kv_C.any() else None,
        prefetch_C=prefetch_C if prefetch_C.any() else None,
    )


def _completed(columns: Columns, given: Candidates, longest: int) -> Candidates:
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
        moved = replace(start, plan=plan, load=load_of(free, plan.dp))
        return _limited(free, moved, longest)

    plan = default_plans.replaced_rows(
        given.plan, places, default_plans.fitted_plans(free, start.plan, with_plan)
    )
    load = load_of(columns, plan.dp)
    return _limited(columns, replace(given, plan=plan, load=load), longest)


def _limited(columns: Columns, given: Candidates, longest: int) -> Candidates:
    """Return the candidates with the limits that are not given filled in."""
    known_C = columns.is_set("batch") | columns.is_set("concurrency")
    if given.model.network.item:  # one pass holds the batch, of a queue the largest one
        batch_C = np.ceil(given.load.sequences / given.plan.attention_dp)
        batch_C = np.where(np.isnan(given.limits.max_num_seqs), batch_C, given.limits.max_num_seqs)
        given = replace(given, limits=replace(given.limits, max_num_batched_tokens=batch_C))
    load = LimitedLoad(
        isl=np.maximum(given.load.isl, float(longest)),
        requests=np.where(known_C | ~given.aggregated_C, np.ceil(given.load.sequences), np.inf),
        attention_dp=given.plan.attention_dp,
        dcp=given.plan.dcp,
        gpus=given.plan.gpus_per_replica,
        pooled=given.pooled,
    )
    model = given.model.base
    limits, recipe_C = filled_limits(given.limits, model, given.profile, given.placement, load)
    return replace(given, limits=limits, recipe_C=recipe_C)


def _systems(
    workers: Workers,
    rows_C: IntArray,
    needs: tuple[EngineProfile, Mapping[str, Any], set[str]],
    refusals: Refusals,
) -> dict[str, System]:
    """Return the distinct systems of rows by name, and refuse rows whose engine they do not run."""
    profile, fields, formats = needs
    column = workers.columns["system"]
    distinct = distinct_rows([column.value_codes[rows_C]])
    systems = {}
    for code, place in enumerate(distinct.first_U.tolist()):
        name = column.values[column.codes_N[rows_C[place]]]
        try:
            system = resolve_system(name)
            require_engine(system, profile)
            require_tier(system, fields["tier"], profile.kernel_family, fields["silicon_version"])
            for format_name in formats:
                device_peak(system.device, format_name)
            systems[name] = system
        except PerfatlasError as error:
            refused_C = rows_C[distinct.codes_N == code]
            refusals.refuse(refused_C, always(error), workers.stage)
    return systems


def _needed_formats(formats: ModelFormats, network: Network) -> set[str]:
    needed = {formats.gemm, formats.attention, formats.head}
    needed |= {module.format for module in formats.modules if module.format}
    if network.has_experts:
        needed.add(formats.moe)
    if any(group.selects_keys for group in network.layers):
        needed.add(INDEX_FORMAT)
    return needed


def resolve_scenarios(
    scenarios: Sequence[Scenario],
    longest: int = 0,
    *,
    pooled: bool = False,
    queues: bool = True,
    part: str = "",
) -> tuple[Candidates | None, list[PerfatlasError | None]]:
    """Return scenarios that share model, engine, formats and tier as candidates, and their errors.

    Args:
        scenarios: Scenarios of one group (N).
        longest: Longest prompt of the traffic, on which default limits depend; 0 for isl.
        pooled: Whether they are workers of a prefill or decode pool.
        queues: Whether requests may queue: they are simulated.
        part: Part of the layers that they run, of `PARTS`, "" for all.

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
    workers = workers_of(columns, pooled=pooled, part=part)
    workers = replace(workers, queues=queues)
    rows = np.arange(len(scenarios))
    answered = candidates_of(workers, rows, (found, assumptions), refusals, longest)
    errors: list[PerfatlasError | None] = [None] * len(scenarios)
    for row in refusals.rows():
        errors[row] = refusals.error(row)
    return None if answered is None else answered[1], errors


def planned_scenario(scenario: Scenario) -> Scenario:
    """Return a scenario with its plan where it states only a number of GPUs.

    Args:
        scenario: The scenario; it is returned unchanged if it states a plan, or has none.

    Raises:
        PerfatlasError: The model, engine or format cannot be resolved.

    Example:
        >>> from perfatlas.scenario.fields import Scenario
        >>> from perfatlas.scenario.resolution import planned_scenario
        >>> asked = {"model": "meta-llama/Llama-3.1-8B", "system": "h100_sxm", "gpus": 16}
        >>> planned = planned_scenario(Scenario.read(asked))
        >>> planned.tp, planned.dp
        (1, 16)
    """
    if (
        scenario.mode == "disaggregated"
        or not default_plans.has_free_plan(columns_of([scenario]))[0]
    ):
        return scenario
    question, _ = resolve_scenarios([scenario])
    if question is None:
        return scenario
    return scenario.changed(**resolved_names.resolved_plan(question))
