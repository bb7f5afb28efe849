"""Calibration cells of multi-head latent attention, from the measured MLA tables.

Shape legend: U measured rows, D shape dimensions.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Final

from perfatlas import hardware
from perfatlas.fitting.cells import attention
from perfatlas.fitting.cells.cell import Cell, CellMaker, Range
from perfatlas.formats import get_format
from perfatlas.machines.gpu.kernels.latent_attention import mla_decode_time_s, mla_prefill_time_s
from perfatlas.operators import LatentAttention

if TYPE_CHECKING:
    from collections.abc import Mapping

OPERATORS: Final = ("mla_prefill", "mla_decode")

PREFILL_RANGES: Final = {
    "efficiency_compute": Range(start=0.6, low=0.1, high=1.0),
    "efficiency_bandwidth": Range(start=0.5, low=0.1, high=1.0),
    "overhead_launch_s": Range(start=11e-6, low=1e-6, high=60e-6),
    "overhead_tile_cycles": Range(start=4000.0, low=100.0, high=30000.0),
    "exponential_cost": Range(start=0.3, low=0.005, high=4.0),
    "overlap_power": Range(start=2.0, low=1.0, high=8.0),
    "l2_fraction": Range(start=0.1, low=0.005, high=3.0),
    "tile_queries": Range(start=128.0, low=64.0, high=256.0),
    "key_block": Range(start=128.0, low=64.0, high=128.0),
    "longest_last": Range(start=1.0, low=0.0, high=1.0),
    "fixed_tile": Range(start=0.0, low=0.0, high=1.0),
}
PREFILL_GRID: Final = tuple(
    {"tile_queries": tile, "key_block": block, "longest_last": last, "fixed_tile": fixed}
    for (tile, block), last, fixed in product(attention.QUERY_TILES, (1.0, 0.0), (0.0, 1.0))
)

NO_SPLIT: Final = 1e9  # keys: without generated kernels there is no split

DECODE_RANGES: Final = {
    "efficiency_compute": Range(start=0.5, low=0.02, high=1.0),
    "efficiency_bandwidth": Range(start=0.85, low=0.3, high=1.0),
    "overhead_launch_s": Range(start=6e-6, low=1e-6, high=60e-6),
    "overhead_unit_cycles": Range(start=9000.0, low=100.0, high=60000.0),
    "overhead_split_s": Range(start=1.5e-6, low=0.02e-6, high=20e-6),
    "feed_bytes_per_cycle": Range(start=30.0, low=3.0, high=300.0),
    "overlap_power": Range(start=2.5, low=1.0, high=8.0),
    "l2_fraction": Range(start=0.3, low=0.01, high=3.0),
    "units_per_sm": Range(start=1.0, low=1.0, high=4.0),
    "split_tokens": Range(start=256.0, low=64.0, high=NO_SPLIT),
    "tile_heads": Range(start=64.0, low=8.0, high=128.0),
    "reread_share": Range(start=0.4, low=0.01, high=1.0),
    "narrow_tile": Range(start=0.0, low=0.0, high=16.0),
    "shared_keys": Range(start=0.0, low=0.0, high=1.0),
    "fp8_products": Range(start=0.0, low=0.0, high=1.0),
}
ONE_TILE: Final = {"reread_share": 0.0, "narrow_tile": 0.0, "shared_keys": 0.0}
# Generated kernels use tiles of 16 for fewer than 64 heads, each of which reads the cache, and
# otherwise tiles of 64, two of which share a read.
TWO_TILES: Final = {"tile_heads": 64.0, "narrow_tile": 16.0, "shared_keys": 1.0}
DECODE_GRID: Final = tuple(
    {"units_per_sm": units, "split_tokens": tokens, **tile}
    for units, tokens, tile in product(
        (1.0, 2.0),
        (128.0, 256.0, NO_SPLIT),
        (*({"tile_heads": heads, **ONE_TILE} for heads in (16.0, 64.0, 128.0)), TWO_TILES),
    )
)


def latent_attention_cells(device: str) -> tuple[Cell, ...]:
    """Return the MLA cells of a device: prefill and decode, one per engine and format."""
    return attention.kernel_cells(device, OPERATORS, _cell)


def _decode_grid(device: str, format_name: str) -> tuple[Mapping[str, float], ...]:
    """Return the alternatives of the discrete parameters of a decode kernel.

    Products with an 8-bit cache may run in fp8 where the device supports it.
    """
    peaks = hardware.resolve_system(device).device.peak_flop_per_s
    fp8 = format_name.endswith("+fp8_kv") and get_format("fp8_static").tensor_peak in peaks
    products = (0.0, 1.0) if fp8 else (0.0,)
    return tuple({**fixed, "fp8_products": value} for value in products for fixed in DECODE_GRID)


def _cell(device: str, operator: str, family: str, format_name: str, kernel: str) -> Cell:
    prefill = operator == "mla_prefill"
    return Cell(
        device=device,
        operator=operator,
        family=family,
        format=format_name,
        load=partial(
            attention.load_attention, LatentAttention, device, operator, family, format_name
        ),
        physics=mla_prefill_time_s if prefill else mla_decode_time_s,
        silicon=attention.product_silicon(device, format_name),
        ranges=PREFILL_RANGES if prefill else DECODE_RANGES,
        grid=PREFILL_GRID if prefill else _decode_grid(device, format_name),
        protocol=attention.PROTOCOL.format(kernel=kernel, inside=""),
    )


MAKER: Final = CellMaker(latent_attention_cells, OPERATORS, place=5)
