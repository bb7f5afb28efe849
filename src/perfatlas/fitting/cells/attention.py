"""Calibration cells of softmax attention, from the measured context and generation tables.

Shape legend: U measured rows, D shape dimensions.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas import hardware
from perfatlas.fitting.cells import cell
from perfatlas.machines.gpu.kernels import attention
from perfatlas.machines.gpu.shapes import physics_model
from perfatlas.measurements.tables import default_kernels, table_rows
from perfatlas.operators import Attention, Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.machines.gpu.devices import SiliconRow
    from perfatlas.operators import Operator

OPERATORS: Final = ("prefill_attention", "decode_attention")
PROTOCOL: Final = (
    "kernel {kernel}; CUDA graph; 6 replays after 3 warm-ups read the same tensors (hot where they"
    " fit into the cache); {inside}clocks not locked"
)

NO_LIMIT: Final = 1e9  # larger than any group or call

PREFILL_RANGES: Final = {
    "efficiency_compute": cell.Range(start=0.6, low=0.1, high=1.0),
    "efficiency_bandwidth": cell.Range(start=0.5, low=0.15, high=1.0),
    "overhead_launch_s": cell.Range(start=10e-6, low=1e-6, high=40e-6),
    "overhead_tile_cycles": cell.Range(start=4000.0, low=100.0, high=30000.0),
    "exponential_cost": cell.Range(start=0.3, low=0.005, high=4.0),
    "overlap_power": cell.Range(start=2.0, low=1.0, high=8.0),
    "append_passes": cell.Range(start=0.4, low=0.02, high=4.0),
    "l2_fraction": cell.Range(start=0.1, low=0.005, high=3.0),
    "wide_head_cost": cell.Range(start=0.2, low=0.001, high=4.0),
    "append_block_cycles": cell.Range(start=2000.0, low=100.0, high=30000.0),
    "window_cost": cell.Range(start=0.05, low=0.001, high=1.0),
    "tile_queries": cell.Range(start=128.0, low=64.0, high=256.0),
    "key_block": cell.Range(start=128.0, low=64.0, high=128.0),
    "append_queries": cell.Range(start=1.0, low=0.0, high=1.0),
    "packed_query_max": cell.Range(start=0.0, low=0.0, high=NO_LIMIT),
    "padded_width": cell.Range(start=0.0, low=0.0, high=1.0),
    "fixed_tile": cell.Range(start=0.0, low=0.0, high=1.0),
    "append_threads": cell.Range(start=0.0, low=0.0, high=512.0),
    "splits_keys": cell.Range(start=0.0, low=0.0, high=1.0),
    "longest_last": cell.Range(start=1.0, low=0.0, high=1.0),
}
QUERY_TILES: Final = ((64.0, 64.0), (64.0, 128.0), (128.0, 64.0), (128.0, 128.0), (256.0, 128.0))
# Largest number of queries per call for which a kernel packs heads: FlashAttention-3 and FlashInfer
# always do, FlashAttention-2 for single queries; the others do not.
PACKED_QUERIES: Final[Mapping[str, float]] = {
    "vllm_flash_attn_fa3": NO_LIMIT,
    "fa3": NO_LIMIT,
    "flashinfer": NO_LIMIT,
    "vllm_flashinfer_fiprefill": NO_LIMIT,
    "vllm_flash_attn": 1.0,
    "vllm_flash_attn_fa2": 1.0,
}
# Kernels that split the keys of long tiles over idle SMs: FlashAttention-3 (its own
# heuristic) and FlashInfer (its planner).
SPLIT_PREFILL: Final = (
    "vllm_flash_attn_fa3",
    "fa3",
    "flashinfer",
    "vllm_flashinfer_fiprefill",
)
# Longest tiles first, so that SMs finish together; otherwise a long tile may start last.
LONGEST_FIRST: Final = ("vllm_flash_attn_fa3", "fa3")
APPEND_THREADS: Final = 512.0  # vLLM appends with a block per token of min(512, KV heads x width)

DECODE_RANGES: Final = {
    "efficiency_compute": cell.Range(start=0.25, low=0.01, high=1.0),
    "efficiency_bandwidth": cell.Range(start=0.85, low=0.4, high=1.0),
    "overhead_launch_s": cell.Range(start=7e-6, low=1e-6, high=40e-6),
    "overhead_unit_cycles": cell.Range(start=4000.0, low=100.0, high=30000.0),
    "overhead_split_s": cell.Range(start=1.5e-6, low=0.02e-6, high=20e-6),
    "feed_bytes_per_cycle": cell.Range(start=25.0, low=3.0, high=300.0),
    "overlap_power": cell.Range(start=2.5, low=1.0, high=8.0),
    "l2_fraction": cell.Range(start=0.3, low=0.01, high=3.0),
    "unpacked_unit_cycles": cell.Range(start=3000.0, low=100.0, high=30000.0),
    "unpacked_feed_bytes_per_cycle": cell.Range(start=20.0, low=2.0, high=300.0),
    "unit_width_power": cell.Range(start=0.2, low=0.01, high=1.5),
    "units_per_sm": cell.Range(start=1.0, low=1.0, high=8.0),
    "split_tokens": cell.Range(start=256.0, low=128.0, high=512.0),
    "unpacked_group_max": cell.Range(start=0.0, low=0.0, high=3.0),
    "packed_group_max": cell.Range(start=NO_LIMIT, low=32.0, high=NO_LIMIT),
    "unpacked_window": cell.Range(start=0.0, low=0.0, high=1.0),
    "unpacked_split": cell.Range(start=0.0, low=0.0, high=1.0),
    "packed_split": cell.Range(start=1.0, low=0.0, high=1.0),
    "unpacked_shared": cell.Range(start=0.0, low=0.0, high=1.0),
    "grown_splits": cell.Range(start=0.0, low=0.0, high=1.0),
    "least_blocks_per_sm": cell.Range(start=0.0, low=0.0, high=0.25),
    "regroup_copies": cell.Range(start=0.0, low=0.0, high=1.0),
}


class KernelRule(NamedTuple):
    """Conditions under which a decode kernel runs unpacked, from its source or measurements."""

    unpacked_group_max: float = 0.0
    packed_group_max: float = NO_LIMIT
    unpacked_window: float = 0.0
    unpacked_split: float = 0.0
    packed_split: float = 1.0
    unpacked_shared: float = 0.0
    grown_splits: float = 0.0
    least_blocks_per_sm: float = 0.0
    regroup_copies: float = 0.0


ALWAYS_PACKED: Final = KernelRule()
# FlashAttention-2 packs a group (and only then splits the keys) if there is one and no window. It
# copies queries and outputs of several sequences and KV heads to make groups contiguous.
FLASH_ATTENTION_2: Final = KernelRule(
    unpacked_group_max=1.0, unpacked_window=1.0, regroup_copies=1.0
)
# FlashInfer uses a kernel without tensor cores for groups below four.
FLASH_INFER: Final = KernelRule(unpacked_group_max=3.0, unpacked_split=1.0, unpacked_shared=1.0)
# TensorRT-LLM uses a masked kernel with a block per query head for groups above 32 and, without
# generated Blackwell kernels, for single heads.
MASKED_ABOVE_32: Final = KernelRule(packed_group_max=32.0, unpacked_split=1.0)
MASKED_AND_SINGLE: Final = MASKED_ABOVE_32._replace(unpacked_group_max=1.0)
# Its packed kernel (XQA) splits the keys by the root of the length; calls with fewer blocks of 128
# keys than a quarter of the SMs use the masked kernel, except where a Hopper kernel exists.
PACKED_ROOT: Final = MASKED_AND_SINGLE._replace(grown_splits=1.0)
PACKED_ROOT_IF_MANY: Final = PACKED_ROOT._replace(least_blocks_per_sm=0.25)
# With an fp8 cache the packed kernel of Ada and workstation Blackwell does not split the keys.
MASKED_UNSPLIT: Final = MASKED_AND_SINGLE._replace(packed_split=0.0)

KERNEL_RULES: Final[Mapping[str, tuple[KernelRule, ...]]] = {
    "vllm_flash_attn": (FLASH_ATTENTION_2,),
    "vllm_flash_attn_fa2": (FLASH_ATTENTION_2,),
    "flashinfer": (FLASH_INFER, ALWAYS_PACKED),
}
# At most ten parameters are fitted: a kernel either has an unpacked path or a width power.
ONE_PATH: Final = {"unpacked_unit_cycles": 3000.0, "unpacked_feed_bytes_per_cycle": 20.0}
TWO_PATHS: Final = {"unit_width_power": 0.0}
ROOT_TARGET: Final = (8.0, 128.0)  # blocks per SM and keys per split of the kernel's rule


def attention_cells(device: str) -> tuple[cell.Cell, ...]:
    """Return the attention cells of a device: prefill and decode, one per engine and format."""
    return kernel_cells(device, OPERATORS, _cell)


def kernel_cells(
    device: str, operators: Sequence[str], make: Callable[[str, str, str, str, str], cell.Cell]
) -> tuple[cell.Cell, ...]:
    """Return cells of the default kernel of each engine and format that is not excluded."""
    return tuple(
        make(device, operator, family, format_name, kernel)
        for operator, family in product(operators, cell.FAMILIES)
        for format_name, kernel in default_kernels(device, operator, family).items()
        if not cell.is_excluded(device, operator, family, format_name)
    )


def product_silicon(device: str, format_name: str) -> SiliconRow:
    """Return the silicon of a device for the products of attention."""
    return cell.silicon_columns(device, "fp8_static" if format_name.startswith("fp8") else "bf16")


def prefill_grid(kernel: str) -> tuple[Mapping[str, float], ...]:
    """Return the alternatives of the discrete parameters of a prefill kernel."""
    appends = kernel.startswith("vllm_")
    rules = {
        "packed_query_max": PACKED_QUERIES.get(kernel, 0.0),
        "splits_keys": float(kernel in SPLIT_PREFILL),
        "append_threads": APPEND_THREADS if appends else 0.0,
        "longest_last": float(kernel not in LONGEST_FIRST),
    }
    # At most ten parameters are fitted: vLLM's append, for others the mask of a window.
    rules |= {"window_cost": 0.0} if appends else {"append_block_cycles": 2000.0}
    return tuple(
        {
            "tile_queries": tile,
            "key_block": block,
            "append_queries": queries,
            "fixed_tile": fixed,
            "padded_width": padded,
        }
        | rules
        for (tile, block), queries, fixed, padded in product(
            QUERY_TILES, (0.0,) if appends else (0.0, 1.0), (0.0, 1.0), (0.0, 1.0)
        )
    )


def decode_grid(device: str, kernel: str) -> tuple[Mapping[str, float], ...]:
    """Return the alternatives of the discrete parameters of a decode kernel."""
    targets = tuple(product((1.0, 2.0, 4.0), (128.0, 256.0, 512.0)))
    rules = KERNEL_RULES.get(kernel, (ALWAYS_PACKED,))
    choices = list(product(targets, rules))
    if kernel == "torch_flow":  # name for TensorRT-LLM's choice on the device
        generated = hardware.resolve_system(device).device.architecture == "blackwell"
        choices = list(product(targets, (MASKED_ABOVE_32 if generated else MASKED_UNSPLIT,)))
        if not generated:
            choices += product((ROOT_TARGET,), (PACKED_ROOT, PACKED_ROOT_IF_MANY))
    return tuple(
        {"units_per_sm": units, "split_tokens": tokens}
        | rule._asdict()
        | (ONE_PATH if rule == ALWAYS_PACKED else TWO_PATHS)
        for (units, tokens), rule in choices
    )


def _cell(device: str, operator: str, family: str, format_name: str, kernel: str) -> cell.Cell:
    prefill = operator == "prefill_attention"
    return cell.Cell(
        device=device,
        operator=operator,
        family=family,
        format=format_name,
        load=partial(load_attention, Attention, device, operator, family, format_name),
        physics=attention.prefill_attention_time_s
        if prefill
        else attention.decode_attention_time_s,
        silicon=product_silicon(device, format_name),
        ranges=PREFILL_RANGES if prefill else DECODE_RANGES,
        grid=prefill_grid(kernel) if prefill else decode_grid(device, kernel),
        protocol=PROTOCOL.format(
            kernel=kernel, inside="append to the cache inside; " if prefill else ""
        ),
    )


_NOT_SIZES: Final = (
    *("kv_bytes_per_element", "attention_bytes_per_element", "hot"),
    *("causal", "append"),
)


def load_attention(
    call: Callable[..., Operator], device: str, operator: str, family: str, format_name: str
) -> cell.Rows:
    """Return the measured rows of an attention cell, with the rooflines of their calls."""
    rows = table_rows(device, operator, family, format_name)
    sizes: dict[str, Any] = {
        name: value for name, value in rows.columns.items() if name not in _NOT_SIZES
    }
    calls = call(
        name=operator,
        phase=Phase.PREFILL if "prefill" in operator else Phase.DECODE,
        count=np.ones_like(sizes["batch"]),
        kv_bytes_per_element=float(np.max(rows.columns["kv_bytes_per_element"])),
        **sizes,
    )
    shape_UD = rows.shape_table(physics_model(operator).shape_names)
    return cell.Rows.of(
        rows, shape_UD, cell.roofline_s(calls, product_silicon(device, format_name))
    )


MAKER: Final = cell.CellMaker(attention_cells, OPERATORS, place=4)
