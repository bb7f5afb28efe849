"""Scans of recurrent mixers: calibrations, shape columns and neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.machines.gpu.declarations import (
    Axis,
    KernelShape,
    OperatorKernels,
    StandIn,
    kernel_phase,
    named,
)
from perfatlas.operators import Convolution, Scan

if TYPE_CHECKING:
    from perfatlas.machines.gpu.declarations import CalibrationKey, Columns

MEASURED_MIXER: Final = "gated_delta_net"
# Mixers whose scans are priced with measured kernels of the gated delta net, which have the same
# chunked products and state traffic. All engines run Mamba-2 in Triton kernels, as TensorRT-LLM
# does for the gated delta net. For 8,192 tokens with 128 heads this predicts 0.58 ms on an H100;
# 0.65 ms was measured (vllm-project/vllm pull request 27299).
STAND_INS: Final = {
    "mamba2": StandIn(
        "trtllm",
        "the Mamba-2 scan has no measurements; it is priced with the Triton kernels of the gated"
        " delta net, scaled by arithmetic and bytes",
    )
}


def _scan_key(operator: Scan) -> CalibrationKey | None:
    phase = kernel_phase(operator.phase)
    known = operator.mixer == MEASURED_MIXER or operator.mixer in STAND_INS
    return (f"scan_{phase}", ("bf16",)) if phase and known else None


def _scan_columns(operator: Scan) -> Columns:
    return named(operator, ("batch", "num_heads", "flop_per_token", "io_bytes_per_token")) | {
        "q_len": operator.tokens / operator.batch,
        "chunk": operator.chunk,
        "inner_bytes_per_token": operator.num_heads * operator.head_width * 2.0,
        "state_bytes": 2.0 * operator.state_bytes,
        "hot": 0.0,
    }


def _stand_in(operator: Scan) -> StandIn | None:
    return STAND_INS.get(operator.mixer)


def _convolution_key(operator: Convolution) -> CalibrationKey | None:
    phase = kernel_phase(operator.phase)
    return None if phase is None else (f"conv_{phase}", ("bf16",))


def _convolution_columns(operator: Convolution) -> Columns:
    return {
        "batch": operator.batch,
        "q_len": operator.tokens / operator.batch,
        "channels": operator.channels,
        "kernel": operator.kernel * 1.0,
        "hot": 0.0,
    }


def _scan_shape(state: Axis) -> KernelShape:
    return KernelShape(
        axes=(
            *(Axis(("batch",)), Axis(("q_len",)), Axis(("num_heads",))),
            Axis(("batch", "num_heads")),
            Axis(("io_bytes_per_token",), over=("num_heads",)),
            state,
        ),
        groups=("num_heads",),
        split_by=("num_heads", "io_bytes_per_token"),
        split_words="(value heads, key heads)",
    )


_CONVOLUTION: Final = KernelShape(
    axes=(*(Axis(("batch",)), Axis(("q_len",)), Axis(("channels",)), Axis(("kernel",), 4.0)),),
    groups=("channels",),
    split_by=("channels",),
    split_words="channels",
)
DECLARATIONS: Final = (
    OperatorKernels(
        kind=Scan,
        calibration_key=_scan_key,
        shape_columns=_scan_columns,
        shapes={
            "scan_prefill": _scan_shape(Axis(("flop_per_token",), 4.0, over=("num_heads",))),
            "scan_decode": _scan_shape(Axis(("state_bytes",), 4.0, over=("num_heads",))),
        },
        stand_in=_stand_in,
    ),
    OperatorKernels(
        kind=Convolution,
        calibration_key=_convolution_key,
        shape_columns=_convolution_columns,
        shapes={"conv_prefill": _CONVOLUTION, "conv_decode": _CONVOLUTION},
    ),
)
