"""Tiles: which ones a thread block can hold, and those of the best known kernels."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.machines.gpu.pipeline import kernels
from perfatlas.machines.gpu.pipeline.loops import COLUMN_STEP
from perfatlas.quantities import InfeasibleError, InvalidSpecError, UnsupportedError, counted

if TYPE_CHECKING:
    from collections.abc import Iterator


WARPGROUP: Final = 128  # threads
LANES: Final = 128  # of tensor memory: rows of an accumulator
MAX_REGISTERS: Final = 255  # of a thread
REGISTER_STEP: Final = 8  # of setmaxnreg
MMA_BYTES: Final = 32  # depth of an MMA instruction
MAX_STAGES: Final = 8
BLOCK_BYTES: Final = 128  # depth of a GEMM block, a swizzled row of shared memory
SPLITS: Final = (2, 3, 4, 6, 8, 12, 16, 24, 32)  # parts that libraries try
MIN_SPLIT_DEPTH: Final = 128  # of a part
GEMM_ROWS: Final = (64, 128, 256)
GEMM_COLUMNS: Final = (16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 192, 224, 256)


def check_tile(work: kernels.Work, tile: kernels.KernelTile, silicon: kernels.Silicon) -> None:
    """Refuse a tile that the instructions cannot compute or that an SM cannot hold."""
    limits = kernels.architecture_limits(silicon.architecture)
    rows = limits["mma_rows"]
    if isinstance(work, kernels.AttentionWork) and work.latent_dim:
        _check_latent_rows(tile)
    elif tile.m % (tile.warpgroups * rows):
        raise InvalidSpecError(
            f"tile_m = {tile.m} gives {counted(tile.warpgroups, 'warpgroup')}"
            f" {tile.m / tile.warpgroups:g} rows each; on {silicon.architecture}, kernel design"
            f" models MMA instructions of {rows} rows: use a multiple of"
            f" {rows * tile.warpgroups}, or other warpgroups"
        )
    if tile.n % COLUMN_STEP:
        raise InvalidSpecError(f"tile_n = {tile.n} must be a multiple of {COLUMN_STEP}")
    if isinstance(work, kernels.AttentionWork) and tile.k != work.head_dim:
        raise InvalidSpecError(
            f"tile_k = {tile.k} must be the width of keys, {work.head_dim}, in attention; leave it"
            " out"
        )
    if tile.k * work.element_bytes % MMA_BYTES:
        raise InvalidSpecError(
            f"tile_k = {tile.k} must be a multiple of {MMA_BYTES / work.element_bytes:g}, the depth"
            " of an MMA instruction in this format"
        )
    if tile.paired and isinstance(work, kernels.GemmWork) and work.m <= tile.m:
        raise InfeasibleError(
            f"2-CTA MMA needs two rows of tiles, and m = {work.m} has one of tile_m = {tile.m};"
            " use 1-CTA MMA"
        )
    used = shared_bytes(work, tile, silicon)
    if used > silicon.shared_bytes:
        raise InfeasibleError(
            f"a tile of {tile.m} x {tile.n} x {tile.k} with {counted(tile.stages, 'stage')} needs"
            f" {used:,.0f} bytes of shared memory, and a block has {silicon.shared_bytes:,};"
            " use fewer stages or a smaller tile"
        )
    if limits["accumulators"] == "registers":
        _check_registers(work, tile)
    else:
        _check_tensor_memory(work, tile, limits["tensor_memory_columns"])


def _check_latent_rows(tile: kernels.KernelTile) -> None:
    """Refuse rows of latent attention that its MMA instructions cannot compute.

    Its warpgroups share the rows, and take turns in blocks of keys.
    """
    rows = int(kernels.sm_constants()["latent_rows"])
    if tile.m % rows:
        raise InvalidSpecError(
            f"tile_m = {tile.m} must be a multiple of {rows}, the rows of an MMA instruction in"
            " latent attention"
        )


def shared_bytes(work: kernels.Work, tile: kernels.KernelTile, silicon: kernels.Silicon) -> float:
    """Return the shared memory of a tile: operands in flight, and queries or outputs [bytes]."""
    if isinstance(work, kernels.AttentionWork) and work.backward:
        # keys and values of the tile, queries and gradients of outputs, gradients of scores
        rows = (2 * tile.m + tile.stages * tile.n) * work.head_dim
        return (rows + tile.m * tile.n) * work.element_bytes
    if isinstance(work, kernels.AttentionWork):
        # outputs replace queries, or keys and values
        limits = kernels.architecture_limits(silicon.architecture)
        queries = 0 if work.latent_dim and limits["tensor_memory_columns"] else tile.m
        return (queries + tile.stages * tile.n) * work.head_dim * work.element_bytes
    columns = tile.n / 2 if tile.paired else tile.n
    pairs = tile.stages * (tile.m + columns) * tile.k * work.element_bytes
    return pairs + tile.m * min(tile.n, 64) * work.output_bytes  # outputs leave in parts


def _check_registers(work: kernels.Work, tile: kernels.KernelTile) -> None:
    """Refuse a tile whose accumulators exceed the registers of its threads."""
    sm = kernels.sm_constants()
    shared = sm["registers"] / WARPGROUP - sm["producer_registers"]
    most = min(shared / tile.warpgroups // REGISTER_STEP * REGISTER_STEP, MAX_REGISTERS)
    if isinstance(work, kernels.AttentionWork) and work.backward:
        per_row = 2.0 * tile.n + 2.0 * work.head_dim  # scores and their gradients, two outputs
    elif isinstance(work, kernels.AttentionWork):
        # scores in FP32, probabilities in the format, outputs in FP32
        scores = tile.n * (1.0 + work.element_bytes / 4.0)
        # in latent attention warpgroups share the rows: each has columns of the output
        per_row = scores * (tile.warpgroups if work.latent_dim else 1) + work.value_dim
    else:
        per_row = tile.n * (2.0 if work.promotes else 1.0)
    needed = tile.m / tile.warpgroups * per_row / WARPGROUP + sm["address_registers"]
    if needed > most:
        raise InfeasibleError(
            f"a tile of {tile.m} x {tile.n} in {counted(tile.warpgroups, 'warpgroup')} needs"
            f" {needed:.0f} registers per thread, and {most:.0f} are available; use a smaller"
            " tile or other warpgroups"
        )


def _check_tensor_memory(work: kernels.Work, tile: kernels.KernelTile, most: int) -> None:
    """Refuse a tile whose accumulators exceed the columns of tensor memory."""
    # scores and outputs of each warpgroup; a GEMM computes one tile while it stores another
    columns = tile.n + work.value_dim if isinstance(work, kernels.AttentionWork) else 2 * tile.n
    if isinstance(work, kernels.AttentionWork) and work.latent_dim:
        columns += math.ceil(work.head_dim * work.element_bytes / 4.0)  # queries
    if isinstance(work, kernels.AttentionWork) and work.backward:
        columns *= 2  # scores and their gradients, gradients of keys and of values
    needed = tile.m * columns // LANES  # 64 rows are packed in half the columns
    if needed > most:
        raise InfeasibleError(
            f"a tile of {tile.m} x {tile.n} in {counted(tile.warpgroups, 'warpgroup')} needs"
            f" {needed} columns of tensor memory, and an SM has {most}; use a smaller tile"
        )


def known_tile(work: kernels.AttentionWork, family: kernels.KernelFamily) -> kernels.KernelTile:
    """Return the tile of the best known attention kernel; in decode, one warpgroup of it.

    That of latent attention is of kernels for decode.
    """
    mask = "causal" if work.causal else "none"
    direction = "backward" if work.backward else "latent" if work.latent_dim else "forward"
    rows = [row for row in family.tile if row.get("direction", "forward") == direction]
    for row in rows:
        if work.head_dim <= row["head_dim"] and row.get("mask", mask) == mask:
            sizes = {name: row[name] for name in ("m", "n", "stages", "warpgroups")}
            if work.packed and not work.latent_dim:
                sizes |= {"m": row["m"] // row["warpgroups"], "warpgroups": 1}
            return kernels.KernelTile(**sizes, k=work.head_dim)
    raise UnsupportedError(
        f"{family.name} has no {direction} kernel for"
        f" {'kv_lora_rank + rope_dim' if work.latent_dim else 'head_dim'} = {work.head_dim}; use"
        f" {rows[-1]['head_dim']} or less"
    )


def gemm_tiles(
    work: kernels.Work, family: kernels.KernelFamily, silicon: kernels.Silicon
) -> Iterator[kernels.KernelTile]:
    """Yield the tiles that GEMM libraries choose from, with as many stages as fit."""
    pairs = (False, True) if family.pairs else (False,)
    for m in GEMM_ROWS:
        for n in GEMM_COLUMNS:
            for paired in pairs:
                tile = completed_tile(work, silicon, {"m": m, "n": n, "paired": paired})
                try:
                    check_tile(work, tile, silicon)
                except (InfeasibleError, InvalidSpecError):
                    continue
                yield tile


def split_tiles(work: kernels.Work, tile: kernels.KernelTile) -> Iterator[kernels.KernelTile]:
    """Yield a tile with the inner dimension, or the keys, in parts; a GEMM also as stream-K."""
    if isinstance(work, kernels.GemmWork):
        yield replace(tile, streamed=True)
        length, block = work.k, tile.k
    else:
        length, block = work.kv_len, tile.n
    for splits in SPLITS:
        if splits <= math.ceil(length / block) and length >= splits * MIN_SPLIT_DEPTH:
            yield replace(tile, splits=splits)


def completed_tile(
    work: kernels.Work, silicon: kernels.Silicon, sizes: dict[str, Any]
) -> kernels.KernelTile:
    """Return a tile whose missing sizes follow from those that are given.

    Args:
        work: What the kernel computes.
        sizes: Some fields of the tile, with m and n.
    """
    rows = kernels.architecture_limits(silicon.architecture)["mma_rows"]
    depth = (
        work.head_dim
        if isinstance(work, kernels.AttentionWork)
        else int(BLOCK_BYTES // work.element_bytes)
    )
    groups = min(max(sizes["m"] // rows, 1), 3 if sizes["m"] == 3 * rows else 2)
    if isinstance(work, kernels.AttentionWork) and work.latent_dim:
        groups = 2  # one output in their registers, by columns
    base = {"k": depth, "warpgroups": groups, **sizes}
    if "stages" in base:
        return kernels.KernelTile(**base)
    value = shared_bytes(work, kernels.KernelTile(**base, stages=1), silicon)
    more = shared_bytes(work, kernels.KernelTile(**base, stages=2), silicon) - value
    stages = 1 + int((silicon.shared_bytes - value) // more)
    return kernels.KernelTile(**base, stages=max(min(stages, MAX_STAGES), 1))
