"""Collectives between processes of this machine: wall times, each the longest of all ranks."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.quantities import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

COLLECTIVES: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
MIN_RANKS: Final = 2  # that share a core on the smallest machine
REPETITIONS: Final = 60
WARM_UP: Final = 10
MAX_TIME: Final = timedelta(seconds=60)  # that a rank waits for the others


class Ranks(NamedTuple):
    """What processes run together."""

    store: str  # File through which they meet
    backend: str  # gloo or nccl
    ranks: int  # Processes
    operator: str  # One of COLLECTIVES
    size: int  # Bytes as nccl-tests counts them


def _gpus() -> int:
    import torch

    return int(torch.cuda.device_count())


def rank_times_s(operator: str, size: int, ranks: int, *, gpu: bool = False) -> list[float]:
    """Return the times of a collective, each the longest of all ranks [s]."""
    most = _gpus() if gpu else max(os.cpu_count() or 1, MIN_RANKS)
    if ranks > most:
        units = "GPUs" if gpu else "cores"
        raise UnsupportedError(f"{ranks:,} ranks need as many {units}; this machine has {most}")
    context = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(ranks, mp_context=context) as pool,
    ):
        store = str(Path(folder) / "store")
        task = Ranks(store, "nccl" if gpu else "gloo", ranks, operator, size)
        running = [pool.submit(run_rank, task, rank) for rank in range(ranks)]
        times = [future.result() for future in running]
    return times[0]


def run_rank(task: Ranks, rank: int) -> list[float]:
    """Run one rank in a process of its own; return the longest times of all ranks [s]."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group(
        task.backend,
        init_method=f"file://{task.store}",
        rank=rank,
        world_size=task.ranks,
        timeout=MAX_TIME,
    )
    device = "cpu" if task.backend == "gloo" else f"cuda:{rank}"
    call = _call(task, torch.randn(task.size // 4, device=device))
    times = torch.zeros(REPETITIONS, dtype=torch.float64, device=device)
    for repetition in range(-WARM_UP, REPETITIONS):
        dist.barrier()
        start_s = time.perf_counter()
        call()
        if device != "cpu":
            torch.cuda.synchronize()
        if repetition >= 0:
            times[repetition] = time.perf_counter() - start_s
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    dist.destroy_process_group()
    longest_s: list[float] = times.tolist()
    return longest_s


def _call(task: Ranks, data: Tensor) -> Callable[[], object]:
    import torch.distributed as dist

    part = data[: len(data) // task.ranks].clone()
    if task.operator == "all_reduce":
        return lambda: dist.all_reduce(data)
    if task.operator == "all_gather":
        return lambda: dist.all_gather_into_tensor(data, part)
    if task.operator == "reduce_scatter":
        return lambda: dist.reduce_scatter_tensor(part, data)
    sent = list(data.chunk(task.ranks))
    received = [part.clone() for part in sent]
    return lambda: dist.all_to_all(received, sent)
