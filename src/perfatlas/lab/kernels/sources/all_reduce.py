"""All-reduce over buffers that every rank can read and write."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _signal(flags: tl.tensor, rank: tl.tensor, epoch: tl.tensor, WORLD: tl.constexpr) -> None:
    """Tell every rank that this block of this rank is here."""
    for peer in tl.static_range(WORLD):
        flag = tl.load(flags + peer).to(tl.pointer_type(tl.int32))
        slot = flag + tl.program_id(0) * WORLD + rank
        tl.atomic_xchg(slot, epoch, sem="release", scope="sys")


@triton.jit
def _wait(flags: tl.tensor, rank: tl.tensor, epoch: tl.tensor, WORLD: tl.constexpr) -> None:
    """Return when this block of every rank is here."""
    slots = tl.load(flags + rank).to(tl.pointer_type(tl.int32)) + tl.program_id(0) * WORLD
    for peer in tl.static_range(WORLD):
        seen = tl.atomic_add(slots + peer, 0, sem="acquire", scope="sys")
        while seen < epoch:
            seen = tl.atomic_add(slots + peer, 0, sem="acquire", scope="sys")


@triton.jit
def _sum(
    inputs: tl.tensor, offs: tl.tensor, mask: tl.tensor, FORMAT: tl.constexpr, TILE: tl.constexpr
) -> tl.tensor:
    """Return the sum over ranks of elements, in fp32."""
    total = tl.zeros((TILE[0],), tl.float32)
    for peer in tl.static_range(TILE[1]):
        data = tl.multiple_of(tl.load(inputs + peer).to(tl.pointer_type(FORMAT)), 16)
        total += tl.load(data + offs, mask, 0.0).to(tl.float32)
    return total


@triton.jit
def all_reduce(
    local: tl.tensor,
    inputs: tl.tensor,
    outputs: tl.tensor,
    flags: tl.tensor,
    sizes: tl.tuple,
    TILE: tl.constexpr,
) -> None:
    """Add the inputs of all ranks, in the order of ranks, so that all have the same bits.

    In one shot each rank adds everything for itself; in two shots it adds its share, and writes it
    to all. Blocks wait for the same block of all ranks before and after.

    Args:
        flags: Addresses of their flags (blocks, ranks), which start at 0.
        sizes: Rank, elements, epoch: 1 for the first call with these flags, then 3, 5 and so on.
        TILE: Elements of a step, ranks, shots, phases of a launch (1 signal, 2 wait, 4 move).
    """
    rank, count, epoch = sizes
    BLOCK: tl.constexpr = TILE[0]
    WORLD: tl.constexpr = TILE[1]
    PHASES: tl.constexpr = TILE[3]
    FORMAT: tl.constexpr = local.dtype.element_ty
    if PHASES & 1:
        _signal(flags, rank, epoch, WORLD)
    if PHASES & 2:
        _wait(flags, rank, epoch, WORLD)
    if PHASES & 4:
        first, end = 0, count
        if TILE[2] == 2:
            share = tl.cdiv(tl.cdiv(count, WORLD), BLOCK) * BLOCK
            first, end = rank * share, tl.minimum(count, (rank + 1) * share)
        step = tl.num_programs(0) * BLOCK
        for start in tl.range(first + tl.program_id(0) * BLOCK, end, step):
            offs = start + tl.arange(0, BLOCK)
            total = _sum(inputs, offs, offs < end, FORMAT, TILE).to(FORMAT)
            for other in tl.static_range(WORLD if TILE[2] == 2 else 1):
                peer = other if TILE[2] == 2 else rank
                data = tl.multiple_of(tl.load(outputs + peer).to(tl.pointer_type(FORMAT)), 16)
                tl.store(data + offs, total, offs < end)
        if PHASES & 1:
            tl.debug_barrier()  # all stores of the block are done
            _signal(flags, rank, epoch + 1, WORLD)
        if PHASES & 2:
            _wait(flags, rank, epoch + 1, WORLD)
