"""Kernels of single operators other than the calibrated ones.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.engines import resolve_engine, runs_on
from perfatlas.formats import get_format
from perfatlas.machines import gather_operators
from perfatlas.pricing import scaled
from perfatlas.scenario.operator_queries.inputs import (
    ConvInputs,
    EmbeddingInputs,
    NormInputs,
    SoftmaxInputs,
)
from perfatlas.scenario.operator_queries.operator_columns import conv_columns, is_depthwise
from perfatlas.scenario.resolution import format_of, half_format
from perfatlas.step import with_graph_kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfatlas.engines import EngineProfile
    from perfatlas.hardware import Device
    from perfatlas.machines import DeviceColumns
    from perfatlas.measurements.calibrations import CalibrationMatch
    from perfatlas.operators import Operator
    from perfatlas.pricing import PricedOperators
    from perfatlas.scenario.operator_queries.inputs import OperatorInputs

    Kernels = Callable[[PricedOperators, DeviceColumns], PricedOperators]

EAGER: Final = "pytorch"  # the kernels of norms, softmax and lookups that engines call


def eager_engine(inputs: OperatorInputs, device: Device) -> EngineProfile | None:
    """Return the engine whose kernels run an operator, None for the calibrated ones.

    RMS norms, activations and quantizations are fused kernels of serving engines.
    """
    other = isinstance(inputs, NormInputs) and inputs.kind != "rms"
    if not (other or isinstance(inputs, (SoftmaxInputs, EmbeddingInputs))):
        return None
    engine = resolve_engine(EAGER)
    return engine if runs_on(engine, device) else None


def eager_note(inputs: OperatorInputs, device: Device) -> list[str]:
    """Return what the rates of an operator's kernels are fitted to."""
    engine = eager_engine(inputs, device)
    if engine is None or engine.graph_kernels is None:
        return []
    note = f"kernels of {engine.id}, with rates of an H100 per SM and clock, scored on an H200"
    return [f"{note}, on other devices not validated: {engine.graph_kernels.source}"]


def borrows_format(inputs: OperatorInputs, match: CalibrationMatch | None) -> bool:
    """Return whether a convolution in 8 bits or fewer has the parameters of another device."""
    return (
        isinstance(inputs, ConvInputs)
        and not is_depthwise(inputs)
        and match is not None
        and not match.own
        and get_format(format_of(inputs.format).name).activation_bytes < _HALF_BYTES
    )


_HALF_BYTES: Final = 2.0


def own_kernels(
    inputs: Sequence[OperatorInputs], operator: Operator, devices: DeviceColumns, family: str
) -> Kernels:
    """Return what makes prices of calibrated kernels those of the kernels that run.

    Args:
        inputs: Queries that differ in sizes alone (C).
        operator: Their columns (C).
    """
    first, tier = inputs[0], inputs[0].tier
    engine = eager_engine(first, devices.devices[0])
    if engine is not None:
        return lambda prices, at: with_graph_kernels(prices, [operator], engine, at, alone=True)
    if not isinstance(first, ConvInputs) or is_depthwise(first) or tier == "bound":
        return lambda prices, _: prices
    half = {"format": half_format(first.system)}
    columns = conv_columns(
        [
            conv_inputs.changed(**half)
            for conv_inputs in inputs
            if isinstance(conv_inputs, ConvInputs)
        ]
    )
    gathered = gather_operators([columns], devices, family=family, tier=tier)

    def capped(prices: PricedOperators, at: DeviceColumns) -> PricedOperators:
        """Return prices in a borrowed format no slower than the own ones in 16 bits."""
        borrowed = np.array(
            [borrows_format(first, calibration_match) for calibration_match in prices.matches]
            or [False]
        )
        if not borrowed.any():
            return prices
        other = gathered.at(at.clock_ratio()[:, None]).fastest()
        own = np.array([calibration_match.own for calibration_match in other.matches] or [False])
        faster_CO = np.minimum(other.time_s_CO / prices.time_s_CO, 1.0)
        applies_CO = (prices.match_CO >= 0) & borrowed[prices.match_CO]
        applies_CO &= (other.match_CO >= 0) & own[other.match_CO]
        return scaled(prices, time=np.where(applies_CO, faster_CO, 1.0))

    return capped
