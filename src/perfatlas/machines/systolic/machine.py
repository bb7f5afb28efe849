"""A systolic machine: matrix units (MXUs), vector units, and memory that software manages.

The compiler moves the next tile into vector memory (VMEM) while the last one is multiplied, so that
an operator takes the slowest of matrix units, vector units and device memory.

Shape legend: C candidates, D distinct devices, O operators, M calibrations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.formats import get_format
from perfatlas.machines import contract
from perfatlas.measurements import calibrations
from perfatlas.operators import (
    ACTIVATION_BYTES,
    BOUND_COMPUTE,
    BOUND_LATENCY,
    BOUND_MEMORY,
    BOUND_PADDING,
    Attention,
    Gemm,
    GroupedGemm,
    Phase,
    Streaming,
    with_fields,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.hardware import Device
    from perfatlas.operators import FloatArray, Operator
    from perfatlas.pricing import PricedOperators

NOTE: Final = (
    "systolic: an operator takes the slowest of matrix units with padded tiles and vector units"
    " (bound: compute), and device memory, through which activations pass between operators, with"
    " what tiles of VMEM read again (bound: memory)"
)
# How much slower than predicted a step of a service may be, beside the error of training steps.
# Source: assumption, before services were compared; published rates (python -m validation tpu) are
# up to 2.7 times lower.
SERVED: Final = (Phase.PREFILL, Phase.DECODE)
SLOWER_SERVICE: Final = 3.0
# Of a device without a calibration: no loss.
CONSTANTS: Final = {
    calibrations.EFFICIENCY_KERNELS: 1.0,
    calibrations.EFFICIENCY_PREFILL: 1.0,
    calibrations.SYNCHRONISATION: 0.0,
    calibrations.OVERHEAD_EXPERTS: 0.0,
}
SERVICE_NOTE: Final = (
    "operators of services on TPUs are not validated: the speed of kernels is that of published"
    " training steps, and the upper end of the interval three times as high; rates of 21 published"
    " services of vLLM are predicted 0.8 to 1.6 times as high, of five of JetStream 1.5 to 2.7"
)
OVERHEAD_NOTE: Final = (
    "systolic: a layer of routed experts takes {microseconds:.0f} µs beside its products, which"
    " is fitted to published services of two models on TPU v7"
)
EXPERTS_NOTE: Final = (
    "experts in services on these machines are not validated: no published service of theirs runs"
    " experts, and the upper end of experts is three times as high; published training steps"
    " of mixtures of experts on TPUs take 1.3 to 1.9 times as long as predicted"
)
# Rows of a vector register of 32-bit elements; narrower elements are packed below each other.
# Source: github.com/jax-ml/scaling-book, tpus.md: registers of 8 x 128 elements.
SUBLANES: Final = 8.0
WORD_BYTES: Final = 4.0
# Queries and keys of a block of attention: blocks on the diagonal are computed whole.
# Source: AI-Hypercomputer/maxtext src/maxtext/configs/base.yml, sa_block_q and sa_block_kv.
ATTENTION_BLOCK: Final = 512.0
# Vector operations for a score: maximum, difference, exponential, sum, scale and conversion.
# Source: assumption, one operation per lane and clock each.
SCORE_OPERATIONS: Final = 6.0
ACCUMULATOR_BYTES: Final = 4.0  # of a sum in VMEM
BUFFERS: Final = 2.0  # half of VMEM holds tiles that arrive while others are multiplied


def at_roofline(operators: Sequence[Operator], devices: contract.DeviceColumns) -> PricedOperators:
    """Return prices in tier bound; activations that fit VMEM take no memory time (C, O)."""
    return contract.managed_roofline(operators, devices, _traffic)


def _traffic(
    cold_CO: FloatArray, activation_CO: FloatArray, devices: contract.DeviceColumns
) -> FloatArray:
    """Return the bytes to and from memory: activations that VMEM does not hold spill (C, O)."""
    spills_CO = activation_CO > devices.gather("vmem_bytes")[:, None]
    memory_bytes_CO: FloatArray = cold_CO + np.where(spills_CO, activation_CO, 0.0)
    return memory_bytes_CO


def tiled(operators: Sequence[Operator], devices: contract.DeviceColumns) -> PricedOperators:
    """Return prices by padded tiles, vector operations and memory traffic (C, O).

    A device without a calibration runs at these times without a loss; the upper end is unknown.

    Source: github.com/jax-ml/scaling-book, tpus.md and roofline.md.

    Limits: Operators follow each other, and none is fused with its neighbours beyond what the
        network says. Filling the matrix units takes no time beside other tiles.
    """
    prices = at_roofline(operators, devices)
    matrix_s_CO, vector_s_CO, moved_CO = np.zeros((3, *prices.time_s_CO.shape))
    lanes_C = devices.gather("vector_lanes") * devices.gather("sustained_clock_hz")
    for index, operator in enumerate(operators):
        done = executed(operator, devices)
        if np.any(done.padded_flop):
            peak_C = devices.peak_flop_per_s(operator.compute_format)
            matrix_s_CO[:, index] = done.padded_flop / peak_C
        vector_s_CO[:, index] = done.elements / (lanes_C * devices.clock_ratio())
        moved_CO[:, index] = done.memory_bytes
    memory_s_CO = moved_CO / devices.gather("memory_bandwidth")[:, None]
    serves_O = np.array([operator.phase in SERVED for operator in operators])
    fitted = calibrations.find_schedules(devices.devices)
    if not serves_O.any():
        fitted = _of_training(fitted)
    constants = [calibration_match.calibration.parameters for calibration_match in fitted.matches]
    own_M4 = [
        tuple(constant.get(name, default) for name, default in CONSTANTS.items())
        for constant in constants
    ]
    # the last one without a calibration
    all_D4 = np.array([*own_M4, tuple(CONSTANTS.values())])[fitted.match_D]
    speed_C, prefill_C, point_s_C, routing_s_C = all_D4[devices.index_C].T
    prompts_O = np.array([operator.phase is Phase.PREFILL for operator in operators])
    units_CO = np.where(prompts_O, prefill_C[:, None], 1.0)
    matrix_s_CO, vector_s_CO = matrix_s_CO / units_CO, vector_s_CO / units_CO
    slowest_CO = np.maximum(np.maximum(matrix_s_CO, vector_s_CO), memory_s_CO)
    code_CO = np.where(memory_s_CO == slowest_CO, BOUND_MEMORY, BOUND_COMPUTE)
    padded_CO = (matrix_s_CO == slowest_CO) & (slowest_CO * units_CO > prices.bound_s_CO)
    code_CO = np.where(padded_CO, BOUND_PADDING, code_CO)
    points_O = np.array([contract.synchronisations(operator) for operator in operators])
    experts_O = np.array([operator.routed for operator in operators]) & serves_O
    waits_CO = point_s_C[:, None] * points_O + routing_s_C[:, None] * experts_O
    running_CO = np.maximum(slowest_CO / speed_C[:, None], prices.bound_s_CO)
    code_CO = np.where(waits_CO > running_CO, BOUND_LATENCY, code_CO)
    unknown_CO = (point_s_C == 0.0)[:, None] & serves_O
    unfitted_CO = (routing_s_C == 0.0)[:, None] & experts_O
    notes = [NOTE, *([SERVICE_NOTE] if unknown_CO.any() else [])]
    notes += [EXPERTS_NOTE] if unfitted_CO.any() else []
    fitted_s = np.unique(routing_s_C[routing_s_C > 0.0]) if experts_O.any() else ()
    notes += [OVERHEAD_NOTE.format(microseconds=1e6 * overhead_s) for overhead_s in fitted_s]
    priced = contract.with_step_errors(
        with_fields(
            prices,
            time_s_CO=running_CO + waits_CO,
            code_CO=code_CO.astype(np.int8),
            memory_bytes_CO=moved_CO,
            notes=tuple(notes),
        ),
        fitted,
        devices.index_C,
    )
    slower_CO = np.where(unknown_CO | unfitted_CO, SLOWER_SERVICE, 1.0)
    return with_fields(priced, high_s_CO=priced.high_s_CO * slower_CO)


def _of_training(fitted: calibrations.Schedules) -> calibrations.Schedules:
    """Return calibrations without those that are fitted to services: they have synchronisation."""
    serves_M = [
        calibrations.SYNCHRONISATION in calibration_match.calibration.parameters
        for calibration_match in fitted.matches
    ]
    serves_D = np.array([*serves_M, False])[fitted.match_D]
    return fitted._replace(
        match_D=np.where(serves_D, -1, fitted.match_D),
        tails_D2=np.where(serves_D[:, None], 0.0, fitted.tails_D2),
    )


class Executed(NamedTuple):
    """What the units of a machine do for an operator."""

    padded_flop: FloatArray  # Arithmetic of the matrix units with padding (C,) [FLOP]
    elements: FloatArray  # Operations of the vector units (C,)
    memory_bytes: FloatArray  # Bytes to and from device memory (C,) [bytes]


def executed(operator: Operator, devices: contract.DeviceColumns) -> Executed:
    """Return what an operator executes, with tiles that fill the matrix units (C,).

    Operators without a rule here execute their minimum work.

    Source: github.com/jax-ml/scaling-book, tpus.md: operands come from HBM through VMEM in chunks,
        and results return to HBM.

    Limits: XLA keeps activations that fit VMEM between some operators (memory_space_assignment).
        Were all kept that fit, a small batch would have up to twice the rate of a large one.
    """
    work, none_C = operator.work(), np.zeros_like(operator.work().flop)
    vmem_C, moved_C = devices.gather("vmem_bytes"), work.cold_bytes + work.activation_bytes
    match operator:
        case Gemm():
            again_C = _read_again(operator, vmem_C)
            return Executed(_groups_flop(operator, devices), none_C, moved_C + again_C)
        case GroupedGemm():
            return Executed(_experts_flop(operator, devices), none_C, moved_C)
        case Attention():
            return Executed(*_attention(operator, devices), moved_C)
        case Streaming():
            elements_C = (work.cold_bytes + work.activation_bytes) / ACTIVATION_BYTES
            return Executed(work.flop, np.maximum(elements_C, operator.vector_flop), moved_C)
        case _:
            elements_C = (work.cold_bytes + work.activation_bytes) / ACTIVATION_BYTES
            return Executed(work.flop, np.where(work.flop > 0.0, none_C, elements_C), moved_C)


def product_flop(
    rows: FloatArray,
    weights: tuple[FloatArray, FloatArray],
    operator: Gemm | GroupedGemm | Attention,
    devices: contract.DeviceColumns,
) -> FloatArray:
    """Return the arithmetic of the matrix units for a product, with padding (C,) [FLOP].

    Weights are cut into squares of a matrix unit's side s, through which all rows pass. Rows are
    padded to a register; a square takes a clock for each of its k rows of weights to load, beside
    the square before it, so that it is occupied for at least as many rows:

        2 max(rows, min(k, s)) s^2 ceil(k / s) ceil(n / s)

    Devices may state fewer rows, where units change their shape.

    Source: github.com/jax-ml/scaling-book, tpus.md: [8, 128] x [128, 128] every 8 clocks, weights
        loaded beside the product before; dimensions are padded to the side of a matrix unit.
    """
    side_C = devices.gather("matrix_side")
    packed = SUBLANES * WORD_BYTES / get_format(operator.format).activation_bytes
    passing_C = np.maximum(np.ceil(rows / packed) * packed, _fewest_rows(weights[0], devices))
    k_C, n_C = (np.ceil(weight / side_C) * side_C for weight in weights)
    flop_C: FloatArray = 2.0 * passing_C * k_C * n_C
    return flop_C


def _groups_flop(operator: Gemm, devices: contract.DeviceColumns) -> FloatArray:
    """Return the arithmetic of the products of all groups (C,) [FLOP].

    Each is padded by itself, or weights of all become one product that is zero between groups.

    Source: openxla/xla convolution_group_converter.cc: grouped convolutions become one without
        groups, whose weights are masked; that the cheaper way is taken is an assumption.
    """
    rows, groups = operator.m / operator.groups, operator.groups
    separate_C = groups * product_flop(rows, (operator.k, operator.n), operator, devices)
    if not operator.has_weights:
        return separate_C
    whole = (operator.k * groups, operator.n * groups)
    return np.minimum(separate_C, product_flop(rows, whole, operator, devices))


def _fewest_rows(k: FloatArray, devices: contract.DeviceColumns) -> FloatArray:
    """Return the rows for which a square of weights with k rows occupies a matrix unit (C,)."""
    stated_C = devices.gather("fewest_rows")
    return np.where(stated_C > 0.0, stated_C, np.minimum(k, devices.gather("matrix_side")))


def _read_again(operator: Gemm, vmem_C: FloatArray) -> FloatArray:
    """Return the bytes that tiles of VMEM read more than once (C,) [bytes].

    Sums of a square of the output stay in VMEM; either the weights pass once for each of its rows,
    or the activations once for each of its columns. What fits VMEM whole is read once.
    """
    side_C = np.floor(np.sqrt(vmem_C / BUFFERS / ACCUMULATOR_BYTES))
    weight_C = operator.n * operator.k * operator.weight_bytes_per_element * operator.groups
    input_C = operator.m * operator.k * operator.input_bytes_per_element
    again_C = np.minimum(
        weight_C * (np.ceil(operator.m / operator.groups / side_C) - 1.0),
        input_C * (np.ceil(operator.n / side_C) - 1.0),
    )
    return np.where(np.minimum(weight_C, input_C) > vmem_C / BUFFERS, again_C, 0.0)


def _experts_flop(operator: GroupedGemm, devices: contract.DeviceColumns) -> FloatArray:
    """Return the arithmetic of the products of all active experts of a rank (C,) [FLOP]."""
    hidden, width = operator.hidden, operator.width()
    expert_bytes = operator.matrices * hidden * width * operator.weight_bytes_per_element
    active_C = np.maximum(operator.work().cold_bytes / expert_bytes, 1.0)
    rows_C = operator.sent_rows() / active_C
    into_C = product_flop(rows_C, (hidden, width * (operator.matrices - 1)), operator, devices)
    return active_C * (into_C + product_flop(rows_C, (width, hidden), operator, devices))


def _attention(
    operator: Attention, devices: contract.DeviceColumns
) -> tuple[FloatArray, FloatArray]:
    """Return the arithmetic of attention (C,) [FLOP], and the operations of its softmax (C,).

    Keys and values are the weights of its products, through which the queries of all heads that
    share them pass. Heads narrower than a matrix unit leave part of it idle, and their keys are
    loaded in as many clocks as heads are wide.

    Limits: One sequence is one product. That values wait for no scores of their own sequence needs
        a kernel that interleaves sequences; earlier ones take up to twice as long.
    """
    side_C = devices.gather("matrix_side")
    shared_C = operator.num_heads / operator.num_kv_heads
    causal_C = (operator.q_len > 1.0) & operator.causal
    diagonal_C = np.where(causal_C, np.minimum(ATTENTION_BLOCK, operator.kv_len) / 2.0, 0.0)
    pairs_C = operator.visible_pairs() + operator.q_len * diagonal_C
    pairs_C = np.minimum(pairs_C, operator.q_len * operator.kv_len)
    heads_C = operator.batch * operator.num_heads
    rows_C = np.maximum(operator.q_len * shared_C, 1.0)
    products = ((operator.head_dim, operator.head_dim), (operator.kv_len, operator.value_head_dim))
    fed_C = np.zeros_like(side_C)  # width times rows that occupy a square, over those that pass
    for k, width in products:
        occupied_C = np.maximum(rows_C, _fewest_rows(k, devices))
        fed_C += np.ceil(width / side_C) * side_C * occupied_C / rows_C
    return 2.0 * heads_C * pairs_C * fed_C, heads_C * pairs_C * SCORE_OPERATIONS


def _communication_share(devices: contract.DeviceColumns, multiprocessors: float) -> FloatArray:
    """Return no share (C,): links are driven by engines of their own."""
    del multiprocessors
    return np.zeros(devices.index_C.size)


def _issuing_units(device: Device) -> float:
    """Return the matrix units of a device."""
    return device.number("matrix_units")


MACHINE: Final = contract.Machine(
    name="systolic",
    gather=contract.repriced(tiled, at_roofline),
    communication_share=_communication_share,
    issuing_units=_issuing_units,
)
