"""`perfatlas kernel`: one operator on one GPU, and kernels under design."""

from __future__ import annotations

from perfatlas.commands.output import Answering, command_of

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

conv, norm, softmax, embedding, elementwise = (
    command_of(
        Answering(
            command=f"kernel op {operator}",
            function="kernel_op",
            argument=operator,
            first="time_s",
        )
    )
    for operator in ("conv", "norm", "softmax", "embedding", "elementwise")
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
