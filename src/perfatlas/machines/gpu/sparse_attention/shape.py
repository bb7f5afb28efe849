"""Sparse latent prefill: calibration, shape columns and neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.machines.gpu.attention import LATENT_SIZES, protocol_columns, selects_keys
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
    return operator.phase != Phase.DECODE and selects_keys(operator)


def _key(operator: LatentAttention) -> CalibrationKey | None:
    """Return the calibration key.

    Sparse prefill kernels read 16-bit rows: engines first expand an fp8 cache, in a pass that is
    not priced.
    """
    return None if kernel_phase(operator.phase) is None else ("sparse_mla_prefill", ("bf16",))


def _columns(operator: LatentAttention) -> Columns:
    return (
        named(operator, LATENT_SIZES)
        | protocol_columns(operator)
        | {
            "queries": operator.batch * operator.q_len,
            "kv_bytes_per_element": 2.0,
            "attention_bytes_per_element": 2.0,
        }
    )


DECLARATIONS: Final = (
    OperatorKernels(
        kind=LatentAttention,
        accepts=_accepts,
        calibration_key=_key,
        shape_columns=_columns,
        shapes={
            "sparse_mla_prefill": KernelShape(
                axes=(
                    *(Axis(("queries",), 2.0), Axis(("q_len",), 0.5), Axis(("kv_len",), 0.5)),
                    *(Axis(("num_heads",)), Axis(("selected",))),
                    *(Axis(("kv_lora_rank",), 4.0), Axis(("rope_dim",), 4.0)),
                ),
                groups=("queries",),
                split_by=("queries",),
                split_words="queries",
            )
        },
    ),
)
