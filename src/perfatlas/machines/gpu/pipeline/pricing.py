"""Time of a kernel from the schedule of its tiles.

Shape legend: S streaming multiprocessors, R rounds of tiles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.machines.gpu.pipeline import kernels
from perfatlas.machines.gpu.pipeline.loops import UNITS, loop_of, steady_iteration, tile_schedule
from perfatlas.machines.gpu.pipeline.tiles import (
    check_tile,
    completed_tile,
    gemm_tiles,
    known_tile,
    split_tiles,
)
from perfatlas.quantities import PerfatlasError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from perfatlas.machines.gpu.pipeline.servers import WarpgroupSchedule

MEMORY, LATENCY, LAUNCH = "device memory", "latency", "launch"
COLUMNS_MORE: Final = 64  # of a larger tile
BUSY: Final = 0.5  # share of its cycles from which a unit limits a tile


@dataclass(frozen=True, kw_only=True)
class KernelDesign:
    """A kernel with its time."""

    tile: kernels.KernelTile
    time_s: float  # Its time [s]
    tiles: int  # Number of its tiles
    tile_cycles: float  # Mean cycles of a tile
    units: Mapping[str, float]  # Mean cycles of a tile in which each unit works
    # Share of the kernel's time in which each unit works, mean of all SMs
    shares: Mapping[str, float]
    limiting_unit: str
    iteration: WarpgroupSchedule  # One iteration of the main loop of its longest tile


def design_kernel(
    work: kernels.Work,
    family: kernels.KernelFamily,
    silicon: kernels.Silicon,
    clock_factor: float,
    tile: kernels.KernelTile | None = None,
) -> KernelDesign:
    """Return a kernel with its time, by default with the tile of the best known one.

    Args:
        clock_factor: Fitted efficiency over the maximum clock.

    Raises:
        InvalidSpecError: The MMA instruction cannot compute the tile.
        InfeasibleError: The SM cannot hold the tile.
        UnsupportedError: No known kernel has so large heads.

    Limits: Masks within a block, uneven groups and tails of persistent kernels are not modelled.
        The copies of a tile come from L2 at one rate, whatever the other SMs read.
    """
    if tile is not None:
        check_tile(work, tile, silicon)
        return _best([tile], work, family, silicon, clock_factor)
    if isinstance(work, kernels.AttentionWork):
        tile = known_tile(work, family)
        check_tile(work, tile, silicon)
        return _best([tile], work, family, silicon, clock_factor)
    return _best(list(gemm_tiles(work, family, silicon)), work, family, silicon, clock_factor)


def _best(
    tiles: Sequence[kernels.KernelTile],
    work: kernels.Work,
    family: kernels.KernelFamily,
    silicon: kernels.Silicon,
    clock_factor: float,
) -> KernelDesign:
    """Return the fastest of some tiles; where they leave SMs idle, with the best split."""

    def fastest(tiles: Iterable[kernels.KernelTile]) -> KernelDesign:
        designs = [_priced(work, tile, family, silicon, clock_factor) for tile in tiles]
        return min(designs, key=lambda kernel_design: kernel_design.time_s)

    whole = fastest(tiles)
    can_split = work.may_split and not whole.tile.is_split
    if not can_split or whole.tiles >= silicon.sm_count:
        return whole
    return fastest([whole.tile, *(part for tile in tiles for part in split_tiles(work, tile))])


def _priced(
    work: kernels.Work,
    tile: kernels.KernelTile,
    family: kernels.KernelFamily,
    silicon: kernels.Silicon,
    clock_factor: float,
) -> KernelDesign:
    loop, sm = loop_of(work, tile, family, silicon), kernels.sm_constants()
    counts = work.blocks(tile)
    outside = dict.fromkeys(counts, family.tile_cycles)
    if tile.streamed:
        counts, outside = _streamed(counts, tile, family, silicon)
    schedules = {blocks: tile_schedule(loop, blocks) for blocks in counts}
    cycles = {blocks: schedule.cycles + outside[blocks] for blocks, schedule in schedules.items()}
    clock_hz = silicon.kernel_hz(clock_factor)
    compute_s = (
        sm_cycles({cycles[number]: count for number, count in counts.items()}, silicon.sm_count)
        / clock_hz
    )
    memory_s = work.memory_bytes() / (sm["memory_efficiency"] * silicon.memory_bytes_per_s)
    longer, power = max(compute_s, memory_s), sm["overlap_power"]
    kernel_s = longer * (1.0 + (min(compute_s, memory_s) / longer) ** power) ** (1.0 / power)
    tiles = sum(counts.values())
    units = {
        unit: sum(schedules[number].busy.get(unit, 0.0) * count for number, count in counts.items())
        / tiles
        for unit in UNITS
    }
    mean = sum(cycles[number] * count for number, count in counts.items()) / tiles
    cycles_per_s = clock_hz * silicon.sm_count / tiles
    backward = isinstance(work, kernels.AttentionWork) and work.backward
    # gradients of queries are prepared and converted by kernels of their own
    time_s = family.launch_s * (3 if backward else 1) + kernel_s
    if tile.splits > 1:
        rate = sm["partial_rate"] * sm["memory_efficiency"] * silicon.memory_bytes_per_s
        time_s += sm["reduction_s"] + work.partial_bytes(tile) / rate
    used = {unit: cycles for unit, cycles in units.items() if cycles}
    used[MEMORY] = memory_s * cycles_per_s
    return KernelDesign(
        tile=tile,
        time_s=time_s,
        tiles=tiles,
        tile_cycles=mean,
        units=used,
        shares={unit: cycles / (time_s * cycles_per_s) for unit, cycles in used.items()},
        limiting_unit=LAUNCH
        if family.launch_s > longer
        else _limiting(used, mean, kernel_s * cycles_per_s),
        iteration=steady_iteration(loop, max(counts)),
    )


def _streamed(
    counts: Mapping[int, int],
    tile: kernels.KernelTile,
    family: kernels.KernelFamily,
    silicon: kernels.Silicon,
) -> tuple[dict[int, int], dict[int, float]]:
    """Return the shares of stream-K by their blocks, and the cycles outside their main loops.

    An SM ends every tile that it works on, and passes one partial tile to a neighbour.
    """
    blocks = sum(length * number for length, number in counts.items())
    shares = min(silicon.sm_count, blocks)
    share = math.ceil(blocks / shares)
    copied = kernels.architecture_limits(silicon.architecture)["copy_bytes_per_cycle"]
    ends = 1.0 + sum(counts.values()) / shares
    return {share: shares}, {share: ends * family.tile_cycles + 8.0 * tile.m * tile.n / copied}


def _limiting(units: Mapping[str, float], tile_cycles: float, kernel_cycles: float) -> str:
    """Return what limits a kernel: the busiest unit, or latency if all of them mostly wait.

    Units of an SM work while it computes a tile, the device memory during the whole kernel.
    """
    whole = dict.fromkeys(units, tile_cycles) | {MEMORY: kernel_cycles}
    busy = [unit for unit, cycles in units.items() if cycles >= BUSY * whole[unit]]
    return max(busy, key=units.__getitem__, default=LATENCY)


def sm_cycles(tiles: Mapping[float, int], sm_count: int) -> float:
    """Return the cycles of the last SM when the longest tiles start first.

    Example:
        >>> from perfatlas.machines.gpu.pipeline.pricing import sm_cycles
        >>> sm_cycles({100.0: 3, 50.0: 2}, 2)
        200.0
    """
    load_S = np.zeros(sm_count)
    for cycles in sorted(tiles, reverse=True):
        uneven = int(np.ptp(load_S) // cycles) + 1
        rounds = max(tiles[cycles] // sm_count - uneven, 0)
        rest = tiles[cycles] - rounds * sm_count
        # the rest start at the earliest of the times at which SMs are free
        free_SR = load_S[:, None] + cycles * np.arange(rest // sm_count + uneven + 1)
        chosen = np.argsort(free_SR, axis=None, kind="stable")[:rest]
        placed_S = np.bincount(chosen // free_SR.shape[1], minlength=sm_count)
        load_S += cycles * (rounds + placed_S)
    return float(load_S.max())


def what_ifs(
    design: KernelDesign,
    work: kernels.Work,
    family: kernels.KernelFamily,
    silicon: kernels.Silicon,
    clock_factor: float,
) -> list[tuple[str, KernelDesign | PerfatlasError]]:
    """Return what changes of the tile and of the device would do, or why they are impossible.

    Args:
        clock_factor: Fitted efficiency over the maximum clock.
    """
    tile = design.tile
    unchanged = {"m": tile.m, "n": tile.n, "k": tile.k, "warpgroups": tile.warpgroups}
    unchanged["paired"] = tile.paired
    latent = isinstance(work, kernels.AttentionWork) and work.latent_dim
    rows = 0 if latent else tile.rows  # of another warpgroup
    sizes = {
        f"{COLUMNS_MORE} more columns": {"n": tile.n + COLUMNS_MORE},
        "one more warpgroup": {"m": tile.m + rows, "warpgroups": tile.warpgroups + 1},
    }
    if isinstance(work, kernels.GemmWork) and family.pairs:
        sizes["1-CTA MMA" if tile.paired else "2-CTA MMA"] = {"paired": not tile.paired}
    changes = [("one more stage", replace(tile, stages=tile.stages + 1), silicon)]
    changes += [
        (text, completed_tile(work, silicon, {**unchanged, **changed}), silicon)
        for text, changed in sizes.items()
    ]
    if isinstance(work, kernels.GemmWork):
        halves = replace(tile, splits=2 * tile.splits, streamed=False)
        changes.append((f"split-K in {halves.splits} parts", halves, silicon))
        changes += (
            [] if tile.streamed else [("stream-K", replace(tile, splits=1, streamed=True), silicon)]
        )
    if isinstance(work, kernels.AttentionWork):
        faster = replace(silicon, exponentials=2.0 * silicon.exponentials)
        changes.append(("twice the exponential rate", tile, faster))
    changes += [
        ("twice the tensor rate", tile, replace(silicon, mma_flop=2.0 * silicon.mma_flop)),
        (
            "twice the memory bandwidth",
            tile,
            replace(silicon, memory_bytes_per_s=2.0 * silicon.memory_bytes_per_s),
        ),
    ]
    results: list[tuple[str, KernelDesign | PerfatlasError]] = []
    for text, changed, device in changes:
        try:
            results.append((text, design_kernel(work, family, device, clock_factor, changed)))
        except PerfatlasError as problem:
            results.append((text, problem))
    return results
