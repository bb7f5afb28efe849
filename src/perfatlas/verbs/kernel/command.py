"""`perfatlas kernel`: one operator on one GPU, and kernels under design."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.commands.output import Answering, command_of

if TYPE_CHECKING:
    from collections.abc import Callable

gemm, attention, moe = (
    command_of(
        Answering(
            command=f"kernel {operator}",
            function=f"kernel_{operator}",
            first="time_s",
        )
    )
    for operator in ("gemm", "attention", "moe")
)


def _operator(name: str) -> Callable[..., int]:
    command = f"kernel op {name}"
    return command_of(
        Answering(command=command, function="kernel_op", argument=name, first="time_s")
    )


conv, norm, softmax, embedding, elementwise = map(
    _operator, ("conv", "norm", "softmax", "embedding", "elementwise")
)
sort, scan, reduce, histogram, op_filter, join = map(
    _operator, ("sort", "scan", "reduce", "histogram", "filter", "join")
)
group_by, spmv, stencil, fft, solve = map(
    _operator, ("group_by", "spmv", "stencil", "fft", "solve")
)

design_attention, design_gemm = (
    command_of(
        Answering(
            command=f"kernel design {operator}",
            function=f"kernel_design_{operator}",
            first="time_s",
        )
    )
    for operator in ("attention", "gemm")
)
