"""`perfatlas kernel gemm|attention|moe`: one operator on one GPU."""

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
