"""Interpretation of the gated delta net tables: kernel, shape and bytes of each row.

A row times a single kernel: the convolution or the scan, in prefill or decode.

Shape legend: U measured rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.operators import ACTIVATION_BYTES, DELTA_CHUNK, delta_rule_flop, delta_rule_width

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from perfatlas.measurements.tables.silicon import SiliconTable
    from perfatlas.operators import FloatArray

# calibration operator -> prefix of its kernel names.
KERNEL_NAMES: Final = {
    "scan_prefill": "chunk_gated_delta_rule",
    "scan_decode": "fused_recurrent_gated_delta_rule",
    "conv_prefill": "causal_conv1d_fn",
    "conv_decode": "causal_conv1d_update",
}
SIZES: Final = (
    *("batch_size", "seq_len", "d_conv"),
    *("num_k_heads", "num_v_heads", "head_k_dim", "head_v_dim"),
)
FULL_STATE_BYTES: Final = 4.0
HALF_STATE_BYTES: Final = 2.0
# There are two types of collectors, identified by their decode kernel. With this kernel, they
# convolve only the keys instead of queries, keys and values; the prefill scan stores no state, and
# decode reads a 16-bit state and writes a 32-bit one: collector/trtllm/collect_gdn.py of
# ai-dynamo/aiconfigurator. With the packed kernel, all states are 32-bit
# (collector/sglang/collect_gdn.py); vLLM's rows of that kernel take as long as SGLang's.
UNPACKED_KERNEL: Final = "fused_recurrent_gated_delta_rule"


def recurrent_mask(table: SiliconTable, operator: str) -> NDArray[np.bool_]:
    """Return the rows of one kernel of the mixer (rows,).

    Args:
        operator: A name of `KERNEL_NAMES`.
    """
    sources = table.columns.text("kernel_source")
    return sources.holds(word for word in sources.words if word.startswith(KERNEL_NAMES[operator]))


def recurrent_kernel(table: SiliconTable, operator: str) -> str:
    """Return the name of the measured kernel, "" if there is none.

    Args:
        table: A gated delta net table.
        operator: A name of `KERNEL_NAMES`.
    """
    kernels = table.columns["kernel_source"][recurrent_mask(table, operator)]
    return str(kernels[0]) if kernels.size else ""


def recurrent_columns(
    table: SiliconTable, operator: str, keep: NDArray[np.bool_]
) -> Mapping[str, FloatArray | float]:
    """Return the shape columns of rows, named as in the physics of the operator (U,).

    Args:
        operator: A name of `KERNEL_NAMES`.
    """
    size = {name: np.asarray(table.columns[name][keep], np.float64) for name in SIZES}
    common: dict[str, FloatArray | float] = {
        "batch": size["batch_size"],
        "q_len": size["seq_len"],
        "hot": 1.0,
    }
    keys = size["num_k_heads"] * size["head_k_dim"]
    values = size["num_v_heads"] * size["head_v_dim"]
    unpacked = bool(np.any(table.columns["kernel_source"] == UNPACKED_KERNEL))
    if operator.startswith("conv"):
        channels = keys if unpacked else 2.0 * keys + values
        return common | {"channels": channels, "kernel": size["d_conv"]}
    prefill = operator == "scan_prefill"
    chunk = DELTA_CHUNK if prefill else 0.0
    read = HALF_STATE_BYTES if unpacked else FULL_STATE_BYTES
    moved = 0.0 if unpacked and prefill else read + FULL_STATE_BYTES
    width = delta_rule_width(
        size["num_k_heads"], size["head_k_dim"], size["num_v_heads"], size["head_v_dim"]
    )
    head_width = size["head_k_dim"] + size["head_v_dim"]
    flop = delta_rule_flop(size["head_k_dim"], size["head_v_dim"], chunk)
    return common | {
        "num_heads": size["num_v_heads"],
        "chunk": DELTA_CHUNK,
        "flop_per_token": size["num_v_heads"] * flop,
        "io_bytes_per_token": width * ACTIVATION_BYTES,
        "inner_bytes_per_token": size["num_v_heads"] * head_width * ACTIVATION_BYTES,
        "state_bytes": values * size["head_k_dim"] * moved,
    }
