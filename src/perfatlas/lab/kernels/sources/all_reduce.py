"""All-reduce over buffers that every rank can read, with the norm that follows it."""

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
def all_reduce_norm(
    inputs: tl.tensor,
    flags: tl.tensor,
    residual: tl.tensor,
    weight: tl.tensor,
    out: tl.tensor,
    sizes: tl.tuple,
    TILE: tl.constexpr,
) -> None:
    """Add the inputs of all ranks to the residual in place, and write its weighted RMSNorm.

    In one shot: each rank reads all inputs, in the order of ranks, so that all have the same bits.
    A program has whole rows, and waits for the same program of all ranks before and after.

    Args:
        inputs: Addresses of the inputs of all ranks (rows, width), in the format of the residual.
        flags: Addresses of their flags (programs, ranks), which start at 0.
        sizes: Rank, rows, width, epoch (1 for the first call with these flags, then 3, 5 and so
            on), epsilon.
        TILE: Columns, ranks, phases of a launch (1 signal, 2 wait, 4 move).
    """
    rank, rows, width, epoch, epsilon = sizes
    WORLD: tl.constexpr = TILE[1]
    PHASES: tl.constexpr = TILE[2]
    FORMAT: tl.constexpr = residual.dtype.element_ty
    column = tl.arange(0, TILE[0])
    inside = column < width
    if PHASES & 1:
        _signal(flags, rank, epoch, WORLD)
    if PHASES & 2:
        _wait(flags, rank, epoch, WORLD)
    if PHASES & 4:
        weights = tl.load(weight + column, inside, 0.0).to(tl.float32)
        for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
            offs = tl.cast(row, tl.int64) * width + column
            total = tl.load(residual + offs, inside, 0.0).to(tl.float32)
            for peer in tl.static_range(WORLD):
                data = tl.multiple_of(tl.load(inputs + peer).to(tl.pointer_type(FORMAT)), 16)
                total += tl.load(data + offs, inside, 0.0).to(tl.float32)
            tl.store(residual + offs, total.to(FORMAT), inside)
            scale = tl.rsqrt(tl.sum(total * total, 0) / width + epsilon)
            tl.store(out + offs, (total * scale * weights).to(FORMAT), inside)
        if PHASES & 1:
            tl.debug_barrier()  # all loads of the program are done
            _signal(flags, rank, epoch + 1, WORLD)
        if PHASES & 2:
            _wait(flags, rank, epoch + 1, WORLD)
