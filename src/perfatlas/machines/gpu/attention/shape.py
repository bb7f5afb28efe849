"""Attention: its calibrations, shape columns and neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.machines.gpu.declarations import (
    Axis,
    KernelShape,
    OperatorKernels,
    is_fp8,
    kernel_phase,
    named,
)
from perfatlas.operators import Attention

if TYPE_CHECKING:
    from perfatlas.machines.gpu.declarations import CalibrationKey, Columns
    from perfatlas.operators import FloatArray, LatentAttention

SIZES: Final = (
    "batch",
    "q_len",
    "kv_len",
    "num_heads",
    "num_kv_heads",
    "head_dim",
    "value_head_dim",
    "window",
)
LATENT_SIZES: Final = (
    "batch",
    "q_len",
    "kv_len",
    "num_heads",
    "kv_lora_rank",
    "rope_dim",
    "nope_dim",
    "value_head_dim",
    "selected",
)
SPLIT: Final = ("num_heads", "num_kv_heads")


def decode_format(operator: Attention | LatentAttention) -> str:
    """Return the format that decode kernels were measured in; queries are always 16-bit.

    Args:
        operator: Columns over candidates.
    """
    return f"bf16{'+fp8_kv' if is_fp8(operator.kv_format) else ''}"


def prefill_formats(operator: Attention | LatentAttention) -> tuple[str, ...]:
    """Return the formats whose fits can price a prefill, best first.

    A prefill that multiplies in fp8 is priced by fp8 rows, otherwise by 16-bit rows with the
    same KV cache format.

    Args:
        operator: Columns over candidates.
    """
    key = decode_format(operator)
    exact = (f"fp8{key.removeprefix('bf16')}",) if is_fp8(operator.format) else ()
    return (*exact, key)


def protocol_columns(operator: Attention | LatentAttention) -> dict[str, FloatArray | float]:
    """Return the columns common to all attention kernels: element sizes and cold caches.

    Args:
        operator: Columns over candidates.
    """
    return {
        "kv_bytes_per_element": operator.kv_bytes_per_element,
        "attention_bytes_per_element": 1.0 if is_fp8(operator.format) else 2.0,
        "hot": 0.0,
    }


def selects_keys(operator: LatentAttention) -> bool:
    """Return whether attention runs over selected keys."""
    return bool(np.any(operator.selected > 0))


def _key(operator: Attention) -> CalibrationKey | None:
    phase = kernel_phase(operator.phase)
    if phase is None:
        return None
    if phase == "decode":
        return "decode_attention", (decode_format(operator),)
    return "prefill_attention", prefill_formats(operator)


def _columns(operator: Attention) -> Columns:
    columns = named(operator, SIZES) | protocol_columns(operator)
    if kernel_phase(operator.phase) == "decode":
        return columns
    return columns | {"causal": float(operator.causal), "append": float(operator.cache_append)}


DECLARATIONS: Final = (
    OperatorKernels(
        kind=Attention,
        calibration_key=_key,
        shape_columns=_columns,
        shapes={
            "prefill_attention": KernelShape(
                axes=(
                    *(Axis(("batch",)), Axis(("q_len",)), Axis(("kv_len",))),
                    *(Axis(("num_heads",), 0.5), Axis(("num_kv_heads",), 0.5)),
                    *(Axis(("head_dim",), 4.0), Axis(("value_head_dim",), 4.0, over=("head_dim",))),
                    *(Axis(("window",), 4.0), Axis(("batch", "q_len", "num_heads"), 2.0)),
                ),
                groups=("num_heads", "num_kv_heads", "head_dim", "window"),
                split_by=SPLIT,
                split_words="(heads, KV heads)",
            ),
            "decode_attention": KernelShape(
                axes=(
                    *(Axis(("batch",)), Axis(("q_len",), 2.0), Axis(("kv_len",))),
                    *(Axis(("num_heads",), 0.5), Axis(("num_kv_heads",), 0.5)),
                    *(Axis(("head_dim",), 2.0), Axis(("value_head_dim",), 4.0, over=("head_dim",))),
                    *(Axis(("window",), 2.0), Axis(("batch", "num_kv_heads"))),
                    Axis(("batch", "num_kv_heads", "kv_len")),
                    Axis(("num_heads",), over=("num_kv_heads",)),
                ),
                groups=("num_heads", "num_kv_heads", "head_dim", "window"),
                split_by=SPLIT,
                split_words="(heads, KV heads)",
            ),
        },
    ),
)
