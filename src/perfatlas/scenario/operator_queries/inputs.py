"""Queries of the kernel verbs: parsing and validation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from perfatlas.quantities import Rule, UnsupportedError
from perfatlas.scenario.fields import FieldColumn, InputFields, unset
from perfatlas.scenario.operator_queries.libraries import LibraryInputs
from perfatlas.scenario.resolution import half_format
from perfatlas.vocabulary.fields import (
    AttentionKind,
    AttentionPhase,
    AttentionShape,
    AttentionSizes,
    ClockChoice,
    ConvShape,
    DesignedAttention,
    ElementwiseShape,
    EmbeddingShape,
    GemmShape,
    KernelChoice,
    MeasuredProduct,
    ModelChoice,
    MoeShape,
    NormShape,
    PowerLimit,
    ReducedRows,
    RowShape,
    SystemChoice,
    TierChoice,
    TileChoice,
    TuneBudget,
    TunedStep,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.scenario.fields import BoolArray, Columns

SHARED_HEADS: Final[tuple[Rule[Columns], ...]] = (
    Rule(
        lambda c: c.numbers("q_len") > c.numbers("kv_len"),
        "q_len = {q_len} exceeds kv_len = {kv_len}: kv_len includes the cached prefix and the"
        " queries",
    ),
    Rule(
        lambda c: np.nan_to_num(c.numbers("num_heads") % c.numbers("num_kv_heads")) > 0.0,
        "num_kv_heads = {num_kv_heads} must divide num_heads = {num_heads}",
    ),
)


HEAD_DIMS: Final = (16, 32, 64, 128, 256)  # of kernels that are tuned
SHARED_EXPERTS: Final[tuple[Rule[Columns], ...]] = (
    Rule(
        lambda c: c.numbers("top_k") > c.numbers("experts"),
        "top_k = {top_k} exceeds experts = {experts}",
    ),
    Rule(
        lambda c: (
            (c.numbers("experts") % c.numbers("ep") > 0.0)
            | (c.numbers("intermediate") % c.numbers("moe_tp") > 0.0)
        ),
        "ep = {ep} must divide experts = {experts} and moe_tp = {moe_tp} intermediate ="
        " {intermediate}",
    ),
)


class PricedOperator(PowerLimit, ClockChoice, TierChoice, KernelChoice):
    """Kernels, tier and clock of an operator on one device."""


class HalfFormats(InputFields):
    """Queries with formats of 16 bits: fp16, where unset, on tensor cores without bf16."""

    half_formats: ClassVar[tuple[str, ...]] = ("format",)

    @classmethod
    def completed(cls, raw: dict[str, FieldColumn], size: int) -> dict[str, FieldColumn]:
        """Return raw columns with the formats that systems imply."""
        raw = super().completed(raw, size)
        system = raw.get("system", unset(size))
        halves = [half_format(n) if isinstance(n, str) else None for n in system.values]
        known_V = np.array([half is not None for half in halves])
        codes_N = np.where(known_V[system.codes_N], system.codes_N + 1, 0)
        of_system = FieldColumn(values=(None, *halves), codes_N=codes_N)
        own = {name: raw.get(name, unset(size)) for name in cls.half_formats}
        return raw | {name: of_system.overridden_by(column) for name, column in own.items()}


# groups in reverse order: Python collects annotations from the last base on
class GemmInputs(HalfFormats, PricedOperator, MeasuredProduct, GemmShape, SystemChoice):
    """A matrix product on one device."""

    rules: ClassVar[Sequence[Rule[Columns]]] = (
        Rule(
            lambda c: (
                (c.equals("format", "fp32") | c.equals("format", "fp64"))
                & (
                    c.equals("tier", "measured")
                    | c.is_set("kernel_family")
                    | ~c.equals("group_sizes", "equal")
                    | ~c.equals("grouped_kernel", "best_tile")
                )
            ),
            "format = {format} is a call of a BLAS library: tier = measured, kernel_family,"
            " group_sizes and grouped_kernel do not apply",
            "leave them out",
        ),
    )


class AttentionInputs(
    HalfFormats,
    PricedOperator,
    AttentionShape,
    AttentionSizes,
    AttentionKind,
    AttentionPhase,
    SystemChoice,
):
    """The attention of one layer on one device."""

    half_formats = ("format", "kv_format")
    rules: ClassVar[Sequence[Rule[Columns]]] = (
        *SHARED_HEADS,
        Rule(
            lambda c: c.equals("mask", "none") & (c.numbers("window") > 0.0),
            "window = {window} needs a causal mask",
            "leave window or mask out",
        ),
        Rule(
            lambda c: ~c.equals("direction", "forward") & c.equals("cache_append", "included"),
            "cache_append = included contradicts direction = {direction}: training appends to no"
            " cache",
            "leave cache_append out",
        ),
    )


class MoeInputs(HalfFormats, PricedOperator, MoeShape, SystemChoice):
    """The routed experts of one layer on one device."""

    rules: ClassVar[Sequence[Rule[Columns]]] = SHARED_EXPERTS


def _exceeds(c: Columns, kernel: str, size: str) -> BoolArray:
    """Return the rows whose kernel is larger than the padded image (N,)."""
    kernel_N = np.where(c.is_set(kernel), c.numbers(kernel), c.numbers("kernel"))
    padding_N = np.where(c.is_set("padding"), c.numbers("padding"), kernel_N // 2)
    exceeds_N: BoolArray = kernel_N > c.numbers(size) + 2.0 * padding_N
    return exceeds_N


def _kernel_message(kernel: str, size: str, c: Columns, row: int) -> str:
    fields = c.row(row)
    wide = fields[kernel] or fields["kernel"]
    padding = wide // 2 if fields["padding"] is None else fields["padding"]
    return f"a kernel of {wide} exceeds {size} = {fields[size]} with padding = {padding}"


class ConvInputs(HalfFormats, PricedOperator, ConvShape, SystemChoice):
    """A convolution on one device."""

    rules: ClassVar[Sequence[Rule[Columns]]] = (
        Rule(
            lambda c: c.equals("tier", "measured"),
            "tier = measured: there are no measured tables of convolutions",
            "set tier = physics",
            UnsupportedError,
        ),
        Rule(
            lambda c: (
                (c.numbers("channels") % c.numbers("groups") > 0.0)
                | (c.numbers("filters") % c.numbers("groups") > 0.0)
            ),
            "groups = {groups} must divide channels = {channels} and filters = {filters}",
        ),
        *(
            Rule(
                partial(_exceeds, kernel=kernel, size=size), partial(_kernel_message, kernel, size)
            )
            for kernel, size in (("kernel", "height"), ("kernel_width", "width"))
        ),
    )


class NormInputs(InputFields, PricedOperator, RowShape, NormShape, SystemChoice):
    """A norm on one device."""

    rules: ClassVar[Sequence[Rule[Columns]]] = (
        Rule(
            lambda c: c.equals("kind", "group") & (c.numbers("width") % c.numbers("groups") > 0.0),
            "groups = {groups} must divide width = {width}",
        ),
        Rule(
            lambda c: c.equals("kind", "group") & (c.numbers("tokens") % c.numbers("batch") > 0.0),
            "batch = {batch} must divide tokens = {tokens}",
        ),
    )


class SoftmaxInputs(InputFields, PricedOperator, RowShape, SystemChoice):
    """A softmax on one device."""


class EmbeddingInputs(InputFields, PricedOperator, RowShape, EmbeddingShape, SystemChoice):
    """An embedding lookup on one device."""


class ElementwiseInputs(InputFields, PricedOperator, RowShape, ElementwiseShape, SystemChoice):
    """An elementwise operator on one device."""


class AttentionDesignInputs(
    InputFields, TileChoice, DesignedAttention, AttentionSizes, AttentionKind, SystemChoice
):
    """An attention kernel under design."""

    rules: ClassVar[Sequence[Rule[Columns]]] = (
        Rule(  # in prefill, keys and values are expanded
            lambda c: c.equals("kind", "mla") & ~c.equals("phase", "decode"),
            "kernel design attention models kind = mla in decode",
            "set phase = decode, or use kernel attention",
            UnsupportedError,
        ),
        *SHARED_HEADS,
    )


class GemmDesignInputs(InputFields, TileChoice, GemmShape, SystemChoice):
    """A GEMM kernel under design."""


class GemmTuneInputs(InputFields, TuneBudget, GemmShape, SystemChoice):
    """A matrix product to tune."""

    rules: ClassVar[Sequence[Rule[Columns]]] = (
        Rule(
            lambda c: c.numbers("groups") > 1.0,
            "groups = {groups}: kernel tune gemm tunes one product",
            "leave groups out, or use kernel tune grouped_gemm",
            UnsupportedError,
        ),
    )


class ExpertTuneInputs(InputFields, TuneBudget, MoeShape, SystemChoice):
    """The experts of a layer to tune."""

    rules: ClassVar[Sequence[Rule[Columns]]] = (
        *SHARED_EXPERTS,
        Rule(
            lambda c: ~c.equals("distribution", "uniform"),
            "distribution = {distribution}: kernel tune knows experts that are chosen at random",
            "leave distribution out, or use kernel moe",
            UnsupportedError,
        ),
    )


class AttentionTuneInputs(
    InputFields, TuneBudget, DesignedAttention, AttentionSizes, AttentionKind, SystemChoice
):
    """Attention to tune."""

    rules: ClassVar[Sequence[Rule[Columns]]] = (
        Rule(
            lambda c: c.equals("kind", "mla") | c.equals("direction", "backward"),
            "kernel tune attention tunes the forward pass of attention with heads of its own",
            "set kind = gqa and direction = forward, or use kernel design attention",
            UnsupportedError,
        ),
        Rule(
            lambda c: ~np.isin(c.numbers("head_dim"), HEAD_DIMS),
            "head_dim = {head_dim}: the kernels have heads of 16 to 256 columns, powers of two",
            "use kernel attention",
            UnsupportedError,
        ),
        *SHARED_HEADS,
    )


class NormTuneInputs(InputFields, TuneBudget, RowShape, SystemChoice):
    """RMSNorm with a residual to tune."""


class ReduceTuneInputs(InputFields, ReducedRows, RowShape, SystemChoice):
    """All-reduce with a residual and RMSNorm to tune."""


class ModelTuneInputs(InputFields, TuneBudget, TunedStep, SystemChoice, ModelChoice):
    """The kernels of a model to tune."""


DesignInputs = AttentionDesignInputs | GemmDesignInputs
RowInputs = NormInputs | SoftmaxInputs | EmbeddingInputs | ElementwiseInputs
OperatorInputs = GemmInputs | AttentionInputs | MoeInputs | ConvInputs | RowInputs | LibraryInputs
