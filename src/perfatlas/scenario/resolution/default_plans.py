"""Plans of scenarios that state a number of GPUs and no tp: the smallest that fits, and replicas.

Shape legend: N rows, C candidates, F candidates with a free plan, U distinct sets of the K sizes
that decide what is legal, T tensor-parallel sizes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas import parallelism
from perfatlas.step import Candidates, candidate_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.networks import Network
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.scenario.fields import BoolArray, Columns
    from perfatlas.step import Placement

# sequences for which there should be room where the load is not known: TensorRT-LLM advises more
# GPUs below (tensorrt_llm/bench/build/tuning.py, calc_engine_setting)
UNKNOWN_LOAD: Final = 32.0
UNFIT: Final = -1.0
ILLEGAL: Final = -2.0


def has_free_plan(columns: Columns) -> BoolArray:
    """Return the rows that state gpus and leave tp open (N,); dp may be stated."""
    free_N: BoolArray = columns.is_set("gpus") & ~columns.is_set("tp")
    return free_N


def across_domains(
    columns: Columns, plan: parallelism.PlanColumns, placement: Placement
) -> BoolArray:
    """Return the rows whose gpus and dp leave no plan inside scale-up domains (C,).

    Args:
        columns: Their fields (C).
    """
    stated_C = has_free_plan(columns) & columns.is_set("dp")
    return stated_C & ~_inside(plan.tp, plan.attention_dp, placement.domain())


def fitted_plans(
    columns: Columns,
    plan: parallelism.PlanColumns,
    candidates: Callable[[parallelism.PlanColumns], Candidates],
) -> parallelism.PlanColumns:
    """Return plans with the smallest tensor parallelism that fits, and replicas (F,).

    Tensor parallelism and attention data parallelism stay inside a scale-up domain (tensor
    parallelism alone, where attention_dp is larger than a domain). Where dp is stated, plans with
    another one are left out; if none is left, tp takes all GPUs (`across_domains`). Plans whose
    replicas do not fit whole on the nodes are left out too. The smallest tp with room for the whole
    load is taken; without one, the tp that holds most sequences. If the
    model does not fit in a domain, or in the widest legal tp of a larger one, and pp is not given,
    as few pipeline stages as fit are added. If nothing fits, the plan is the widest inside a
    domain.

    Args:
        columns: Fields of the rows, which have a free plan (F).
        candidates: Returns the candidates (F) with other plans.
    """
    gpus_F, attention_dp_F = columns.numbers("gpus"), plan.attention_dp
    found = candidates(plan)
    domain_F, given_dp_F = found.placement.domain(), columns.numbers("dp")
    node_F = found.placement.node()
    shared_F = plan.pp * plan.cp * attention_dp_F * np.nan_to_num(given_dp_F, nan=1.0)
    best_F = np.full(gpus_F.shape, ILLEGAL)
    chosen_F = np.where(np.isnan(given_dp_F), 1.0, gpus_F / shared_F)
    stages_F = plan.pp.copy()
    network = found.model.network
    sizes, widest_F = _legal_sizes(network, columns, plan, domain_F)
    most_F = np.where(columns.is_set("pp"), 1.0, np.maximum(gpus_F // widest_F, 1.0))
    for stages in range(1, 1 + int(min(np.max(most_F, initial=1.0), network.num_layers))):
        open_F = (best_F < 0.0) & (stages <= most_F)
        if not np.any(open_F):
            break
        pp_F = plan.pp * stages
        for tp in sizes:
            inner_F = pp_F * plan.cp * attention_dp_F * tp
            may_F = open_F & (np.mod(gpus_F, inner_F) == 0) & ~np.isinf(best_F)
            may_F &= _inside(np.full_like(pp_F, tp), attention_dp_F, domain_F)
            may_F &= np.isnan(given_dp_F) | (gpus_F == inner_F * given_dp_F)
            tried = _plan(columns, plan, np.full_like(pp_F, tp), pp_F)
            may_F &= (
                tried.dp <= parallelism.most_replicas(inner_F, node_F, gpus_F)
            ) & ~parallelism.cuts_groups(tried, node_F)
            if not np.any(may_F):
                continue
            room_F = _room(columns, candidates, tried)
            # where nothing fits, the refusal is that of the legal plan over the most GPUs
            wider_F = (room_F == UNFIT) & (best_F <= UNFIT)
            wider_F &= (best_F == ILLEGAL) | (tp * pp_F > chosen_F * stages_F)
            better_F = may_F & ((room_F > best_F) | wider_F)
            best_F = np.where(better_F, room_F, best_F)
            chosen_F = np.where(better_F, tp, chosen_F)
            stages_F = np.where(better_F, pp_F, stages_F)
    return _plan(columns, plan, chosen_F, stages_F)


def _inside(tp_C: FloatArray, attention_dp_C: FloatArray, domain_C: FloatArray) -> BoolArray:
    """Return whether the groups of plans stay inside scale-up domains (C,)."""
    ranks_C = np.where(attention_dp_C > domain_C, 1.0, attention_dp_C)
    inside_C: BoolArray = tp_C * ranks_C <= domain_C
    return inside_C


def _legal_sizes(
    network: Network, columns: Columns, plan: parallelism.PlanColumns, domain_F: FloatArray
) -> tuple[list[float], FloatArray]:
    """Return the tensor-parallel sizes that are legal in some rows, and the widest group of each.

    The widest group (F,) has the ranks of attention of the largest legal size, a domain at most.
    """
    given = [np.nan_to_num(columns.numbers(name)) for name in ("ep", "moe_tp")]  # 0: not given
    kinds_FK = np.stack(
        [
            domain_F,
            plan.pp,
            plan.cp,
            plan.attention_dp,
            plan.ring_degree,
            plan.guidance_degree,
            plan.dcp,
            *given,
        ],
        axis=1,
    )
    kinds_UK, kind_F = np.unique(kinds_FK, axis=0, return_inverse=True)
    legal: set[float] = set()
    widest_U = kinds_UK[:, 0].copy()
    for kind, (domain, *sizes) in enumerate(kinds_UK.tolist()):
        tp_T = np.arange(1.0, domain + 1.0)
        pp_T, cp_T, ranks_T, rings_T, passes_T, dcp_T, *given_T = (
            np.full_like(tp_T, size or np.nan) for size in sizes
        )
        ep_T, moe_tp_T = parallelism.default_moe_split(tp_T, ranks_T, *given_T)
        tried = parallelism.PlanColumns(
            tp=tp_T,
            pp=pp_T,
            cp=cp_T,
            attention_dp=ranks_T,
            ep=ep_T,
            moe_tp=moe_tp_T,
            dp=np.ones_like(tp_T),
            ring_degree=rings_T,
            guidance_degree=passes_T,
            dcp=dcp_T,
        )
        broken_T = np.logical_or.reduce([*parallelism.plan_rules(network, tried).values()])
        found = tp_T[~broken_T].tolist()
        legal.update(found)
        widest_U[kind] = min(max(found, default=domain) * sizes[2], domain)
    return sorted(legal), widest_U[kind_F.reshape(-1)]


def _plan(
    columns: Columns, plan: parallelism.PlanColumns, tp_F: FloatArray, pp_F: FloatArray
) -> parallelism.PlanColumns:
    """Return the plans with other tp and pp; replicas and experts follow (F,)."""
    inner_F = tp_F * pp_F * plan.cp * plan.attention_dp
    dp_F = np.maximum(np.floor(columns.numbers("gpus") / inner_F), 1.0)
    given = columns.numbers("ep"), columns.numbers("moe_tp")
    ep_F, moe_tp_F = parallelism.default_moe_split(tp_F, plan.attention_dp, *given)
    return replace(plan, tp=tp_F, pp=pp_F, dp=dp_F, ep=ep_F, moe_tp=moe_tp_F)


def _room(
    columns: Columns,
    candidates: Callable[[parallelism.PlanColumns], Candidates],
    plan: parallelism.PlanColumns,
) -> FloatArray:
    """Return how many sequences a deployment holds (F,): inf for the whole load.

    Plans that do not fit have -1, illegal ones -2.
    """
    room_F = np.full(plan.tp.shape, ILLEGAL)
    question = candidates(plan)
    problems = parallelism.plan_problems(question.model.network, plan)
    legal = [index for index, problem in enumerate(problems) if problem is None]
    if not legal:
        return room_F
    asked = question.take(legal)
    memory = candidate_memory(asked)
    wanted_F = np.ceil(asked.load.sequences / asked.plan.attention_dp)
    unknown_F = ~columns.is_set("batch") & ~columns.is_set("concurrency")
    unknown_F = unknown_F[legal] & asked.aggregated_C
    wanted_F = np.where(unknown_F, np.ceil(UNKNOWN_LOAD / asked.plan.attention_dp), wanted_F)
    held_F = np.minimum(memory.max_sequences, asked.limits.max_num_seqs)
    total_F = held_F * asked.plan.attention_dp * asked.plan.dp
    room_F[legal] = np.where(memory.fits, np.where(held_F >= wanted_F, np.inf, total_F), UNFIT)
    return room_F


def replaced_rows(
    plan: parallelism.PlanColumns, places_F: IntArray, found: parallelism.PlanColumns
) -> parallelism.PlanColumns:
    """Return plans (C,) in which some are replaced.

    Args:
        plan: The plans (C,).
        found: Their new plans (F,).
    """
    columns = {name: values.copy() for name, values in vars(plan).items()}
    for name, values in vars(found).items():
        columns[name][places_F] = values
    return parallelism.PlanColumns(**columns)
