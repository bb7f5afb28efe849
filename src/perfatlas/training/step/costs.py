"""Costs of one micro-batch per layer, on the distinct shapes of all candidates.

Layouts that differ only in pp, dp, vpp, zero, recompute or global_batch run equal shapes on a rank:
operators are priced once per distinct shape, and candidates refer to them.

Shape legend: C candidates, U distinct shapes, G segments, P parts of the step (forward, input
gradients, weight gradients), K kinds of time, V variants (predicted, low, high), O operators,
L recompute levels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.machines import communication_share
from perfatlas.operators import Attention, busiest_rank
from perfatlas.pricing import scaled
from perfatlas.step import StepClock
from perfatlas.step.overlap import exposed_in_tiles, exposed_time
from perfatlas.training.layouts import RECOMPUTE_LEVELS, distinct_rows, take_layouts
from perfatlas.training.step.collective_prices import GroupColumns, collective_prices
from perfatlas.training.step.energy import link_j_per_byte, pass_clock, pass_energy, pass_totals
from perfatlas.training.step.kernels import price_rows
from perfatlas.training.work import (
    Part,
    RankParameters,
    Routes,
    Row,
    Work,
    keeping_rows,
    kernel_rows,
    layer_of,
    model_operators,
    rank_exchanges,
    rank_parameters,
    repeated_shares,
    saved_bytes,
    table_exchanges,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.energy import StepEnergy
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.pricing import PricedOperators
    from perfatlas.training.step.energy import PassEnergy
    from perfatlas.training.step.question import TrainingQuestion
    from perfatlas.training.work import Exchange

# rows that leave for the experts' ranks and come back, which wait for the busiest rank
EXPERT_OPS: Final = ("dispatch", "combine")
KINDS: Final = ("compute", "tp", "cp", "ep")
MAX_CONTENTION: Final = 0.99  # of SMs or memory bandwidth: computation never stops
_SHAPE_COLUMNS: Final = (
    "tp",
    "cp",
    "ep",
    "expert_tp",
    "sequence_length",
    "micro_batch",
    "sequence_parallel",
)


@dataclass(frozen=True, kw_only=True)
class MicroBatchCosts:
    """Costs of a micro-batch per layer of each segment, on distinct shapes."""

    index_C: IntArray  # Shape of each candidate (C,)
    # Time that is not hidden, of kernels and of each kind of communication (V, P, K, U, G) [s]
    time_s: FloatArray
    # The part of the forward pass that each level repeats (V, L, K, U, G) [s]
    recomputed_s: FloatArray
    flop_UG: FloatArray  # FLOP of the forward pass (U, G) [FLOP]
    # The part of `flop_UG` in products of frozen weights, which have no gradients (U, G) [FLOP]
    frozen_flop_UG: FloatArray
    # FLOP of the forward pass that each level repeats (L, U, G) [FLOP]
    recomputed_flop_LUG: FloatArray
    saved_bytes_LUG: FloatArray  # Activations kept per micro-batch and layer (L, U, G) [bytes]
    parameters: RankParameters  # Parameters of one rank, per layer (U, G)
    rows: tuple[Row, ...]  # The operators
    prices: PricedOperators  # Their prices (U, O)
    exchanges: tuple[Exchange, ...]  # The collectives
    exchange_s_UE: FloatArray  # Their times before overlap (U, E) [s]
    exposed_s_UE: FloatArray  # Their times that are not hidden (U, E) [s]
    energy: PassEnergy  # Their dynamic energy
    totals: StepEnergy  # Totals of a micro-batch through all layers (U,)
    clock: StepClock  # Clock of the passes (U,)


def micro_batch_costs(question: TrainingQuestion) -> MicroBatchCosts:
    """Return the costs of a micro-batch, priced once per distinct shape, at the clock it leaves."""
    layouts = question.layouts
    keys_CD = np.stack(
        [
            *(np.asarray(getattr(layouts, name), np.float64) for name in _SHAPE_COLUMNS),
            question.index_C.astype(np.float64),
        ],
        axis=1,
    )
    first_U, index_C = distinct_rows(keys_CD)
    distinct = replace(
        question, layouts=take_layouts(layouts, first_U), index_C=question.index_C[first_U]
    )
    sustained = replace(distinct, clock_C=np.ones(first_U.size))
    costs = _price(sustained, index_C)

    def at_ratio(ratio_U: FloatArray) -> StepEnergy:
        return _price(replace(distinct, clock_C=ratio_U), index_C).totals

    clock = pass_clock(distinct, costs.totals, at_ratio)
    if np.any(clock.ratio != 1.0):
        costs = _price(replace(distinct, clock_C=clock.ratio), index_C)
    return replace(costs, clock=clock)


def _price(question: TrainingQuestion, index_C: IntArray) -> MicroBatchCosts:
    """Return the costs of distinct shapes."""
    network, layouts = question.network, question.layouts
    modules = question.modules
    work = Work(
        network,
        question.priced_formats,
        question.distribution,
        modules,
        question.recipe,
        question.gradient_bytes,
        balanced_tables=question.tier == "bound",
    )
    rows = graph_rows = model_operators(work, layouts)
    if (graph := question.graph) is not None:
        graph_rows = keeping_rows(rows, graph)
        rows = kernel_rows(graph_rows, graph)
    prices, times_VUO = _priced(question, rows)
    sizes = np.array([float(system.device.scale_up.domain_size) for system in question.systems])
    routes = Routes(
        question.dispatcher or question.engine.dispatcher,
        sizes[question.index_C],
        question.dispatch_format,
        question.recipe.cp_communication,
    )
    exchanges = (
        *rank_exchanges(network, rows, layouts, question.engine, routes, modules.modules),
        *table_exchanges(work, layouts),
    )
    comm_VUE, link_bytes_UE = _exchange_prices(question, exchanges)
    exposed_VUE = _exposed(question, exchanges, comm_VUE, times_VUO)
    sums = _sums(question, rows, times_VUO)
    for position, exchange in enumerate(exchanges):
        kind = KINDS.index(exchange.kind)
        sums.time_s[:, exchange.part, kind, :, exchange.segment] += exposed_VUE[:, :, position]
        again_VU = exposed_VUE[:, None, :, position]
        sums.recomputed_s[:, exchange.recomputed_at :, kind, :, exchange.segment] += again_VU
    time_s_UO, link_j_UE = times_VUO[0], link_bytes_UE * link_j_per_byte(question)[:, None]
    segments = len(network.layers) + 2
    energy = pass_energy(rows, prices, time_s_UO, exchanges, link_j_UE, segments)
    pass_s_UG = sums.time_s[0].sum(axis=(0, 1))
    return MicroBatchCosts(
        index_C=index_C,
        **sums._asdict(),
        energy=energy,
        totals=pass_totals(question, rows, prices, time_s_UO, pass_s_UG, energy),
        clock=StepClock.sustained(pass_s_UG[:, 0]),
        saved_bytes_LUG=saved_bytes(network, graph_rows, layouts, question.engine, modules),
        parameters=rank_parameters(network, rows, layouts),
        rows=rows,
        prices=prices,
        exchanges=exchanges,
        exchange_s_UE=comm_VUE[0],
        exposed_s_UE=exposed_VUE[0],
    )


class _Sums(NamedTuple):
    """Sums over the operators of a segment, as in `MicroBatchCosts`."""

    time_s: FloatArray
    recomputed_s: FloatArray
    flop_UG: FloatArray
    frozen_flop_UG: FloatArray
    recomputed_flop_LUG: FloatArray


def _sums(question: TrainingQuestion, rows: Sequence[Row], times_VUO: FloatArray) -> _Sums:
    """Return the times and FLOP of operators by part, segment and recompute level."""
    segments = len(question.network.layers) + 2
    shape = (len(Part), len(KINDS), question.layouts.size, segments)
    levels = len(RECOMPUTE_LEVELS)
    sums = _Sums(
        np.zeros((3, *shape)),
        np.zeros((3, levels, *shape[1:])),
        np.zeros(shape[2:]),
        np.zeros(shape[2:]),
        np.zeros((levels, *shape[2:])),
    )
    for position, row in enumerate(rows):
        time_VU, segment = times_VUO[:, :, position], row.segment
        flop_U = row.operator.work().flop * row.operator.count
        if row.role != "again":
            sums.time_s[:, row.part, 0, :, segment] += time_VU
        if row.part != Part.FORWARD:
            continue
        if row.role != "again":
            sums.flop_UG[:, segment] += flop_U
        if row.role == "frozen" and row.operator.weights():
            sums.frozen_flop_UG[:, segment] += flop_U
        for level, share in repeated_shares(row):
            sums.recomputed_s[:, level, 0, :, segment] += share * time_VU
            sums.recomputed_flop_LUG[level, :, segment] += share * flop_U
    return sums


def _priced(question: TrainingQuestion, rows: Sequence[Row]) -> tuple[PricedOperators, FloatArray]:
    """Return prices at the speed of the engine, and times per layer (V, U, O) [s]."""
    prices = price_rows(question, rows)
    count_UO = np.stack([row.operator.count for row in rows], axis=1)
    speed_UO = np.stack([_speed(question, row) for row in rows], axis=1)
    prices = scaled(prices, time=1.0 / speed_UO)
    times_VUO = np.stack([prices.time_s_CO, prices.low_s_CO, prices.high_s_CO]) * count_UO
    return prices, times_VUO


def _speed(question: TrainingQuestion, row: Row) -> FloatArray:
    """Return the speed of a kernel relative to its calibration, that of the busiest rank (U,)."""
    layouts = question.layouts
    engine = question.engine
    release = engine.speed_moe if question.network.has_experts else engine.speed_dense
    speed_U = np.full(layouts.size, engine.efficiency_compute * release)
    if isinstance(row.operator, Attention):
        hopper = [system.device.architecture == "hopper" for system in question.systems]
        slower_U = np.array(hopper)[question.index_C]
        sinks = layer_of(question.network, row.segment).has_sinks
        of_engine = engine.attention_speed_hopper_sinks if sinks else engine.attention_speed_hopper
        return speed_U * np.where(slower_U, of_engine, 1.0)
    if row.operator.routed:
        return speed_U / _busiest(question, row.segment)
    return speed_U


def _busiest(question: TrainingQuestion, segment: int) -> FloatArray:
    """Return the rows of the busiest expert-parallel rank over those of a mean one (U,)."""
    layouts, experts = question.layouts, layer_of(question.network, segment).experts
    if experts is None:
        return np.ones(layouts.size)
    tokens_U = layouts.tokens / layouts.token_ranks * layouts.expert_tp * layouts.ep
    return busiest_rank(
        question.distribution,
        tokens_U,
        float(experts.num_experts),
        float(experts.top_k),
        layouts.ep,
    )


def _exchange_prices(
    question: TrainingQuestion, exchanges: Sequence[Exchange]
) -> tuple[FloatArray, FloatArray]:
    """Return the times of collectives alone (V, U, E) [s], and the bytes sent (U, E) [bytes]."""
    size = question.layouts.size
    times_VUE = np.zeros((3, size, len(exchanges)))
    sent_UE = np.zeros((size, len(exchanges)))
    for op in sorted({exchange.op for exchange in exchanges}):
        indexes = [index for index, exchange in enumerate(exchanges) if exchange.op == op]
        bytes_R, ranks_R, stride_R = (
            np.concatenate([getattr(exchanges[index], name) for index in indexes])
            for name in ("bytes_C", "ranks_C", "stride_C")
        )
        group = GroupColumns(ranks_R, stride_R, np.tile(question.index_C, len(indexes)))
        times_VR, sent_R = collective_prices(question, op, bytes_R, group)
        times_VUE[:, :, indexes] = times_VR.reshape(3, len(indexes), size).swapaxes(1, 2)
        sent_UE[:, indexes] = sent_R.reshape(len(indexes), size).T
        if op in EXPERT_OPS:
            for index in indexes:
                times_VUE[:, :, index] *= _busiest(question, exchanges[index].segment)
    return times_VUE / question.engine.efficiency_communication, sent_UE


def _exposed(
    question: TrainingQuestion,
    exchanges: Sequence[Exchange],
    comm_VUE: FloatArray,
    times_VUO: FloatArray,
) -> FloatArray:
    """Return the times of collectives that no computation hides (V, U, E) [s]."""
    exposed_VUE = np.empty_like(comm_VUE)
    taken_U = taken_sms(question)
    for i, exchange in enumerate(exchanges):
        time_VU = comm_VUE[:, :, i]
        window_VU = times_VUO[:, :, list(exchange.window)].sum(axis=2)
        if exchange.overlap == "exposed":
            exposed_VUE[:, :, i] = time_VU
        elif exchange.overlap == "bulk":
            exposed_VUE[:, :, i] = exposed_time(time_VU, window_VU, time_VU * taken_U)
        else:
            tiles_U = np.maximum(exchange.ranks_C, 1.0)
            exposed_VUE[:, :, i] = exposed_in_tiles(time_VU, window_VU, tiles_U, time_VU * taken_U)
    return exposed_VUE


def taken_sms(question: TrainingQuestion) -> FloatArray:
    """Return the share of the SMs that a collective takes from the kernels beside it (C,)."""
    if question.tier == "bound":
        return np.zeros(question.layouts.size)
    share_C = communication_share(question.devices(), question.engine.communication_sms)
    taken_C: FloatArray = np.minimum(share_C, MAX_CONTENTION)
    return taken_C
