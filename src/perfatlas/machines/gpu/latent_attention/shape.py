"""Latent attention: calibrations, shape columns and neighbours.

Sparse decode is priced as dense decode over the selected keys; its kernels (FlashMLA) expand fp8
rows on load and multiply in 16 bits. Sparse prefill has its own kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.machines.gpu.attention import (
    LATENT_SIZES,
    decode_format,
    prefill_formats,
    protocol_columns,
    selects_keys,
)
from perfatlas.machines.gpu.declarations import (
    Axis,
    KernelShape,
    OperatorKernels,
    kernel_phase,
    named,
)
from perfatlas.operators import LatentAttention, Phase

if TYPE_CHECKING:
    from perfatlas.machines.gpu.declarations import CalibrationKey, Columns


def _accepts(operator: LatentAttention) -> bool:
    return operator.phase == Phase.DECODE or not selects_keys(operator)


def _key(operator: LatentAttention) -> CalibrationKey | None:
    phase = kernel_phase(operator.phase)
    if phase is None:
        return None
    if phase == "prefill":
        return "mla_prefill", prefill_formats(operator)
    own = decode_format(operator)
    expanded = ("bf16",) if own != "bf16" and selects_keys(operator) else ()
    return "mla_decode", (*expanded, own)


def _columns(operator: LatentAttention) -> Columns:
    return named(operator, LATENT_SIZES) | protocol_columns(operator)


_GEOMETRY: Final = (
    *(Axis(("kv_lora_rank",), 4.0), Axis(("rope_dim",), 4.0), Axis(("nope_dim",), 4.0)),
    *(Axis(("value_head_dim",), 4.0), Axis(("selected",))),
)
DECLARATIONS: Final = (
    OperatorKernels(
        kind=LatentAttention,
        accepts=_accepts,
        calibration_key=_key,
        shape_columns=_columns,
        shapes={
            "mla_prefill": KernelShape(
                axes=(
                    *(
                        Axis(("batch",)),
                        Axis(("q_len",)),
                        Axis(("kv_len",)),
                        Axis(("num_heads",), 0.5),
                    ),
                    *(Axis(("batch", "q_len", "num_heads")), *_GEOMETRY),
                ),
                groups=("num_heads",),
                split_by=("num_heads",),
                split_words="heads",
            ),
            "mla_decode": KernelShape(
                axes=(
                    *(Axis(("batch",), 2.0), Axis(("q_len",)), Axis(("kv_len",), 2.0)),
                    *(Axis(("num_heads",), 0.5), *_GEOMETRY),
                ),
                groups=("num_heads",),
                split_by=("num_heads",),
                split_words="heads",
            ),
        },
    ),
)
