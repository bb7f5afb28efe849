"""Convert queries for one operator to operator columns, one candidate per query."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas import operators
from perfatlas.files import shipped_table
from perfatlas.hardware import resolve_system
from perfatlas.networks import ModelFormats, RowBytes, norm_bytes, stream_bytes
from perfatlas.networks.graphs import GROUP_NORM, ROW_PASSES, Node
from perfatlas.quantities import Expression, UnsupportedError
from perfatlas.scenario.fields import number_columns
from perfatlas.scenario.resolution import format_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.scenario.operator_queries.inputs import (
        AttentionInputs,
        ConvInputs,
        ElementwiseInputs,
        EmbeddingInputs,
        GemmInputs,
        MoeInputs,
        NormInputs,
        RowInputs,
        SoftmaxInputs,
    )


# fields that are columns of an operator; those priced together share all others
GEMM_SIZES: Final = ("m", "n", "k", "groups")
ATTENTION_SIZES: Final = (
    *("batch", "q_len", "kv_len", "num_heads", "num_kv_heads", "head_dim"),
    *("kv_lora_rank", "rope_dim", "window"),
)
MOE_SIZES: Final = ("tokens", "hidden", "intermediate", "experts", "top_k", "ep", "moe_tp")
CONV_SIZES: Final = (
    *("batch", "channels", "height", "width", "filters", "kernel", "kernel_width", "stride"),
    *("padding", "groups"),
)
_INPUT: Final = Expression("batch * channels * height * width")
_TAPS: Final = Expression("kernel * kernel_width")
CONVOLUTIONS: Final = {
    "conv": {
        "m": Expression("batch * out_height * out_width"),
        "n": Expression("filters // groups"),
        "k": Expression("channels // groups * kernel * kernel_width"),
        "groups": Expression("groups"),
        "read": _INPUT,
    },
    "depthwise_conv": {
        "read": _INPUT,
        "write": Expression("batch * filters * out_height * out_width"),
        "taps": _TAPS,
    },
}


def gemm_columns(inputs: Sequence[GemmInputs]) -> operators.Operator:
    """Return matrix products of one format as an operator over candidates."""
    number_format = format_of(inputs[0].format, arithmetic=True)
    if number_format.arithmetic:
        choice = {"format": number_format.name}
        size = number_columns(inputs, GEMM_SIZES)
        return operators.library_kernel("gemm", size, choice)
    tiles = np.array([fixed_tile(gemm_inputs) for gemm_inputs in inputs], dtype=np.float64)
    size = number_columns(inputs, GEMM_SIZES)
    return operators.Gemm(
        name="gemm",
        phase=operators.Phase.PREFILL,
        count=np.ones(len(inputs)),
        m=size["m"] * size["groups"],
        n=size["n"],
        k=size["k"],
        format=number_format.name,
        weight_bytes_per_element=number_format.weight_bytes,
        input_bytes_per_element=number_format.activation_bytes,
        quantizes_input=float(inputs[0].quantization == "included"),
        groups=size["groups"],
        tile_rows=tiles[:, 0],
        tile_columns=tiles[:, 1],
        uneven_groups=float(inputs[0].group_sizes == "random"),
    )


def attention_columns(
    inputs: Sequence[AttentionInputs],
) -> operators.Attention | operators.LatentAttention:
    """Return attentions of one phase, type and format as an operator over candidates."""
    phase, cache = operators.Phase(inputs[0].phase), format_of(inputs[0].kv_format)
    size = number_columns(inputs, ATTENTION_SIZES)
    queries = np.ones(len(inputs)) if phase == operators.Phase.DECODE else size["kv_len"]
    shared: dict[str, Any] = {
        "name": "attention",
        "phase": phase,
        "count": np.ones(len(inputs)),
        "batch": size["batch"],
        "q_len": np.where(np.isnan(size["q_len"]), queries, size["q_len"]),
        "kv_len": size["kv_len"],
        "num_heads": size["num_heads"],
        "format": format_of(inputs[0].format).name,
        "kv_format": cache.name,
        "kv_bytes_per_element": cache.weight_bytes,
    }
    if inputs[0].kind == "mla":
        return operators.LatentAttention(
            **shared,
            kv_lora_rank=size["kv_lora_rank"],
            rope_dim=size["rope_dim"],
            nope_dim=size["head_dim"],
            value_head_dim=size["head_dim"],
            selected=size["window"],
        )
    return operators.Attention(
        **shared,
        num_kv_heads=np.where(
            np.isnan(size["num_kv_heads"]), size["num_heads"], size["num_kv_heads"]
        ),
        head_dim=size["head_dim"],
        value_head_dim=size["head_dim"],
        window=size["window"],
        causal=inputs[0].mask == "causal",
        cache_append=appends(inputs[0]),
    )


def appends(inputs: AttentionInputs) -> bool:
    """Return whether the time includes the append to the KV cache."""
    if inputs.cache_append is None:
        return inputs.direction == "forward"
    return inputs.cache_append == "included"


def moe_columns(inputs: Sequence[MoeInputs]) -> operators.GroupedGemm:
    """Return MoE layers of one format and distribution as an operator over candidates."""
    number_format = format_of(inputs[0].format)
    sizes: dict[str, Any] = {**number_columns(inputs, MOE_SIZES)}
    return operators.GroupedGemm(
        name="experts",
        phase=operators.Phase.PREFILL,
        count=np.ones(len(inputs)),
        **sizes,
        matrices=3,
        format=number_format.name,
        weight_bytes_per_element=number_format.weight_bytes,
        input_bytes_per_element=number_format.activation_bytes,
        distribution=inputs[0].distribution,
    )


def is_depthwise(inputs: ConvInputs) -> bool:
    """Return whether each channel has one filter of its own."""
    return 1 < inputs.groups == inputs.channels == inputs.filters


def conv_columns(inputs: Sequence[ConvInputs]) -> operators.Operator:
    """Return convolutions of one format as an operator over candidates.

    Args:
        inputs: Queries that differ in sizes alone, all of them depthwise or none.
    """
    size = number_columns(inputs, CONV_SIZES)
    for name, default in (("kernel_width", size["kernel"]), ("padding", np.nan)):
        size[name] = np.where(np.isnan(size[name]), default, size[name])
    for name, kernel in (("height", "kernel"), ("width", "kernel_width")):
        half = np.floor(size[kernel] / 2.0)
        padding = np.where(np.isnan(size["padding"]), half, size["padding"])
        space = size[name] + 2.0 * padding - size[kernel]
        size[f"out_{name}"] = np.floor(space / size["stride"]) + 1.0
    name = format_of(inputs[0].format).name
    formats = ModelFormats(gemm=name, moe=name, kv=name, attention=name)
    kind = "depthwise_conv" if is_depthwise(inputs[0]) else "conv"
    node = Node(kind=kind, sizes=CONVOLUTIONS[kind], count=Expression("1"))
    return node.operator("conv", formats, operators.Phase.PREFILL, size)


def _norm(inputs: NormInputs, size: Mapping[str, operators.FloatArray]) -> RowBytes:
    residual = inputs.kind in ("rms", "layer") and inputs.residual == "included"
    row = norm_bytes(size["width"], residual=residual)
    reads = 2.0 if inputs.kind == "group" else 1.0
    return row._replace(read=reads * row.read, cold=_NORM_VECTORS[inputs.kind] * row.cold)


def _softmax(_: SoftmaxInputs, size: Mapping[str, operators.FloatArray]) -> RowBytes:
    return RowBytes(
        size["width"] * operators.ACTIVATION_BYTES, size["width"] * operators.ACTIVATION_BYTES
    )


def _embedding(_: EmbeddingInputs, size: Mapping[str, operators.FloatArray]) -> RowBytes:
    row = size["width"] * operators.ACTIVATION_BYTES
    return RowBytes(0.0, row, cold=np.fmin(size["tokens"] * size["ids"], size["rows"]) * row)


def _elementwise(inputs: ElementwiseInputs, size: Mapping[str, operators.FloatArray]) -> RowBytes:
    return stream_bytes(
        inputs.op,
        size["width"],
        kv_width=size["kv_width"],
        kv_bytes=format_of(inputs.kv_format).weight_bytes,
        quantized_bytes=format_of(inputs.format).activation_bytes,
    )


# Vectors of parameters, and of the statistics of a batch norm in inference.
_NORM_VECTORS: Final = {"rms": 1.0, "layer": 2.0, "group": 2.0, "batch": 4.0}
# Fields of each operator on rows that are its columns, and the bytes of a row of such operators.
ROWS: Final[Mapping[str, tuple[tuple[str, ...], Callable[[Any, Any], RowBytes]]]] = {
    "norm": (("tokens", "width", "batch", "groups"), _norm),
    "softmax": (("tokens", "width"), _softmax),
    "embedding": (("tokens", "width", "ids", "rows"), _embedding),
    "elementwise": (("tokens", "width", "kv_width"), _elementwise),
}


def row_columns(operator: str, inputs: Sequence[RowInputs]) -> operators.Streaming:
    """Return operators on rows, of one kind and format, as an operator over candidates.

    Args:
        operator: A key of `ROWS`.
    """
    names, row_bytes = ROWS[operator]
    size = number_columns(inputs, names)
    tokens, row = size["tokens"], row_bytes(inputs[0], size)
    name = getattr(inputs[0], "op", operator)
    row_C = size["width"] * operators.ACTIVATION_BYTES
    kind = getattr(inputs[0], "kind", "")
    if kind == "group":  # a thread block reads and writes the channels of a group of an image
        row_C = row_C * tokens / (size["batch"] * size["groups"])
    if operator != "embedding":
        row_C = row_C * (0.0 if kind == "batch" else ROW_PASSES)
    return operators.Streaming(
        name=_label(operator, inputs[0]),
        phase=operators.Phase.PREFILL,
        count=np.ones(len(inputs)),
        stream=GROUP_NORM if kind == "group" else name,
        tokens=tokens,
        read_bytes=tokens * row.read,
        write_bytes=tokens * row.write,
        cold_read_bytes=row.cold + 0.0 * tokens,
        gathers=tokens * size.get("ids", 0.0),
        row_bytes=row_C,
    )


def is_bag(inputs: RowInputs) -> bool:
    """Return whether a lookup sums several rows."""
    return int(getattr(inputs, "ids", 1)) > 1


def _label(operator: str, inputs: RowInputs) -> str:
    """Return the name under which rates of kernels are known."""
    if is_bag(inputs):
        return operators.EMBEDDING_BAG
    kind = getattr(inputs, "kind", "")
    return _NORMS.get(kind, str(getattr(inputs, "op", operator)))


_NORMS: Final = {"group": GROUP_NORM, "batch": "norm_after_conv"}


_DATA: Final = "data/grouped_kernels.toml"
_MIN_ROWS: Final = 128
_MAX_ROWS: Final = 2048
_LARGE_SIZES: Final = 2  # of rows, columns and inner dimension


@cache
def _tiles() -> tuple[dict[str, Any], ...]:
    return tuple(shipped_table(_DATA)["tiles"])


def fixed_tile(inputs: GemmInputs) -> tuple[float, float]:
    """Return rows and columns of the output tile of a grouped product; zeros where it is chosen.

    Raises:
        UnsupportedError: The kernel does not support the format or the device.

    Source: data/grouped_kernels.toml, from the code of the kernels.
    """
    if inputs.grouped_kernel == "best_tile":
        return 0.0, 0.0
    device = resolve_system(inputs.system).device
    name, own = format_of(inputs.format).name, inputs.grouped_kernel
    for tile in _tiles():
        if (tile["kernel"], tile["architecture"]) == (own, device.architecture) and (
            name in tile["formats"]
        ):
            return _of_sizes(tile, inputs)
    known = "; ".join(
        f"{', '.join(tile['formats'])} on {tile['architecture']}"
        for tile in _tiles()
        if tile["kernel"] == own
    )
    raise UnsupportedError(
        f"grouped_kernel = {own} has no kernel for {name} on {device.name}"
        f" ({device.architecture}); it has those for {known}. Leave grouped_kernel out"
    )


def _of_sizes(tiles: dict[str, Any], inputs: GemmInputs) -> tuple[float, float]:
    """Return the tile of the sizes of a mean group."""
    large = sum(size >= _MAX_ROWS for size in (inputs.m, inputs.n, inputs.k)) >= _LARGE_SIZES
    kind = "few" if min(inputs.m, inputs.n) <= _MIN_ROWS else "large" if large else "other"
    rows, columns = tiles[kind]
    return float(rows), float(columns)
