"""Energy of one micro-batch per layer, and the clock that power limits leave to its passes.

Shape legend: C candidates, U distinct shapes, G segments, O operators, E exchanges, L recompute
levels, N classes of operators, K kinds of energy (chip, memory and links).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfatlas.energy import (
    StepEnergy,
    board_energy,
    capped_clock_ratio,
    energy_share,
    energy_width,
    locked_ratio,
)
from perfatlas.operators import BOUND_COMPUTE, WORK_CLASSES
from perfatlas.step import StepClock
from perfatlas.training.layouts import RECOMPUTE_LEVELS
from perfatlas.training.work import repeated_shares

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.pricing import PricedOperators
    from perfatlas.training.step.question import TrainingQuestion
    from perfatlas.training.work import Exchange, Row

CHIP, MEMORY = 0, 1  # kinds of energy


class PassEnergy(NamedTuple):
    """Dynamic energy and kernel time of one micro-batch per layer of each segment."""

    # Energy, that of the chip at the voltage of the highest clock (K, N, U, G) [J]
    own_j: FloatArray
    again_j: FloatArray  # Energy that each recompute level adds (K, L, U, G) [J]
    own_s: FloatArray  # Time of kernels (N, U, G) [s]


def pass_energy(
    rows: Sequence[Row],
    prices: PricedOperators,
    time_s_UO: FloatArray,
    exchanges: Sequence[Exchange],
    link_j_UE: FloatArray,
    segments: int,
) -> PassEnergy:
    """Return the dynamic energy of one micro-batch [J], and its time by class of work [s].

    Args:
        prices: Their prices, with energies (U, O).

    Limits: Links carry no energy of the copies in device memory.
    """
    size = (time_s_UO.shape[0], segments)
    own_j = np.zeros((2, len(WORK_CLASSES), *size))
    again_j = np.zeros((2, len(RECOMPUTE_LEVELS), *size))
    own_s = np.zeros((len(WORK_CLASSES), *size))
    for column, row in enumerate(rows):
        each_KU = row.operator.count * np.stack(
            [prices.chip_energy_j_CO[:, column], prices.memory_energy_j_CO[:, column]]
        )
        if row.role != "again":
            index = WORK_CLASSES.index(row.operator.work_class)
            own_j[:, index, :, row.segment] += each_KU
            own_s[index, :, row.segment] += time_s_UO[:, column]
        for level, share in repeated_shares(row):
            again_j[:, level, :, row.segment] += share * each_KU
    links = WORK_CLASSES.index("communication")
    for column, exchange in enumerate(exchanges):
        own_j[MEMORY, links, :, exchange.segment] += link_j_UE[:, column]
        again_j[MEMORY, exchange.recomputed_at :, :, exchange.segment] += link_j_UE[:, column]
    return PassEnergy(own_j, again_j, own_s)


def link_j_per_byte(question: TrainingQuestion) -> FloatArray:
    """Return the energy of a byte that the device of each candidate sends (C,) [J/byte]."""
    boards = [board_energy(system.device) for system in question.systems]
    each_C: FloatArray = np.array([board.link_j_per_byte for board in boards])[question.index_C]
    return each_C


def layer_counts(question: TrainingQuestion) -> FloatArray:
    """Return the layers of each segment of the whole model (G,)."""
    layers = [float(group.count) for group in question.network.layers]
    return np.array([1.0, *layers, 1.0])


def pass_totals(
    question: TrainingQuestion,
    rows: Sequence[Row],
    prices: PricedOperators,
    time_s_UO: FloatArray,
    pass_s_UG: FloatArray,
    energy: PassEnergy,
) -> StepEnergy:
    """Return the totals of one micro-batch through all layers, which decide the clock (U,).

    Args:
        prices: Their prices (U, O).
    """
    layers_G = layer_counts(question)
    runs_O = np.array([row.role != "again" for row in rows]) * layers_G[[r.segment for r in rows]]
    count_UO = np.stack([row.operator.count for row in rows], axis=1)
    computes_UO = runs_O * (prices.code_CO == BOUND_COMPUTE)
    chip_j_U, memory_j_U = (energy.own_j.sum(axis=1) * layers_G).sum(axis=-1)
    return StepEnergy(
        time_s=(pass_s_UG * layers_G).sum(axis=1),
        compute_s=(computes_UO * time_s_UO).sum(axis=1),
        peak_s=(computes_UO * count_UO * prices.bound_s_CO).sum(axis=1),
        chip_j=chip_j_U,
        memory_j=memory_j_U,
    )


def pass_clock(
    question: TrainingQuestion, full: StepEnergy, at_ratio: Callable[[FloatArray], StepEnergy]
) -> StepClock:
    """Return the clock of the passes of each shape (U,).

    Kernels were measured at the clock that they sustain at the TDP, so that this limit alone
    lowers no clock again. A lower limit, of a user or of a device that borrows kernels, lowers it
    until a micro-batch draws no more.

    Limits: Power limits act within tens of milliseconds: bubbles, the optimizer and collectives
        of the whole step leave no power to passes. Recomputation is taken to draw the power of the
        passes that it repeats.
    """
    power = question.power()
    ratio_U = np.ones_like(full.time_s)
    lowest_w_U, width_U = np.full_like(ratio_U, np.nan), np.zeros_like(ratio_U)
    # at the roofline, a clock that a model predicts is no limit
    if question.tier != "bound" and np.any(power.clock_limit_w != power.calibrated_w):
        ratio_U, lowest_w_U, width_U = capped_clock_ratio(at_ratio, full, power)
    free_U = ratio_U
    ratio_U = locked_ratio(ratio_U, np.full_like(ratio_U, question.clock_ratio))
    limit_U = energy_share(full, np.ones_like(ratio_U), power)
    return StepClock(
        ratio=ratio_U,
        energy_share=energy_share(full, ratio_U, power),
        lowest_w=lowest_w_U,
        limit_share=np.where(ratio_U < free_U, 1.0, limit_U),
        saved_w=power.saved_w(ratio_U),
        energy_width=energy_width(full, ratio_U, power),
        time_width=np.where(ratio_U == free_U, width_U, 0.0),
    )
