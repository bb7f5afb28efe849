"""The space in which operator shapes are near each other, and its residuals.

Shape legend: U unique shapes, R measured rows, D shape columns, F coordinates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.kernels.shapes.models import physics_model
from perfatlas.measurements.residuals import residuals as near

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.measurements.residuals import Correction, Residuals
    from perfatlas.operators import FloatArray

NEAR_BALANCED: Final = -0.1  # skew of a uniform load beside measured ones: near, not the same
LEAST_RATIO: Final = 2.0**-10  # of two columns, in a coordinate


class Axis(NamedTuple):
    """One coordinate of the space in which shapes are near: weight x log2(product / product)."""

    times: tuple[str, ...]
    weight: float = 1.0
    over: tuple[str, ...] = ()
    linear: bool = False


# Columns that are followed beyond their measured range; the others are what a model or a plan is.
SIZES: Final = ("m", "n", "k", "tokens", "batch", "q_len", "kv_len", "queries")
_LATENT: Final = (
    *(Axis(("kv_lora_rank",), 4.0), Axis(("rope_dim",), 4.0), Axis(("nope_dim",), 4.0)),
    *(Axis(("value_head_dim",), 4.0), Axis(("selected",))),
)
_SCORES: Final = (
    *(Axis(("queries",)), Axis(("q_len",)), Axis(("kv_len",))),
    *(Axis(("num_heads",), 2.0), Axis(("head_dim",), 4.0)),
)
_SCAN: Final = (
    *(Axis(("batch",)), Axis(("q_len",)), Axis(("num_heads",)), Axis(("batch", "num_heads"))),
    Axis(("io_bytes_per_token",), over=("num_heads",)),
)
_CONV: Final = (*(Axis(("batch",)), Axis(("q_len",)), Axis(("channels",)), Axis(("kernel",), 4.0)),)
# Weights were chosen on four devices by the error on shapes left out; what a table holds constant
# keeps a query of another geometry away from its rows.
AXES: Final[Mapping[str, tuple[Axis, ...]]] = {
    "gemm": (Axis(("m",), 2.0), Axis(("n",)), Axis(("k",), 0.5)),
    "moe": (
        Axis(("tokens",), 2.0),
        Axis(("hidden",), 2.0),
        Axis(("intermediate",), over=("moe_tp",)),
        Axis(("experts",), over=("ep",)),
        *(Axis(("top_k",)), Axis(("ep",)), Axis(("matrices",), 8.0)),
        Axis(("tokens", "top_k"), 2.0, over=("experts",)),
        Axis(("skew",), 16.0, linear=True),
    ),
    "prefill_attention": (
        *(Axis(("batch",)), Axis(("q_len",)), Axis(("kv_len",))),
        *(Axis(("num_heads",), 0.5), Axis(("num_kv_heads",), 0.5)),
        *(Axis(("head_dim",), 4.0), Axis(("value_head_dim",), 4.0, over=("head_dim",))),
        *(Axis(("window",), 4.0), Axis(("batch", "q_len", "num_heads"), 2.0)),
    ),
    "decode_attention": (
        *(Axis(("batch",)), Axis(("q_len",), 2.0), Axis(("kv_len",))),
        *(Axis(("num_heads",), 0.5), Axis(("num_kv_heads",), 0.5)),
        *(Axis(("head_dim",), 2.0), Axis(("value_head_dim",), 4.0, over=("head_dim",))),
        *(Axis(("window",), 2.0), Axis(("batch", "num_kv_heads"))),
        Axis(("batch", "num_kv_heads", "kv_len")),
        Axis(("num_heads",), over=("num_kv_heads",)),
    ),
    "scan_prefill": (*_SCAN, Axis(("flop_per_token",), 4.0, over=("num_heads",))),
    "scan_decode": (*_SCAN, Axis(("state_bytes",), 4.0, over=("num_heads",))),
    "conv_prefill": _CONV,
    "conv_decode": _CONV,
    "mla_prefill": (
        *(Axis(("batch",)), Axis(("q_len",)), Axis(("kv_len",)), Axis(("num_heads",), 0.5)),
        *(Axis(("batch", "q_len", "num_heads")), *_LATENT),
    ),
    "mla_decode": (
        *(Axis(("batch",), 2.0), Axis(("q_len",)), Axis(("kv_len",), 2.0)),
        *(Axis(("num_heads",), 0.5), *_LATENT),
    ),
    "sparse_mla_prefill": (
        *(Axis(("queries",), 2.0), Axis(("q_len",), 0.5), Axis(("kv_len",), 0.5)),
        *(Axis(("num_heads",)), Axis(("selected",))),
        *(Axis(("kv_lora_rank",), 4.0), Axis(("rope_dim",), 4.0)),
    ),
    "key_scores_prefill": _SCORES,
    "key_scores_decode": _SCORES,
    "key_selection": (
        *(Axis(("queries",)), Axis(("q_len",)), Axis(("kv_len",))),
        *(Axis(("selected",), 4.0), Axis(("kv_len",), over=("selected",))),
    ),
}
# Columns that name a group of rows no part of which a held-out row may see.
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "gemm": ("n", "k"),
    "moe": ("hidden", "intermediate", "experts", "top_k", "ep", "moe_tp"),
    "prefill_attention": ("num_heads", "num_kv_heads", "head_dim", "window"),
    "decode_attention": ("num_heads", "num_kv_heads", "head_dim", "window"),
    "mla_prefill": ("num_heads",),
    "mla_decode": ("num_heads",),
    "sparse_mla_prefill": ("queries",),
    "key_scores_prefill": ("queries",),
    "key_scores_decode": ("queries",),
    "key_selection": ("queries",),
    "scan_prefill": ("num_heads",),
    "scan_decode": ("num_heads",),
    "conv_prefill": ("channels",),
    "conv_decode": ("channels",),
}


def coordinates(operator: str, shape_UD: FloatArray) -> FloatArray:
    """Return shapes in the space in which they are near each other (U, F).

    Args:
        operator: A name of `AXES`.
        shape_UD: Columns of its physics (U, D).
    """
    names = physics_model(operator).shape_names
    column = {name: shape_UD[:, place] for place, name in enumerate(names)}
    space_UF = np.empty((shape_UD.shape[0], len(AXES[operator])))
    for place, axis in enumerate(AXES[operator]):
        value_U = np.prod([column[name] for name in axis.times], axis=0)
        for name in axis.over:
            value_U = value_U / column[name]
        if axis.linear:
            value_U = np.maximum(value_U, NEAR_BALANCED)
        else:
            value_U = np.log2(np.maximum(value_U, LEAST_RATIO if axis.over else 1.0))
        space_UF[:, place] = axis.weight * value_U
    return space_UF


def correct(residuals: Residuals, operator: str, shape_UD: FloatArray) -> Correction:
    """Return the correction of the physics times of shapes.

    Args:
        residuals: Of the cell whose parameters the physics used.
        operator: A name of `AXES`.
        shape_UD: Columns of its physics (U, D).
    """
    return near.correct(residuals, coordinates(operator, shape_UD), followed(operator))


def followed(operator: str) -> FloatArray:
    """Return the coordinate of one octave along sizes, 0 along what a model or a plan is (F,).

    Args:
        operator: A name of `AXES`.
    """
    octaves = [
        axis.weight if not axis.linear and any(name in SIZES for name in axis.times) else 0.0
        for axis in AXES[operator]
    ]
    return np.array(octaves)


def carry(operator: str, shape_RD: FloatArray, residual_R: FloatArray) -> Residuals:
    """Return residuals with what leaving rows and whole groups out says about distance.

    Args:
        operator: A name of `AXES`.
        shape_RD: Measured shapes (R, D).
        residual_R: ln(measured / physics) (R,).
    """
    names = physics_model(operator).shape_names
    columns = [names.index(name) for name in GROUPS[operator]]
    groups_R = near.number_groups(shape_RD[:, columns])
    return near.carry(coordinates(operator, shape_RD), residual_R, groups_R)


def no_residuals(operator: str) -> Residuals:
    """Return residuals of a cell without rows: nothing is near, physics answers.

    Args:
        operator: A name of `AXES`.
    """
    return near.no_residuals(len(AXES[operator]))
