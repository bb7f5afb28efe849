"""MoE layers: calibration, shape columns and neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.machines.gpu.declarations import (
    Axis,
    KernelShape,
    OperatorKernels,
    fitted_formats,
    named,
)
from perfatlas.operators import GroupedGemm, load_skew

if TYPE_CHECKING:
    from perfatlas.machines.gpu.declarations import CalibrationKey, Columns

SIZES: Final = ("tokens", "hidden", "intermediate", "experts", "top_k", "ep", "moe_tp")


def _key(operator: GroupedGemm) -> CalibrationKey:
    return "moe", fitted_formats(operator.format)


def _columns(operator: GroupedGemm) -> Columns:
    """Return the shape of the tokens that a rank holds.

    After an all-to-all that is a layer with the experts of the rank, of which a received token has
    top_k / ranks_per_token; only the loads of its experts follow from the whole group.
    """
    fields = (*SIZES, "weight_bytes_per_element", "input_bytes_per_element")
    sent = np.asarray(operator.ranks_per_token) > 0.0
    ranks = np.where(sent, operator.ep, 1.0)
    reached = np.where(sent, operator.ranks_per_token, 1.0)
    return named(operator, fields) | {
        "tokens": operator.tokens * reached / ranks,
        "experts": operator.experts / ranks,
        "top_k": operator.top_k / reached,
        "ep": operator.ep / ranks,
        "matrices": float(operator.matrices),
        "skew": load_skew(operator.distribution),
        "hot": 0.0,
        "exchange_ranks": ranks,
        "ranks_per_token": reached,
    }


DECLARATIONS: Final = (
    OperatorKernels(
        kind=GroupedGemm,
        calibration_key=_key,
        shape_columns=_columns,
        shapes={
            "moe": KernelShape(
                axes=(
                    Axis(("tokens",), 2.0),
                    Axis(("hidden",), 2.0),
                    Axis(("intermediate",), over=("moe_tp",)),
                    Axis(("experts",), over=("ep",)),
                    *(Axis(("top_k",)), Axis(("ep",)), Axis(("matrices",), 8.0)),
                    Axis(("tokens", "top_k"), 2.0, over=("experts",)),
                    Axis(("skew",), 16.0, linear=True),
                ),
                groups=("hidden", "intermediate", "experts", "top_k", "ep", "moe_tp"),
                split_by=("hidden", "intermediate", "experts", "top_k"),
                split_words="model (hidden, intermediate, experts, top-k)",
            )
        },
    ),
)
