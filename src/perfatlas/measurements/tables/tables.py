"""Measured rows of one calibration cell as named shape columns with their protocol.

Defines, for fits and for tier `measured`, which rows of a table belong to a cell (one kernel of one
format) and the meaning of each column.

Shape legend: U measured rows.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.formats import get_format
from perfatlas.hardware import resolve_system
from perfatlas.measurements.tables import recurrent_tables
from perfatlas.measurements.tables.moe_rows import left_out, matrices_per_expert
from perfatlas.measurements.tables.silicon import Text, has_table, read_table, table_paths
from perfatlas.measurements.tables.sparse_tables import SPARSE_TABLES, sparse_rows
from perfatlas.operators import load_skew
from perfatlas.quantities import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from perfatlas.measurements.tables.silicon import SiliconTable
    from perfatlas.operators import FloatArray

RECURRENT_FORMAT: Final = "bf16"  # the only measured format of recurrent kernels
# calibration operator -> (folder, table) of the package.
TABLES: Final = {
    "gemm": ("gemm", "gemm_perf"),
    "moe": ("moe", "moe_perf"),
    "prefill_attention": ("attention", "context_attention_perf"),
    "decode_attention": ("attention", "generation_attention_perf"),
    "mla_prefill": ("mla", "context_mla_perf"),
    "mla_decode": ("mla", "generation_mla_perf"),
    **SPARSE_TABLES,
    **dict.fromkeys(recurrent_tables.KERNEL_NAMES, ("linear_attention", "gdn_perf")),
}
# Name in the GEMM tables -> format of the product.
GEMM_FORMATS: Final = {
    "bfloat16": "bf16",
    "fp8": "fp8_dynamic",
    "fp8_block": "fp8_block",
    "nvfp4": "nvfp4",
    "int8_wo": "int8_wo",
    "int4_wo": "int4_wo",
    "sq": "int8",
}
# Formats whose measured times include quantizing the activations.
QUANTIZED_INSIDE: Final = ("fp8_dynamic", "fp8_block", "nvfp4")
TRTLLM_COPIES: Final = 5.0  # clamp(ceil(L2 / weight bytes), 1, 5): collector/trtllm/collect_gemm.py
LOOP_COPIES: Final = 6.0  # collector/vllm/collect_gemm.py; nvfp4 has one

# Name in the MoE tables -> format of the product.
MOE_FORMATS: Final = {
    "bfloat16": "bf16",
    "fp8": "fp8_dynamic",
    "fp8_block": "fp8_block",
    "nvfp4": "nvfp4",
    "int4_wo": "int4_wo",
    "w4a16_mxfp4": "mxfp4",
    "w4a8_mxfp4_mxfp8": "mxfp4_mxfp8",
}
# Kernels of another algorithm or network than the gated fused experts of the others.
OTHER_KERNELS: Final = ("nongated", "min_latency", "situ_as_silu", "modular")
# Kernels of a family that runs others than the main one: part of their kernel_source
OF_FAMILIES: Final = {"vllm@tp": "tritonexperts"}
MOE_WORDS: Final = {
    "tokens": "num_tokens",
    "hidden": "hidden_size",
    "intermediate": "inter_size",
    "experts": "num_experts",
    "top_k": "topk",
    "ep": "moe_ep_size",
    "moe_tp": "moe_tp_size",
}

# (format of products, format of KV cache) in the tables -> format of the calibration.
ATTENTION_FORMATS: Final = {
    ("bfloat16", "bfloat16"): "bf16",
    ("bfloat16", "fp8"): "bf16+fp8_kv",
    ("fp8", "fp8"): "fp8+fp8_kv",
}
# A kernel with fewer rows than this fraction of the main kernel's is not the engine's default.
MIN_SHARE: Final = 0.5
# The MLA tables contain one geometry, DeepSeek-V3: config.json of deepseek-ai/DeepSeek-V3, keys
# kv_lora_rank, qk_rope_head_dim, qk_nope_head_dim, v_head_dim.
MLA_GEOMETRY: Final = {
    "kv_lora_rank": 512.0,
    "rope_dim": 64.0,
    "nope_dim": 128.0,
    "value_head_dim": 128.0,
    "selected": 0.0,
}


class TableRows(NamedTuple):
    """The measured rows of one cell, including protocol columns."""

    # Shape column -> values (U,), named as in the physics of the operator; `copies`,
    # `shared_activation`, `quantize` and `hot` describe the protocol of the row
    columns: Mapping[str, FloatArray]
    measured_s: FloatArray  # Measured times (U,) [s]
    version: str  # Version of the measured engine
    data_hash: str  # Hash of the file that contains the rows
    excluded: Mapping[str, int]  # Reason -> excluded rows of the format

    def shape_table(self, names: tuple[str, ...]) -> FloatArray:
        """Return named columns as a table (U, D), in the given order."""
        return np.stack([self.columns[name] for name in names], axis=1)


def table_versions(device: str, operator: str, family: str) -> tuple[str, ...]:
    """Return the measured engine versions of an operator on a device, oldest first.

    Args:
        operator: A key of `TABLES`.

    Raises:
        MissingDependencyError: The measured tables are not installed.
    """
    folder, name = TABLES[operator]
    return tuple(table_paths(device, folder, family, name))


def table_rows(
    device: str, operator: str, family: str, format_name: str, version: str | None = None
) -> TableRows:
    """Return the measured rows of one cell.

    Args:
        device: Catalog name of a device with measured tables.
        operator: A key of `TABLES`.
        family: Engine whose kernels were measured, with "@tp" for the kernels that it runs only
            where no ranks share the experts.
        format_name: Format of the calibration, with "+fp8_kv" where the cache differs.
        version: Version of the engine; the newest full table by default.

    Raises:
        MissingDependencyError: The measured tables are not installed.
        UnsupportedError: There is no such table, or it has no rows of the format.
    """
    engine = family.partition("@")[0]
    table = read_table(device, TABLES[operator][0], engine, TABLES[operator][1], version)
    if operator == "gemm":
        rows = _gemm(table, format_name)
    elif operator == "moe":
        rows = _moe(table, format_name, OF_FAMILIES.get(family, ""))
    elif operator in SPARSE_TABLES:
        rows = _rows(table, *sparse_rows(table, operator, format_name))
    elif operator in recurrent_tables.KERNEL_NAMES:
        keep = recurrent_tables.recurrent_mask(table, operator) & (format_name == RECURRENT_FORMAT)
        rows = _rows(table, keep, recurrent_tables.recurrent_columns(table, operator, keep), {})
    else:
        rows = _attention(table, operator, format_name)
    if not rows.measured_s.size:
        raise UnsupportedError(f"no measured {operator} rows of {format_name} in {table.path}")
    return rows


def _rows(
    table: SiliconTable,
    keep: NDArray[np.bool_],
    columns: Mapping[str, FloatArray | float],
    excluded: Mapping[str, int],
) -> TableRows:
    measured_s = table.measured_s()[keep]
    return TableRows(
        columns={
            name: np.broadcast_to(np.asarray(values, np.float64), measured_s.shape)
            for name, values in columns.items()
        },
        measured_s=measured_s,
        version=table.version,
        data_hash=table.data_hash,
        excluded=excluded,
    )


def _gemm(table: SiliconTable, format_name: str) -> TableRows:
    words = [word for word, name in GEMM_FORMATS.items() if name == format_name]
    keep = table.columns.text("gemm_dtype").holds(words)
    layout = get_format(format_name)
    sizes = {name: numbers(table, name, keep) for name in ("m", "n", "k")}
    columns: dict[str, FloatArray | float] = {
        **sizes,
        "weight_bytes_per_element": layout.weight_bytes,
        "input_bytes_per_element": layout.activation_bytes,
        "output_bytes_per_element": 2.0,
        "quantize": float(format_name in QUANTIZED_INSIDE),
        "copies": _copies(table, format_name, sizes["n"] * sizes["k"] * layout.weight_bytes),
        "shared_activation": float(table.framework != "sglang"),
    }
    single = {"groups": 1.0, "tile_rows": 0.0, "tile_columns": 0.0, "uneven_groups": 0.0}
    return _rows(table, keep, columns | single, {})


def _copies(table: SiliconTable, format_name: str, weight_bytes: FloatArray) -> FloatArray | float:
    """Return the number of weight copies that the collector cycled through (U,)."""
    if table.framework == "vllm":
        return 1.0 if format_name == "nvfp4" else LOOP_COPIES
    if table.framework == "sglang":
        return LOOP_COPIES
    l2_bytes = resolve_system(table.system).device.number("l2_bytes")
    copies: FloatArray = np.clip(np.ceil(l2_bytes / weight_bytes), 1.0, TRTLLM_COPIES)
    return copies


def main_moe_rows(table: SiliconTable, format_name: str, kernel: str = "") -> NDArray[np.bool_]:
    """Return the rows of the main MoE kernel of a format, or of a named one (rows,)."""
    sources = table.columns.text("kernel_source")
    if kernel:
        named = [name for name in sources.words if kernel in name]
        return _of_moe_format(table, format_name) & sources.holds(named)
    others = [name for name in sources.words if any(other in name for other in OTHER_KERNELS)]
    rows: NDArray[np.bool_] = _of_moe_format(table, format_name) & ~sources.holds(others)
    if not rows.any():
        return rows
    counts = np.bincount(sources.code_U[rows], minlength=len(sources.words))
    main = min(range(len(sources.words)), key=lambda code: (-counts[code], sources.words[code]))
    chosen: NDArray[np.bool_] = rows & (sources.code_U == main)
    return chosen


def _of_moe_format(table: SiliconTable, format_name: str) -> NDArray[np.bool_]:
    words = [word for word, name in MOE_FORMATS.items() if name == format_name]
    return table.columns.text("moe_dtype").holds(words)


def _moe(table: SiliconTable, format_name: str, kernel: str) -> TableRows:
    rows = _every_moe_row(table, format_name, kernel)
    valid = np.ones(rows.measured_s.shape, np.bool_)
    excluded = dict(rows.excluded)
    for reason, invalid in left_out(rows.columns, rows.measured_s).items():
        excluded[reason] = int(np.sum(invalid))
        valid &= ~invalid
    columns = {name: values[valid] for name, values in rows.columns.items()}
    return rows._replace(columns=columns, measured_s=rows.measured_s[valid], excluded=excluded)


def _every_moe_row(table: SiliconTable, format_name: str, kernel: str) -> TableRows:
    """Return the rows of the main or of a named kernel, valid or not."""
    keep = main_moe_rows(table, format_name, kernel)
    layout = get_format(format_name)
    loads = table.columns.text("distribution")
    codes, index = np.unique(loads.code_U[keep], return_inverse=True)
    skews = np.array([load_skew(loads.words[code]) for code in codes], np.float64)[index]
    columns: dict[str, FloatArray | float] = {
        name: numbers(table, word, keep) for name, word in MOE_WORDS.items()
    }
    columns |= {
        "weight_bytes_per_element": layout.weight_bytes,
        "input_bytes_per_element": layout.activation_bytes,
        "skew": skews,
        **dict.fromkeys(("hot", "exchange_ranks", "ranks_per_token"), 1.0),
        **dict.fromkeys(("concentration", "active_share"), 1.0),
        "loop_cycles": 0.0,
    }
    others = int(_of_moe_format(table, format_name).sum() - keep.sum())
    rows = _rows(table, keep, columns, {"another kernel than the cell's": others})
    if not rows.measured_s.size:
        return rows
    source = str(table.columns["kernel_source"][keep][0])
    matrices = matrices_per_expert(rows.columns, source, table.version)
    return rows._replace(columns={**rows.columns, "matrices": matrices})


@cache
def default_kernels(
    device: str, operator: str, family: str, version: str | None = None
) -> dict[str, str]:
    """Return format -> the engine's default kernel, from a measured attention table.

    Formats measured only with a secondary kernel are omitted.

    Args:
        operator: prefill_attention, decode_attention, mla_prefill or mla_decode.
        version: Version of the engine; the newest full table by default.
    """
    folder, name = TABLES[operator]
    if not has_table(device, folder, family, name):
        return {}
    table = read_table(device, folder, family, name, version)
    formats, kernels = _attention_formats(table), table.columns.text("kernel_source")
    pair_U = formats.code_U * len(kernels.words) + kernels.code_U
    pairs, first, counts = np.unique(pair_U, return_index=True, return_counts=True)
    chosen: dict[str, str] = {}
    for pair in np.lexsort((first, -counts)):
        of_format, of_kernel = divmod(int(pairs[pair]), len(kernels.words))
        if counts[pair] >= MIN_SHARE * counts.max() and formats.words[of_format]:
            chosen.setdefault(formats.words[of_format], kernels.words[of_kernel])
    return chosen


def _attention_formats(table: SiliconTable) -> Text:
    """Return the calibration format of each row, "" if there is none."""
    columns = table.columns
    products = columns.text("attn_dtype" if "attn_dtype" in columns else "mla_dtype")
    caches = columns.text("kv_cache_dtype")
    pairs = itertools.product(products.words, caches.words)
    words = [ATTENTION_FORMATS.get(pair, "") for pair in pairs]
    names = tuple(dict.fromkeys(words))
    format_P = np.array([names.index(word) for word in words], np.int32)
    return Text(names, format_P[products.code_U * len(caches.words) + caches.code_U])


def _measured_mask(
    table: SiliconTable, format_name: str, kernel: str
) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Return the rows of a format's default kernel, and reason -> rows of other kernels."""
    in_format = _attention_formats(table).holds((format_name,))
    sources = table.columns.text("kernel_source")
    counts = np.bincount(sources.code_U[in_format], minlength=len(sources.words))
    of_word = dict(zip(sources.words, counts.tolist(), strict=True))
    excluded = {
        f"kernel {other}": of_word[other]
        for other in sorted(of_word)
        if of_word[other] and other != kernel
    }
    return in_format & sources.holds((kernel,)), excluded


def _attention(table: SiliconTable, operator: str, format_name: str) -> TableRows:
    kernels = default_kernels(table.system, operator, table.framework, table.version)
    keep, excluded = _measured_mask(table, format_name, kernels.get(format_name, ""))
    prefill = operator in ("prefill_attention", "mla_prefill")
    heads = numbers(table, "num_heads", keep)
    q_len = numbers(table, "isl", keep) if prefill else np.ones(heads.size)
    columns: dict[str, FloatArray | float] = {
        "batch": numbers(table, "batch_size", keep),
        "q_len": q_len,
        "kv_len": q_len + numbers(table, "step", keep),
        "num_heads": heads,
        "kv_bytes_per_element": cache_bytes(format_name),
        "attention_bytes_per_element": 1.0 if format_name.startswith("fp8") else 2.0,
        "hot": 1.0,
    }
    if operator in ("mla_prefill", "mla_decode"):
        return _rows(table, keep, columns | MLA_GEOMETRY, excluded)
    kv_heads = numbers(table, "num_key_value_heads", keep)
    head_dim = numbers(table, "head_dim", keep)
    columns |= ({"causal": 1.0, "append": 1.0} if prefill else {}) | {
        "num_kv_heads": np.where(kv_heads > 0, kv_heads, heads),
        "head_dim": head_dim,
        "value_head_dim": head_dim,
        "window": numbers(table, "window_size", keep),
    }
    return _rows(table, keep, columns, excluded)


def numbers(table: SiliconTable, name: str, keep: NDArray[np.bool_]) -> FloatArray:
    """Return a number column, 0 for empty cells or a missing column (U,)."""
    if name not in table.columns:
        return np.zeros(int(np.sum(keep)))
    return np.nan_to_num(np.asarray(table.columns[name][keep], dtype=np.float64))


def cache_bytes(format_name: str) -> float:
    """Return the bytes per element of the KV cache."""
    return 1.0 if format_name.endswith("+fp8_kv") else 2.0
