"""Runs of all-reduce, with all ranks on one device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.lab.kernels.runs.run import KernelRun, Launch, Tensors, options, poisoned, random
from perfatlas.lab.kernels.runs.streaming import EPSILON

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from perfatlas.lab.kernels.registry import Config

BLOCKS: Final = 2  # programs of each rank, when ranks take turns on one device
_PHASES: Final = (1, 2, 4, 1, 2)  # of sources.all_reduce: signal, wait, move


def _inputs(shape: Mapping[str, Any], fmt: str, device: str) -> dict[str, Any]:
    rows, width = shape["tokens"], shape["width"]
    ranks = [random(fmt, device, rows, width) for _ in range(shape["ranks"])]
    residual, weight = random(fmt, device, rows, width), random(fmt, device, width)
    return {"ranks": ranks, "residual": residual, "weight": weight}


def _simulated(inputs: Tensors, config: Config) -> tuple[Launch, dict[str, Any]]:
    """Return the launch of all ranks in turns: each phase by all ranks before the next.

    In turns, a wait without its signals would not end, and a test would see it.
    """
    import torch

    from perfatlas.lab.kernels.sources.all_reduce import all_reduce_norm

    ranks, weight = inputs["ranks"], inputs["weight"]
    (rows, width), where, world = ranks[0].shape, ranks[0].device, len(ranks)
    outs = [poisoned(data.dtype, where, rows, width) for data in ranks]
    residuals = [inputs["residual"].clone() for _ in ranks]
    flags = torch.zeros(world, BLOCKS * world, dtype=torch.int32, device=where)
    tables = [
        torch.tensor([buffer.data_ptr() for buffer in buffers], device=where)
        for buffers in (ranks, flags)
    ]

    def launch() -> object:
        flags.zero_()
        for step, phase in enumerate(_PHASES):
            for rank, (total, out) in enumerate(zip(residuals, outs, strict=True)):
                tile = (config.tile[0], world, phase)
                sizes = (rank, rows, width, 1 + step // 3, EPSILON)
                all_reduce_norm[(BLOCKS,)](
                    *tables, total, weight, out, sizes, TILE=tile, **options(config)
                )
        return outs

    named = {f"out {rank}": out for rank, out in enumerate(outs)}
    return launch, named | {f"residual {rank}": one for rank, one in enumerate(residuals)}


def _expected(inputs: Tensors) -> dict[str, Tensor]:
    total = sum((data.double() for data in inputs["ranks"]), inputs["residual"].double())
    scale = (total.square().mean(-1, keepdim=True) + EPSILON).rsqrt()
    values = {"out": total * scale * inputs["weight"].double(), "residual": total}
    return {
        f"{name} {rank}": value
        for rank, _ in enumerate(inputs["ranks"])
        for name, value in values.items()
    }


def _same_bits(_inputs: Tensors, outputs: dict[str, Any]) -> dict[str, Tensor]:
    """Return the outputs in float64; those of ranks that differ from the first are NaN."""
    return {
        name: output.double().where(output == outputs[f"{name.split()[0]} 0"], float("nan"))
        for name, output in outputs.items()
    }


COMMUNICATION_RUNS: Final = {
    "all_reduce_norm": KernelRun(
        inputs=_inputs, launch=_simulated, expected=_expected, read=_same_bits
    )
}
