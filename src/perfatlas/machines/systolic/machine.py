"""A systolic machine: matrix units (MXUs), vector units, and memory that software manages.

The compiler moves the next tile into vector memory (VMEM) while the last one is multiplied, so that
an operator takes the slowest of matrix units, vector units and device memory.

Shape legend: C candidates, O operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.machines.contract import (
    Machine,
    managed_roofline,
    repriced,
    synchronisations,
    with_step_errors,
)
from perfatlas.machines.systolic.work import executed
from perfatlas.measurements.calibrations import (
    EFFICIENCY_KERNELS,
    EFFICIENCY_PREFILL,
    SYNCHRONISATION,
    find_schedules,
)
from perfatlas.operators import (
    BOUND_COMPUTE,
    BOUND_LATENCY,
    BOUND_MEMORY,
    BOUND_PADDING,
    Phase,
    with_fields,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.hardware import Device
    from perfatlas.machines.contract import DeviceColumns
    from perfatlas.measurements.calibrations import Schedules
    from perfatlas.operators import FloatArray, Operator
    from perfatlas.pricing import PricedOperators

NOTE: Final = (
    "systolic: an operator takes the slowest of matrix units with padded tiles and vector units"
    " (bound: compute), and device memory, through which activations pass between operators, with"
    " what tiles of VMEM read again (bound: memory)"
)


# How much slower than predicted a step of a service may be, beside the error of training steps.
# Source: assumption. Published times per output token of Llama-3.3-70B on v6e
# (AI-Hypercomputer/tpu-recipes) are 1.9 and 2.3 times those of its bytes at the full bandwidth.
SERVED: Final = (Phase.PREFILL, Phase.DECODE)
SLOWER_SERVICE: Final = 3.0
# Of a device without a calibration: no loss.
CONSTANTS: Final = {EFFICIENCY_KERNELS: 1.0, EFFICIENCY_PREFILL: 1.0, SYNCHRONISATION: 0.0}
SERVICE_NOTE: Final = (
    "steps of services on systolic machines are not validated: the speed of kernels is that of"
    " published training steps, and the upper end of the interval three times as high; eight"
    " published services of TPUs were 1.1 to 2.4 times slower than predicted"
)
EXPERTS_NOTE: Final = (
    "experts in services on systolic machines are not validated: published services are those of"
    " dense models, and the upper end of experts is three times as high; published training steps"
    " of mixtures of experts on TPUs take 1.3 to 1.9 times as long as predicted"
)


def at_roofline(operators: Sequence[Operator], devices: DeviceColumns) -> PricedOperators:
    """Return prices in tier bound; activations that fit VMEM take no memory time (C, O).

    Args:
        operators: Columns over candidates (O).
        devices: Device and clock of each candidate (C,).

    Raises:
        UnsupportedError: A device does not multiply in a format.
    """
    return managed_roofline(operators, devices, _traffic)


def _traffic(cold_CO: FloatArray, activation_CO: FloatArray, devices: DeviceColumns) -> FloatArray:
    """Return the bytes to and from memory: activations that VMEM does not hold spill (C, O)."""
    spills_CO = activation_CO > devices.gather("vmem_bytes")[:, None]
    memory_bytes_CO: FloatArray = cold_CO + np.where(spills_CO, activation_CO, 0.0)
    return memory_bytes_CO


def tiled(operators: Sequence[Operator], devices: DeviceColumns) -> PricedOperators:
    """Return prices by padded tiles, vector operations and memory traffic (C, O).

    A device without a calibration runs at these times without a loss; the upper end is unknown.

    Args:
        operators: Columns over candidates (O).
        devices: Device and clock of each candidate (C,).

    Raises:
        UnsupportedError: A device does not multiply in a format.

    Source: github.com/jax-ml/scaling-book, tpus.md and roofline.md.

    Limits: Operators follow each other, and none is fused with its neighbours beyond what the
        network says. Filling the matrix units takes no time beside other tiles.
    """
    prices = at_roofline(operators, devices)
    matrix_s_CO, vector_s_CO, moved_CO = np.zeros((3, *prices.time_s_CO.shape))
    lanes_C = devices.gather("vector_lanes") * devices.gather("sustained_clock_hz")
    for index, operator in enumerate(operators):
        own = executed(operator, devices)
        if np.any(own.padded_flop):
            peak_C = devices.peak_flop_per_s(operator.compute_format)
            matrix_s_CO[:, index] = own.padded_flop / peak_C
        vector_s_CO[:, index] = own.elements / (lanes_C * devices.clock_ratio())
        moved_CO[:, index] = own.memory_bytes
    memory_s_CO = moved_CO / devices.gather("memory_bandwidth")[:, None]
    serves_O = np.array([one.phase in SERVED for one in operators])
    fitted = find_schedules(devices.devices)
    if not serves_O.any():
        fitted = _of_training(fitted)
    constants = [calibration_match.calibration.parameters for calibration_match in fitted.matches]
    own_M3 = [
        tuple(constant.get(name, known) for name, known in CONSTANTS.items())
        for constant in constants
    ]
    # the last one without a calibration
    all_D3 = np.array([*own_M3, tuple(CONSTANTS.values())])[fitted.match_D]
    speed_C, prefill_C, point_s_C = all_D3[devices.index_C].T
    prompts_O = np.array([one.phase is Phase.PREFILL for one in operators])
    units_CO = np.where(prompts_O, prefill_C[:, None], 1.0)
    matrix_s_CO, vector_s_CO = matrix_s_CO / units_CO, vector_s_CO / units_CO
    slowest_CO = np.maximum(np.maximum(matrix_s_CO, vector_s_CO), memory_s_CO)
    code_CO = np.where(memory_s_CO == slowest_CO, BOUND_MEMORY, BOUND_COMPUTE)
    padded_CO = (matrix_s_CO == slowest_CO) & (slowest_CO * units_CO > prices.bound_s_CO)
    code_CO = np.where(padded_CO, BOUND_PADDING, code_CO)
    points_O = np.array([synchronisations(one) for one in operators])
    waits_CO = point_s_C[:, None] * points_O
    running_CO = np.maximum(slowest_CO / speed_C[:, None], prices.bound_s_CO)
    code_CO = np.where(waits_CO > running_CO, BOUND_LATENCY, code_CO)
    unknown_CO = (point_s_C == 0.0)[:, None] & serves_O
    experts_O = np.array([one.routed for one in operators]) & serves_O
    notes = [NOTE, *([SERVICE_NOTE] if unknown_CO.any() else [])]
    notes += [EXPERTS_NOTE] if experts_O.any() else []
    found = with_step_errors(
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
    slower_CO = np.where(unknown_CO | experts_O, SLOWER_SERVICE, 1.0)
    return with_fields(found, high_s_CO=found.high_s_CO * slower_CO)


def _of_training(fitted: Schedules) -> Schedules:
    """Return calibrations without those that are fitted to services: they have synchronisation."""
    serves_M = [
        SYNCHRONISATION in calibration_match.calibration.parameters
        for calibration_match in fitted.matches
    ]
    serves_D = np.array([*serves_M, False])[fitted.match_D]
    return fitted._replace(
        match_D=np.where(serves_D, -1, fitted.match_D),
        tails_D2=np.where(serves_D[:, None], 0.0, fitted.tails_D2),
    )


def _communication_share(devices: DeviceColumns, multiprocessors: float) -> FloatArray:
    """Return no share (C,): links are driven by engines of their own."""
    del multiprocessors
    return np.zeros(devices.index_C.size)


def _issuing_units(device: Device) -> float:
    """Return the matrix units of a device."""
    return device.number("matrix_units")


MACHINE: Final = Machine(
    name="systolic",
    gather=repriced(tiled, at_roofline),
    communication_share=_communication_share,
    issuing_units=_issuing_units,
)
