"""Kernels under design: what they compute, tiles, silicon, families with fitted constants."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import shipped_table
from perfatlas.hardware import resolve_system
from perfatlas.quantities import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.hardware import Device

_DATA: Final = "data/kernel_designs.toml"
MAX_TILE_LENGTHS: Final = 8192  # of tiles; beyond, neighbours have the length of the longest


@dataclass(frozen=True, kw_only=True)
class KernelFamily:
    """A family of kernels on one architecture."""

    name: str
    operator: str  # attention or gemm
    architecture: str  # Architecture of its devices
    formats: tuple[str, ...]  # Number formats that it multiplies
    head_dims: tuple[int, ...] = ()  # Head dimensions whose speed is published
    # FP32 instructions per score beside the exponential and the row maximum
    fp32_per_score: float = 0.0
    comparisons_per_score: float = 0.0  # Comparisons per score, for the row maximum
    emulated_exponentials: float = 0.0  # Share of the exponentials that FP32 instructions compute
    emulation_fp32: float = 0.0  # FP32 instructions of one of them
    backward_fp32_per_score: float = 0.0  # The same in the backward pass, beside the exponential
    promoted: tuple[str, ...] = ()  # Formats whose partial sums are added in registers
    least_rows: int = 0  # Fewest rows of a product whose speeds the model predicts
    launch_s: float  # Launch of the kernel [s]
    tile_cycles: float  # Cycles of each tile outside its main loop
    # By device, sustained clock and efficiency of the instruction stream over the maximum clock; at
    # most 0.95
    clock_factor: Mapping[str, float]
    # Half-width of the 90% interval of ln(time), on devices of the fit (fitted), on others
    # (transferred), and on those with another tensor rate per SM or power limit than the device
    # whose clock factor they have (unlike); of products that do not fill the SMs (few)
    half_width: Mapping[str, float]
    evidence: str  # The measurements of the fit
    scored: tuple[str, ...] = ()  # Devices on which the transfer was scored
    tile: tuple[Mapping[str, Any], ...] = field(default=())  # Known tiles by head dimension

    @property
    def pairs(self) -> bool:
        """Whether two thread blocks may share an MMA instruction."""
        return bool(architecture_limits(self.architecture)["tensor_memory_columns"])

    def factor_of(self, device: Device) -> float:
        """Return the clock factor of a device; of another one that was measured, if it was not."""
        return self.clock_factor[self.donor_of(device)]

    def donor_of(self, device: Device) -> str:
        """Return the device whose clock factor a device has: its own, if it was fitted."""
        return device.name if device.name in self.clock_factor else next(iter(self.clock_factor))

    def is_unlike(self, device: Device) -> bool:
        """Return whether no speeds show that a clock factor holds on a device.

        The clock under load follows from the tensor rate per SM and the power limit.
        """
        name = device.name if device.name in self.scored else self.donor_of(device)
        measured = resolve_system(name).device
        return _load(device) != _load(measured)

    def width_of(self, device: Device) -> float:
        """Return the half-width of ln(time) on a device."""
        if self.is_unlike(device):
            return self.half_width["unlike"]
        return self.half_width["fitted" if device.name in self.clock_factor else "transferred"]


def _load(device: Device) -> tuple[float, float]:
    return device.number("flop_per_clock_per_sm"), device.tdp_w


@cache
def sm_constants() -> dict[str, float]:
    """Return what all streaming multiprocessors have in common, by name."""
    return {name: float(row["value"]) for name, row in shipped_table(_DATA)["sm"].items()}


@cache
def architecture_limits(architecture: str) -> dict[str, Any]:
    """Return where an architecture accumulates, and the rows of its MMA instruction."""
    limits: dict[str, Any] = shipped_table(_DATA)["architecture"][architecture]
    return limits


@cache
def kernel_families() -> tuple[KernelFamily, ...]:
    """Return all families."""
    rows: list[dict[str, Any]] = [
        {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
        for row in shipped_table(_DATA)["family"]
    ]
    return tuple(KernelFamily(**row) for row in rows)


def family_of(operator: str, device: Device, format_name: str) -> KernelFamily:
    """Return the family of kernels of an operator on a device.

    Args:
        operator: attention or gemm.

    Raises:
        UnsupportedError: No family has the architecture or the format.
    """
    families = [
        kernel_family for kernel_family in kernel_families() if kernel_family.operator == operator
    ]
    matching = [family for family in families if family.architecture == device.architecture]
    if not matching:
        architectures = ", ".join(dict.fromkeys(family.architecture for family in families))
        raise UnsupportedError(
            f"kernel design {operator} models kernels of the architectures {architectures}, and"
            f" {device.name} is {device.architecture}; use kernel {operator}"
        )
    if format_name not in matching[0].formats:
        raise UnsupportedError(
            f"kernel design {operator} has no published speeds in format = {format_name} on"
            f" {device.architecture}; use {', '.join(matching[0].formats)}, or kernel {operator}"
        )
    return matching[0]


@dataclass(frozen=True, kw_only=True)
class Silicon:
    """One device as a pipeline sees it."""

    architecture: str
    sm_count: int  # Streaming multiprocessors
    clock_hz: float  # Maximum clock
    sustained_hz: float  # Clock that kernels cannot exceed for long
    mma_flop: float  # FLOP per cycle of the tensor cores of an SM, in the format
    exponentials: float  # Exponentials per cycle of an SM
    shared_bytes: int  # Shared memory of one block
    memory_bytes_per_s: float  # Bandwidth of the device memory

    def kernel_hz(self, clock_factor: float) -> float:
        """Return the clock at which kernels are priced; efficiency does not raise it."""
        return min(clock_factor * self.clock_hz, self.sustained_hz)


def kernel_silicon(device: Device, tensor_peak: str, clock_ratio: float = 1.0) -> Silicon:
    """Return a device in a format.

    Args:
        tensor_peak: Name of its peak in the format, such as bf16 or fp8.
        clock_ratio: Clock that the power limit leaves over that in the state of the fit.
    """
    ratio = device.peak_flop_per_s[tensor_peak] / device.peak_flop_per_s["bf16"]
    reserved = int(sm_constants()["reserved_shared_bytes"])
    return Silicon(
        architecture=device.architecture,
        sm_count=int(device.number("sm_count")),
        clock_hz=clock_ratio * device.boost_clock_hz,
        sustained_hz=clock_ratio * device.sustained_clock_hz,
        mma_flop=device.number("flop_per_clock_per_sm") * ratio,
        exponentials=device.number("exponentials_per_sm_clock"),
        shared_bytes=int(device.number("shared_memory_bytes")) - reserved,
        memory_bytes_per_s=device.memory_bandwidth,
    )


@dataclass(frozen=True, kw_only=True)
class KernelTile:
    """The tile of a thread block."""

    m: int  # Rows: of queries, or of the output
    n: int  # Columns: keys of a block, or columns of the output
    k: int  # Depth of a block: the head dimension in attention
    stages: int  # Buffers of the main loop: tiles of keys or values, or pairs of operand tiles
    warpgroups: int  # Warpgroups that compute, each on its own rows
    paired: bool = False  # Whether two blocks on neighbouring SMs share the columns (2-CTA MMA)
    splits: int = 1  # Parts of the inner dimension, or of the keys; a second kernel reduces them
    # Whether every SM computes an equal share of all blocks (stream-K), wherever its tiles begin
    # and end
    streamed: bool = False

    @property
    def is_split(self) -> bool:
        """Whether the inner dimension is computed in parts."""
        return self.splits > 1 or self.streamed

    @property
    def rows(self) -> int:
        """Rows of each warpgroup."""
        return self.m // self.warpgroups


@dataclass(frozen=True, kw_only=True)
class AttentionWork:
    """Attention of one layer."""

    batch: int  # Sequences
    q_len: int  # Queries of each
    kv_len: int  # Keys of each
    heads: int  # Query heads
    kv_heads: int
    head_dim: int  # Head dimension
    causal: bool  # Whether queries see only keys before them
    element_bytes: float = 2.0
    # Whether it computes gradients: a tile has m keys, and its blocks n queries
    backward: bool = False
    # Whether a tile has the queries of all heads that share keys, as in decode
    packed: bool = False
    # Latent attention: width of the values, the first columns of the keys of all heads; 0 for
    # values of their own
    latent_dim: int = 0

    @property
    def value_dim(self) -> int:
        """Width of the values."""
        return self.latent_dim or self.head_dim

    def memory_bytes(self) -> float:
        """Return the bytes of queries, keys, values and outputs, or of them and their gradients."""
        if self.latent_dim:
            queries = self.heads * self.q_len * (self.head_dim + self.latent_dim)
            return self.batch * (queries + self.kv_len * self.head_dim) * self.element_bytes
        rows: float = 2 * self.heads * self.q_len + 2 * self.kv_heads * self.kv_len
        if self.backward:  # gradients of queries are added in FP32, then converted
            sums = 8.0 * self.heads * self.q_len / self.element_bytes
            rows = 2 * rows + sums
        return self.batch * rows * self.head_dim * self.element_bytes

    @property
    def packed_rows(self) -> int:
        """Queries that share keys in decode: those of all heads of a group."""
        return self.q_len * self.heads // self.kv_heads

    @property
    def may_split(self) -> bool:
        """Whether kernels split the keys: in decode."""
        return self.packed

    def partial_bytes(self, tile: KernelTile) -> float:
        """Return the bytes of partial outputs that a second kernel writes and reads, in FP32."""
        rows = self.batch * self.heads * self.q_len
        return 8.0 * tile.splits * rows * self.value_dim if tile.splits > 1 else 0.0

    def blocks(self, tile: KernelTile) -> dict[int, int]:
        """Return the tiles by their number of key blocks."""
        if self.packed:
            rows = math.ceil(self.packed_rows / tile.m)
            number = rows * self.batch * self.kv_heads * tile.splits
            return {math.ceil(self.kv_len / tile.n / tile.splits): number}
        counts: dict[int, int] = {}
        tiles = math.ceil((self.kv_len if self.backward else self.q_len) / tile.m)
        together = math.ceil(tiles / MAX_TILE_LENGTHS)
        for first in range(0, tiles, together):
            beyond = min(first + together, tiles)
            blocks = math.ceil(self._seen(first, beyond, tile.m) / tile.n)
            number = (beyond - first) * self.batch * self.heads
            counts[blocks] = counts.get(blocks, 0) + number
        return counts

    def _seen(self, first: int, beyond: int, rows: int) -> int:
        """Return the keys that tiles of queries see, or the queries that see tiles of keys."""
        if not self.causal:
            return self.q_len if self.backward else self.kv_len
        before = self.kv_len - self.q_len
        if self.backward:
            return self.q_len - min(max(first * rows - before, 0), self.q_len - 1)
        return before + min(beyond * rows, self.q_len)


@dataclass(frozen=True, kw_only=True)
class GemmWork:
    """Matrix products of equal shapes, each with weights of its own."""

    m: int
    n: int
    k: int  # Inner dimension
    groups: int
    element_bytes: float  # Bytes of an element of the operands
    promotes: bool  # Whether partial sums are added in registers
    output_bytes: float = 2.0  # Bytes of an element of the output

    def memory_bytes(self) -> float:
        """Return the bytes of operands and outputs."""
        operands = (self.m + self.n) * self.k * self.element_bytes
        return self.groups * (operands + self.m * self.n * self.output_bytes)

    @property
    def may_split(self) -> bool:
        """Whether libraries split the inner dimension: in one product without promotion."""
        return self.groups == 1 and not self.promotes

    def blocks(self, tile: KernelTile) -> dict[int, int]:
        """Return the tiles by their number of blocks of the inner dimension."""
        blocks = 2 if tile.paired else 1  # a pair computes two tiles, one above the other
        rows = blocks * math.ceil(self.m / (blocks * tile.m))
        number = self.groups * rows * math.ceil(self.n / tile.n)
        return {math.ceil(self.k / tile.k / tile.splits): number * tile.splits}

    def partial_bytes(self, tile: KernelTile) -> float:
        """Return the bytes of partial outputs that a second kernel writes and reads, in FP32."""
        return 8.0 * tile.splits * self.groups * self.m * self.n if tile.splits > 1 else 0.0


Work = AttentionWork | GemmWork
