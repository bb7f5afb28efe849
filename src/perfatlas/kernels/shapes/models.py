"""From operators to the shape tables of the physics kernels.

Shape legend: C candidates, D shape columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfatlas.formats import get_format
from perfatlas.operators import (
    Attention,
    Convolution,
    FloatArray,
    Gemm,
    GroupedGemm,
    KeyScores,
    KeySelection,
    LatentAttention,
    Operator,
    Scan,
    Streaming,
    load_skew,
)

Physics = Callable[[FloatArray, FloatArray, FloatArray], tuple[FloatArray, NDArray[np.int8]]]
Columns = Mapping[str, FloatArray | float]


@dataclass(frozen=True, kw_only=True)
class PhysicsModel:
    """One compact model: where it is compiled, its shape columns and its parameters."""

    physics: Physics
    shape_names: tuple[str, ...]
    parameter_names: tuple[str, ...]


# calibration operator -> (module, function stem); the module names its own columns.
_MODELS: Final = {
    "gemm": ("gemm", "gemm"),
    "moe": ("moe", "moe"),
    "streaming": ("streaming", "streaming"),
    "prefill_attention": ("attention", "prefill_attention"),
    "decode_attention": ("attention", "decode_attention"),
    "mla_prefill": ("latent_attention", "mla_prefill"),
    "mla_decode": ("latent_attention", "mla_decode"),
    "sparse_mla_prefill": ("sparse_attention", "sparse_mla_prefill"),
    "key_scores_prefill": ("key_scores", "key_scores_prefill"),
    "key_scores_decode": ("key_scores", "key_scores_decode"),
    "key_selection": ("key_selection", "key_selection"),
    "scan_prefill": ("recurrent", "scan_prefill"),
    "scan_decode": ("recurrent", "scan_decode"),
    "conv_prefill": ("recurrent", "conv_prefill"),
    "conv_decode": ("recurrent", "conv_decode"),
}


class StandIn(NamedTuple):
    """Measured kernels that price an operator nobody measured: whose, and what is said of it."""

    family: str
    note: str


# Mixers whose scans are priced with measured kernels of the gated delta net: the same chunked
# products and the same traffic of states. Every engine runs Mamba-2 in Triton kernels, as
# TensorRT-LLM runs the gated delta net. 8,192 tokens with 128 heads take 0.58 ms on an H100 this
# way and were measured to take 0.65 (vllm-project/vllm pull request 27299).
STAND_INS: Final = {
    "mamba2": StandIn(
        "trtllm",
        "no table measured the scan of Mamba-2: Triton kernels of the gated delta net are used,"
        " scaled by arithmetic and bytes",
    )
}
MEASURED_MIXER: Final = "gated_delta_net"

GROUPED_SIZES: Final = ("tokens", "hidden", "intermediate", "experts", "top_k", "ep", "moe_tp")
ATTENTION_SIZES: Final = (
    "batch",
    "q_len",
    "kv_len",
    "num_heads",
    "num_kv_heads",
    "head_dim",
    "value_head_dim",
    "window",
)
LATENT_SIZES: Final = (
    "batch",
    "q_len",
    "kv_len",
    "num_heads",
    "kv_lora_rank",
    "rope_dim",
    "nope_dim",
    "value_head_dim",
    "selected",
)


@cache
def physics_model(calibration_operator: str) -> PhysicsModel:
    """Return the compact model of a calibration operator; compiled code loads on first use."""
    module_name, stem = _MODELS[calibration_operator]
    module = import_module(f"perfatlas.kernels.{module_name}.physics")
    return PhysicsModel(
        physics=getattr(module, f"{stem}_time_s"),
        shape_names=getattr(module, f"{stem.upper()}_SHAPE"),
        parameter_names=getattr(module, f"{stem.upper()}_PARAMETERS"),
    )


def calibration_key(operator: Operator) -> tuple[str, tuple[str, ...]] | None:
    """Return (calibration operator, formats it may be fitted in, best first), None without physics.

    Decode kernels are measured with 16-bit queries whatever the cache. A prefill that multiplies
    in fp8 is best priced by fp8 rows, else by 16-bit rows on the same cache. A static quantization
    is one pass over the activation, as a norm is.
    """
    if isinstance(operator, Gemm | GroupedGemm):
        name = "gemm" if isinstance(operator, Gemm) else "moe"
        return name, (_fitted_format(operator.format),)
    if isinstance(operator, Streaming):
        return "streaming", ("bf16",)
    if isinstance(operator, Scan | Convolution):
        return _recurrent_key(operator)
    if isinstance(operator, Attention | LatentAttention):
        return _attention_key(operator)
    return _sparse_key(operator)


def _attention_key(operator: Attention | LatentAttention) -> tuple[str, tuple[str, ...]]:
    """Return the key of attention.

    Sparse prefill kernels read 16-bit rows: engines expand an fp8 cache first, a pass over it that
    is not priced. Sparse decode is priced as dense decode over the selected keys; its kernels
    expand fp8 rows as they read them (FlashMLA) and multiply in 16 bits.
    """
    key = f"bf16{'+fp8_kv' if _is_fp8(operator.kv_format) else ''}"
    latent = isinstance(operator, LatentAttention)
    if operator.phase == "decode":
        expanded = ("bf16",) if _selects(operator) and key != "bf16" else ()
        return ("mla_decode" if latent else "decode_attention"), (*expanded, key)
    if _selects(operator):
        return "sparse_mla_prefill", ("bf16",)
    exact = (f"fp8{key.removeprefix('bf16')}",) if _is_fp8(operator.format) else ()
    return ("mla_prefill" if latent else "prefill_attention"), (*exact, key)


def _sparse_key(operator: Operator) -> tuple[str, tuple[str, ...]] | None:
    """Return the key of an operator of sparse attention, None for any other."""
    if isinstance(operator, KeyScores):
        return f"key_scores_{operator.phase}", ("fp8",)
    return ("key_selection", ("bf16",)) if isinstance(operator, KeySelection) else None


def _selects(operator: Attention | LatentAttention) -> bool:
    """Return whether attention runs over selected keys."""
    return isinstance(operator, LatentAttention) and bool(np.any(operator.selected > 0))


def _recurrent_key(operator: Scan | Convolution) -> tuple[str, tuple[str, ...]] | None:
    if isinstance(operator, Convolution):
        return f"conv_{operator.phase}", ("bf16",)
    known = operator.mixer == MEASURED_MIXER or operator.mixer in STAND_INS
    return (f"scan_{operator.phase}", ("bf16",)) if known else None


def stand_in(operator: Operator) -> StandIn | None:
    """Return whose measured kernels price the operator where nobody measured its own."""
    return STAND_INS.get(operator.mixer) if isinstance(operator, Scan) else None


def _is_fp8(format_name: str) -> bool:
    return get_format(format_name).tensor_peak == "fp8"


def _fitted_format(format_name: str) -> str:
    """Static and dynamic scales run the same product kernel; fp16 runs as bf16."""
    return {"fp8_static": "fp8_dynamic", "fp16": "bf16"}.get(format_name, format_name)


def shape_columns(operator: Operator) -> Columns:
    """Return the named shape columns of an operator for its physics model.

    A step runs cold: weights and cache come from device memory, so the columns that describe a
    benchmark loop are those of no loop at all.
    """
    if isinstance(operator, Gemm | GroupedGemm | Streaming):
        return _linear_columns(operator)
    if isinstance(operator, KeyScores | KeySelection):
        return _of_keys(operator)
    if isinstance(operator, Scan | Convolution):
        return _recurrent_columns(operator)
    return _attention_columns(operator)


def _linear_columns(operator: Gemm | GroupedGemm | Streaming) -> Columns:
    if isinstance(operator, Gemm):
        columns = _take(operator, ("m", "n", "k")) | _bytes(operator)
        columns["output_bytes_per_element"] = operator.output_bytes_per_element
        return columns | {
            "quantize": operator.quantizes_input,
            "copies": 0.0,
            "shared_activation": 0.0,
        }
    if isinstance(operator, GroupedGemm):
        columns = _take(operator, GROUPED_SIZES) | _bytes(operator)
        columns["matrices"] = float(operator.matrices)
        return columns | {"skew": load_skew(operator.distribution), "hot": 0.0}
    return {
        "bytes": operator.read_bytes + operator.write_bytes + operator.cold_read_bytes,
        "cold_bytes": operator.cold_read_bytes,
        "tokens": operator.tokens,
    }


def _attention_columns(operator: Operator) -> Columns:
    protocol = {
        "kv_bytes_per_element": getattr(operator, "kv_bytes_per_element", 2.0),
        "attention_bytes_per_element": 1.0 if _is_fp8(getattr(operator, "format", "bf16")) else 2.0,
        "hot": 0.0,
    }
    if isinstance(operator, Attention):
        return _take(operator, ATTENTION_SIZES) | protocol
    if isinstance(operator, LatentAttention) and operator.phase == "prefill" and _selects(operator):
        protocol |= {
            "queries": operator.batch * operator.q_len,
            "kv_bytes_per_element": 2.0,
            "attention_bytes_per_element": 2.0,
        }
    return _take(operator, LATENT_SIZES) | protocol


def _of_keys(operator: KeyScores | KeySelection) -> Columns:
    """Return the columns of scoring or choosing keys, whose sequences all have their own."""
    columns = _take(operator, ("q_len", "kv_len")) | {
        "queries": operator.batch * operator.q_len,
        "score_bytes": operator.score_bytes,
        "hot": 0.0,
    }
    if isinstance(operator, KeySelection):
        return columns | {"selected": operator.selected, "index_bytes": operator.index_bytes}
    columns |= _take(operator, ("num_heads", "head_dim"))
    return columns | {"key_bytes": operator.key_bytes, "key_sequences": operator.batch}


def _recurrent_columns(operator: Scan | Convolution) -> Columns:
    common: dict[str, FloatArray | float] = {
        "batch": operator.batch,
        "q_len": operator.tokens / operator.batch,
        "hot": 0.0,
    }
    if isinstance(operator, Convolution):
        return common | {"channels": operator.channels, "kernel": operator.kernel * 1.0}
    columns = _take(operator, ("num_heads", "flop_per_token", "io_bytes_per_token"))
    return (
        common
        | columns
        | {
            "chunk": operator.chunk,
            "inner_bytes_per_token": operator.num_heads * operator.head_width * 2.0,
            "state_bytes": 2.0 * operator.state_bytes,
        }
    )


def _take(operator: Operator, names: tuple[str, ...]) -> dict[str, FloatArray | float]:
    return {name: getattr(operator, name) for name in names}


def _bytes(operator: Gemm | GroupedGemm) -> dict[str, FloatArray | float]:
    return {
        "weight_bytes_per_element": operator.weight_bytes_per_element,
        "input_bytes_per_element": operator.input_bytes_per_element,
    }
