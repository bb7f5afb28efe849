"""Main loops of kernels as programs: FlashAttention-3 and -4, and GEMMs of warp specialists."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from perfatlas.machines.gpu.pipeline import kernels
from perfatlas.machines.gpu.pipeline.servers import Step, WarpgroupSchedule, run_programs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.machines.gpu.pipeline.servers import Event

TENSOR, VECTOR, ISSUE, EXPONENTIALS, SHARED, COPY = UNITS = (
    *("tensor cores", "vector units", "issue slots", "exponentials"),
    *("shared memory", "copy engine"),
)
STEADY: Final = (12, 24)  # blocks between which a loop repeats itself
COLUMN_STEP: Final = 8  # of the columns of an MMA instruction
HARDWARE_RATE: Final = 16  # exponentials per cycle below which kernels emulate some


@dataclass(frozen=True, kw_only=True)
class AttentionLoop:
    """One block of keys in attention, for one warpgroup [cycles]."""

    # Tensor cores, of the scores; backward, of the gradients of probabilities too
    score_product: float
    value_product: float  # Tensor cores, of the values; backward, of three gradients
    score_operands: float  # Shared memory, of the product of queries and keys
    value_operands: float  # Shared memory, of the product of probabilities and values
    comparisons: float  # Row maximum; it overlaps with the exponentials of other warpgroups
    softmax: float  # Vector units, of exponentials with the FP32 instructions among them
    exponentials: float  # The exponentials of them
    issued: float  # Issue slots of the row maximum and of the softmax
    rescaling: float  # Rescaling of the output in the same warpgroup; 0 if another does it
    copy: float  # Copy of a tile of keys or values
    latency: float  # Latency of that copy
    stages: int  # Tiles of keys or values in shared memory
    warpgroups: int
    in_place: bool  # Whether probabilities replace the scores in tensor memory
    # Whether values are a part of the keys: warpgroups take turns in blocks of keys, each of which
    # comes in once, where others have rows of their own
    latent: bool = False

    def programs(self, blocks: int) -> list[list[Step]]:
        """Return the producer and the warpgroups of a tile."""
        return [self._producer(blocks), *(self._group(g, blocks) for g in range(self.warpgroups))]

    def _producer(self, blocks: int) -> list[Step]:
        """Return the copies, in the order in which the products need them."""
        if self.latent:
            keys = [("values", j) for j in range(blocks)]
            return _copies(keys, self.copy, self.latency, self.stages, self.warpgroups, turns=True)
        tiles: list[tuple[str, int]] = sorted(
            ((kind, j) for j in range(blocks) for kind in ("scores", "values")),
            key=lambda tile: (tile[1] + (tile[0] == "values" and not self.in_place), tile[0]),
        )
        return _copies(tiles, self.copy, self.latency, self.stages, self.warpgroups)

    def _group(self, group: int, blocks: int) -> list[Step]:
        """Return the steps of a warpgroup: FlashAttention overlaps its softmax with products."""

        def scores(j: int) -> list[Step]:
            return [self._product("scores", j, group)] if j < blocks else []

        blocks_of_group = range(group, blocks, self.warpgroups) if self.latent else range(blocks)
        # the keys of the next scores may replace those whose values are to be multiplied
        values_first = self.in_place or (self.latent and self.stages <= self.warpgroups)
        if not blocks_of_group:
            return []
        steps = scores(blocks_of_group[0])
        for j in blocks_of_group:
            steps.append(
                Step(
                    event=("maximum", j, group),
                    after=(("scores", j, group),),
                    latency=self.comparisons,
                )
            )
            steps.append(
                Step(
                    event=("softmax", j, group),
                    holds={VECTOR: self.softmax},
                    counts={EXPONENTIALS: self.exponentials, ISSUE: self.issued},
                )
            )
            if j != blocks_of_group[0] and self.rescaling:
                steps.append(
                    Step(
                        event=("rescaling", j, group),
                        after=(("values", j - blocks_of_group.step, group),),
                        counts={ISSUE: self.rescaling},
                        latency=self.rescaling,
                    )
                )
            values = [self._product("values", j, group)]
            # probabilities in tensor memory must be multiplied before the next scores replace them
            further = scores(j + blocks_of_group.step)
            steps += values + further if values_first else further + values
        return [*steps, Step(event=("end", group), after=(("values", blocks_of_group[-1], group),))]

    def _product(self, kind: str, j: int, group: int) -> Step:
        if kind == "scores":
            product, operands = self.score_product, self.score_operands
        else:
            product, operands = self.value_product, self.value_operands
        return Step(
            event=(kind, j, group),
            after=(("values" if self.latent else kind, j),),
            holds={TENSOR: product, SHARED: operands},
            waits=False,
        )


@dataclass(frozen=True, kw_only=True)
class GemmLoop:
    """One block of the inner dimension in a GEMM, for one warpgroup [cycles]."""

    product: float  # Tensor cores
    operands: float  # Shared memory
    promotion: float  # Addition of the partial sums in registers; 0 without
    copy: float  # Copy of a pair of operand tiles
    latency: float  # Latency of that copy
    stages: int  # Pairs of operand tiles in shared memory
    warpgroups: int

    def programs(self, blocks: int) -> list[list[Step]]:
        """Return the producer and the warpgroups of a tile."""
        tiles = [("product", j) for j in range(blocks)]
        producer = _copies(tiles, self.copy, self.latency, self.stages, self.warpgroups)
        return [producer, *(self._group(g, blocks) for g in range(self.warpgroups))]

    def _group(self, group: int, blocks: int) -> list[Step]:
        steps: list[Step] = []
        for j in range(blocks):
            done = ("product", j, group)
            holds = {TENSOR: self.product, SHARED: self.operands}
            steps.append(Step(event=done, after=(("product", j),), holds=holds, waits=False))
            if self.promotion:
                promoted = {VECTOR: self.promotion}
                steps.append(Step(event=("sum", j, group), after=(done,), holds=promoted))
        return [*steps, Step(event=("end", group), after=(("product", blocks - 1, group),))]


Loop = AttentionLoop | GemmLoop


def _copies(
    tiles: Sequence[tuple[str, int]],
    copy: float,
    latency: float,
    stages: int,
    warpgroups: int,
    *,
    turns: bool = False,
) -> list[Step]:
    """Return copies that each wait until the tile before in their buffer was multiplied.

    With `turns`, warpgroups take turns in tiles, instead of all multiplying each.
    """
    steps = []
    for index, tile in enumerate(tiles):
        freed: tuple[Event, ...] = ()
        if index >= stages:
            users = [(index - stages) % warpgroups] if turns else range(warpgroups)
            freed = tuple((*tiles[index - stages], group) for group in users)
        steps.append(
            Step(event=tile, after=freed, holds={COPY: copy}, latency=latency, waits=False)
        )
    return steps


@lru_cache(maxsize=4096)
def _simulated(loop: Loop, blocks: int) -> WarpgroupSchedule:
    return run_programs(loop.programs(blocks))


def tile_schedule(loop: Loop, blocks: int) -> WarpgroupSchedule:
    """Return the schedule of one tile; a long one goes on as between `STEADY` blocks.

    Units that steps use without queueing bound it too: no tile ends before its busiest unit does.
    """
    first, last = STEADY
    if blocks <= last:
        return _bounded(_simulated(loop, blocks))
    begin, end = _simulated(loop, first), _simulated(loop, last)
    more = (blocks - last) / (last - first)
    busy = {unit: used + more * (used - begin.busy[unit]) for unit, used in end.busy.items()}
    cycles = end.cycles + more * (end.cycles - begin.cycles)
    return _bounded(WarpgroupSchedule(cycles=cycles, busy=busy))


def steady_iteration(loop: Loop, blocks: int) -> WarpgroupSchedule:
    """Return one iteration of the main loop, from the end of a product to that of the next.

    Of a tile with few blocks, or a single one, it is the whole tile.
    """
    whole = _simulated(loop, min(blocks, STEADY[1]))
    turns = loop.warpgroups if isinstance(loop, AttentionLoop) and loop.latent else 1
    last = turns * (min(blocks, STEADY[1]) // (2 * turns))
    kind = "values" if isinstance(loop, AttentionLoop) else "product"
    ends = {interval.event: interval.end for interval in whole.intervals if interval.unit == TENSOR}
    begin, end = (ends.get((kind, j, 0)) for j in (last - turns, last))
    if begin is None or end is None:
        begin, end = 0.0, whole.cycles
    seen = [
        replace(
            interval, start=max(interval.start, begin) - begin, end=min(interval.end, end) - begin
        )
        for interval in whole.intervals
        if interval.start < end and interval.end > begin
    ]
    busy = {
        unit: sum(interval.end - interval.start for interval in seen if interval.unit == unit)
        for unit in UNITS
        if any(interval.unit == unit for interval in seen)
    }
    return WarpgroupSchedule(cycles=end - begin, busy=busy, intervals=tuple(seen))


def _bounded(schedule: WarpgroupSchedule) -> WarpgroupSchedule:
    return replace(schedule, cycles=max(schedule.cycles, *schedule.busy.values()))


def loop_of(
    work: kernels.Work,
    tile: kernels.KernelTile,
    family: kernels.KernelFamily,
    silicon: kernels.Silicon,
) -> Loop:
    """Return the main loop of a kernel."""
    if isinstance(work, kernels.AttentionWork):
        loop = _attention_loop(work, tile, family, silicon)
        return _backward_loop(loop, work, tile, family) if work.backward else loop
    return _gemm_loop(work, tile, silicon)


def _attention_loop(
    work: kernels.AttentionWork,
    tile: kernels.KernelTile,
    family: kernels.KernelFamily,
    silicon: kernels.Silicon,
) -> AttentionLoop:
    sm, limits = kernels.sm_constants(), kernels.architecture_limits(silicon.architecture)
    latent, in_registers = bool(work.latent_dim), limits["accumulators"] == "registers"
    in_place = not in_registers and not latent
    rows = tile.m if latent else tile.rows
    instructions = math.ceil(rows / (sm["latent_rows"] if latent else limits["mma_rows"]))
    if work.packed and in_place:
        # with keys in the rows of the MMA instruction, queries fill its columns in steps of 8
        rows = min(rows, -(-work.packed_rows // COLUMN_STEP) * COLUMN_STEP)
    scores = rows * tile.n
    emulated = family.emulated_exponentials if silicon.exponentials <= HARDWARE_RATE else 0.0
    fp32 = family.fp32_per_score + family.emulation_fp32 * emulated
    exponentials = scores * (1.0 - emulated) / silicon.exponentials
    block_bytes = tile.n * work.head_dim * work.element_bytes
    value_bytes = tile.n * work.value_dim * work.element_bytes
    # on Blackwell latent attention holds its queries in tensor memory
    queries_bytes = (
        0.0 if latent and not in_registers else rows * work.head_dim * work.element_bytes
    )
    return AttentionLoop(
        score_product=2.0 * scores * work.head_dim / silicon.mma_flop,
        value_product=2.0 * scores * work.value_dim / silicon.mma_flop,
        score_operands=(instructions * block_bytes + queries_bytes) / sm["shared_bytes_per_cycle"],
        value_operands=instructions * value_bytes / sm["shared_bytes_per_cycle"],
        comparisons=scores * family.comparisons_per_score / sm["comparisons_per_cycle"],
        softmax=exponentials + scores * fp32 / sm["lanes_per_cycle"],
        exponentials=exponentials,
        issued=scores
        * (family.comparisons_per_score + 1.0 - emulated + fp32)
        / sm["lanes_per_cycle"],
        rescaling=rows * work.value_dim / sm["lanes_per_cycle"] if in_registers else 0.0,
        copy=block_bytes / limits["copy_bytes_per_cycle"],
        latency=sm["copy_latency_cycles"],
        stages=tile.stages,
        warpgroups=tile.warpgroups,
        in_place=in_place,
        latent=latent,
    )


def _backward_loop(
    loop: AttentionLoop,
    work: kernels.AttentionWork,
    tile: kernels.KernelTile,
    family: kernels.KernelFamily,
) -> AttentionLoop:
    """Return the loop of gradients of a tile of keys from that of its forward pass.

    Two products give scores and gradients of probabilities, three the gradients of values, keys
    and queries. Queries and gradients of outputs come in, gradients of queries leave in FP32.
    """
    lanes, scores = kernels.sm_constants()["lanes_per_cycle"], tile.rows * tile.n
    fp32 = scores * family.backward_fp32_per_score / lanes
    outgoing = 4.0 / work.element_bytes / 2.0  # of each of two copies, over a tile that comes in
    return replace(
        loop,
        score_product=2.0 * loop.score_product,
        value_product=3.0 * loop.value_product,
        score_operands=2.0 * loop.score_operands,
        value_operands=3.0 * loop.value_operands,
        comparisons=0.0,
        softmax=loop.exponentials + fp32,
        issued=scores / lanes + fp32,
        rescaling=0.0,
        copy=(1.0 + outgoing) * loop.copy,
    )


def _gemm_loop(
    work: kernels.GemmWork, tile: kernels.KernelTile, silicon: kernels.Silicon
) -> GemmLoop:
    sm, limits = kernels.sm_constants(), kernels.architecture_limits(silicon.architecture)
    instructions = math.ceil(tile.rows / limits["mma_rows"])
    columns = tile.n / 2 if tile.paired else tile.n  # each SM of a pair holds half of them
    row_bytes = tile.k * work.element_bytes
    operand_bytes = (tile.rows + instructions * columns) * row_bytes
    return GemmLoop(
        product=2.0 * tile.rows * tile.n * tile.k / silicon.mma_flop,
        operands=operand_bytes / sm["shared_bytes_per_cycle"],
        promotion=tile.rows * tile.n / sm["lanes_per_cycle"] if work.promotes else 0.0,
        copy=(min(tile.m, work.m) + columns) * row_bytes / limits["copy_bytes_per_cycle"],
        latency=sm["copy_latency_cycles"],
        stages=tile.stages,
        warpgroups=tile.warpgroups,
    )
