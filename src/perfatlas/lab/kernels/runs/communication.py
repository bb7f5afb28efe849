"""Runs of all-reduce, with all ranks on one device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.lab.kernels.runs.run import KernelRun, Launch, Tensors, options, poisoned, random

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from perfatlas.lab.kernels.registry import Config

BLOCKS: Final = 2  # of each rank, when ranks take turns on one device
_PHASES: Final = (1, 2, 4, 1, 2)  # of sources.all_reduce: signal, wait, move


def _inputs(shape: Mapping[str, Any], fmt: str, device: str) -> dict[str, Any]:
    ranks = [random(fmt, device, shape["count"]) for _ in range(shape["ranks"])]
    return {"ranks": ranks, "shots": shape["shots"]}


def _simulated(inputs: Tensors, config: Config) -> tuple[Launch, dict[str, Any]]:
    """Return the launch of all ranks in turns: each phase by all ranks before the next.

    In turns, a wait without its signals would not end, and a test would see it.
    """
    import torch

    from perfatlas.lab.kernels.sources.all_reduce import all_reduce

    ranks = inputs["ranks"]
    where, count, world = ranks[0].device, ranks[0].numel(), len(ranks)
    outs = [poisoned(data.dtype, where, count) for data in ranks]
    flags = torch.zeros(world, BLOCKS * world, dtype=torch.int32, device=where)
    tables = [
        torch.tensor([buffer.data_ptr() for buffer in buffers], device=where)
        for buffers in (ranks, outs, flags)
    ]

    def launch() -> object:
        flags.zero_()
        for step, phase in enumerate(_PHASES):
            for rank, data in enumerate(ranks):
                tile = (config.tile[0], world, inputs["shots"], phase)
                sizes = (rank, count, 1 + step // 3)
                all_reduce[(BLOCKS,)](data, *tables, sizes, TILE=tile, **options(config))
        return outs

    return launch, {str(rank): out for rank, out in enumerate(outs)}


def _expected(inputs: Tensors) -> dict[str, Tensor]:
    total = sum(data.double() for data in inputs["ranks"])
    return {str(rank): total for rank, _ in enumerate(inputs["ranks"])}


def _same_bits(_inputs: Tensors, outputs: dict[str, Any]) -> dict[str, Tensor]:
    """Return the outputs in float64; those of ranks that differ from the first are NaN."""
    first = outputs["0"]
    return {
        name: output.double().where(output == first, float("nan"))
        for name, output in outputs.items()
    }


COMMUNICATION_RUNS: Final = {
    "all_reduce": KernelRun(inputs=_inputs, launch=_simulated, expected=_expected, read=_same_bits)
}
