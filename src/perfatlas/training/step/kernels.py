"""Kernels that the operators of a micro-batch run, and their prices by operator.

Shape legend: C candidates, O operators, K kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.energy import with_energy
from perfatlas.machines import price_operators
from perfatlas.operators import Attention, Gemm, GroupedGemm, Streaming
from perfatlas.pricing import reduce, scaled
from perfatlas.step import with_attention_speed, with_graph_kernels
from perfatlas.training import work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import FloatArray, Operator
    from perfatlas.pricing import PricedOperators
    from perfatlas.training.step.question import TrainingQuestion

_UNQUANTIZED: Final = ("bf16", "fp16", "fp32")
# Norms behind a residual, to which the output of a block or the embedding was added.
_DROPPED_OUT: Final = ("input_norm", "ffn_norm", "final_norm")
# Formats and the products that run them on Blackwell: fp8_block is emulated by MX blocks.
# Source: Transformer Engine documentation, gemm_profiling.
_FAMILY: Final = {
    "fp8_static": "fp8",
    "fp8_dynamic": "fp8",
    "fp8_block": "mxfp8",
    "mxfp8": "mxfp8",
    "nvfp4": "nvfp4",
}


def price_rows(question: TrainingQuestion, rows: Sequence[work.Row]) -> PricedOperators:
    """Return the price of one execution of each operator, with its energy (C, O).

    The experts of a rank, and attention that is not fused, are the sum of their kernels; what
    limits them and the calibration are those of the first product, and the engine's
    `efficiency_experts` is part of the time of experts' products. In tier bound they are one
    operator with its minimum work. FLOP are those of the kernels: attention that is not fused
    computes masked scores too.
    """
    kernels = [_kernels(question, row) for row in rows]
    operators, devices = [operator for ops in kernels for operator in ops], question.devices()
    family = question.engine.kernel_family if question.graph is None else question.graph.kernels
    prices = price_operators(operators, devices, family=family, tier=question.tier)
    if question.graph is not None and question.tier != "bound":
        prices = with_attention_speed(prices, operators, question.graph, devices)
        prices = with_graph_kernels(prices, operators, question.graph, devices)
    prices = with_energy(operators, prices, devices)
    starts = np.concatenate([[0], np.cumsum([len(ops) for ops in kernels])])[:-1].astype(np.int64)
    pairs = [(row, operator) for row, ops in zip(rows, kernels, strict=True) for operator in ops]
    share_CK = np.stack([operator.count / row.operator.count for row, operator in pairs], axis=1)
    slower_CK = np.stack([_slower(question, row, operator) for row, operator in pairs], axis=1)
    if question.graph is not None:  # times of measured kernels
        slower_CK = np.where(prices.match_CO >= 0, slower_CK, 1.0)
    priced = scaled(prices, work=share_CK, time=share_CK * slower_CK, energy=share_CK)
    return reduce(priced, starts)


def _kernels(question: TrainingQuestion, row: work.Row) -> tuple[Operator, ...]:
    """Return the kernels that an operator runs."""
    engine, operator = question.engine, row.operator
    if question.tier == "bound":
        if isinstance(operator, GroupedGemm) and row.part == work.Part.WEIGHT_GRADIENT:
            # it writes gradients and reads no weights, as its products do
            products = work.expert_kernels(operator, row.part, recipe="bf16")
            return tuple(product for product in products if product.multiplies)
        return (operator,)
    if isinstance(operator, GroupedGemm):
        experts = work.layer_of(question.network, row.segment).experts
        return work.expert_kernels(
            operator,
            row.part,
            fused=question.fused_experts,
            sorted_again=(question.dispatcher or engine.dispatcher) == "alltoall",
            biases=experts is not None and experts.bias,
            recipe="" if operator.format in _UNQUANTIZED else question.formats.moe,
        )
    if isinstance(operator, Attention) and not engine.fused_attention:
        return work.unfused_attention_kernels(operator, row.part, dropout=engine.dropout)
    if isinstance(operator, Streaming) and engine.dropout and operator.name in _DROPPED_OUT:
        return operator, work.dropout_of_residual(operator)
    return (operator,)


def _slower(question: TrainingQuestion, row: work.Row, kernel: Operator) -> FloatArray:
    """Return the time of a kernel over that of its price (C,): products have speeds of their own.

    Source: data/training_engines, `efficiency_experts`, fitted, and `blackwell_speed_`, measured.
    """
    engine = question.engine
    if question.graph is not None and isinstance(kernel, Gemm):
        return np.full(question.layouts.size, work.gradient_time(kernel, row.part, question.graph))
    if not kernel.multiplies:
        routed = row.operator.name.startswith("experts") and kernel.stream_kind != ""
        return np.full(
            question.layouts.size, 1.0 / engine.efficiency_routed_rows if routed else 1.0
        )
    speed = engine.efficiency_experts if row.operator.routed else 1.0
    if kernel.compute_format in _UNQUANTIZED:
        return np.full(question.layouts.size, 1.0 / speed)
    gain = getattr(engine, f"blackwell_speed_{_FAMILY[question.formats.gemm]}")
    blackwell = [system.device.architecture == "blackwell" for system in question.systems]
    slower_C: FloatArray = 1.0 / (
        speed * np.where(np.array(blackwell)[question.index_C], gain, 1.0)
    )
    return slower_C
