"""Queries of the kernel verbs: parsing and validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.scenario.fields import InputFields, refuse_unused
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
    MoeShape,
    NormShape,
    PowerLimit,
    RowShape,
    SystemChoice,
    TierChoice,
    TileChoice,
    fields_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


Inputs = TypeVar("Inputs", bound="InputFields")


class PricedOperator(PowerLimit, ClockChoice, TierChoice, KernelChoice):
    """Kernels, tier and clock of an operator on one device."""


# groups in reverse order: Python collects annotations from the last base on
class GemmInputs(InputFields, PricedOperator, MeasuredProduct, GemmShape, SystemChoice):
    """A matrix product on one device."""


class AttentionInputs(
    InputFields,
    PricedOperator,
    AttentionShape,
    AttentionSizes,
    AttentionKind,
    AttentionPhase,
    SystemChoice,
):
    """The attention of one layer on one device."""


class MoeInputs(InputFields, PricedOperator, MoeShape, SystemChoice):
    """The routed experts of one layer on one device."""


class ConvInputs(InputFields, PricedOperator, ConvShape, SystemChoice):
    """A convolution on one device."""


class NormInputs(InputFields, PricedOperator, RowShape, NormShape, SystemChoice):
    """A norm on one device."""


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


class GemmDesignInputs(InputFields, TileChoice, GemmShape, SystemChoice):
    """A GEMM kernel under design."""


DesignInputs = AttentionDesignInputs | GemmDesignInputs
RowInputs = NormInputs | SoftmaxInputs | EmbeddingInputs | ElementwiseInputs
OperatorInputs = GemmInputs | AttentionInputs | MoeInputs | ConvInputs | RowInputs


def read_operator(
    schema: type[Inputs], fields: Mapping[str, Any], half_formats: tuple[str, ...] = ()
) -> Inputs:
    """Return a query of named fields, each of which has an effect.

    Args:
        fields: The fields as given; None means "not given".
        half_formats: Formats that are fp16, where unset, on tensor cores without bf16.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, or has no effect.
    """
    system = fields.get("system")
    unset = [name for name in half_formats if fields.get(name) in (None, "")]
    if unset and isinstance(system, str):
        fields = {**fields, **dict.fromkeys(unset, half_format(system))}
    inputs = schema.read(fields)
    refuse_unused(vars(inputs), fields_of(schema))
    return inputs


def check_attention(inputs: AttentionInputs) -> None:
    """Refuse contradictory sizes, masks and appends to the cache."""
    _check_sizes(inputs)
    if inputs.mask == "none" and inputs.window:
        raise InvalidSpecError(
            f"window = {inputs.window} needs a causal mask; leave window or mask out"
        )
    if inputs.direction != "forward" and inputs.cache_append == "included":
        raise InvalidSpecError(
            f"cache_append = included contradicts direction = {inputs.direction}: training appends"
            " to no cache; leave cache_append out"
        )


def check_moe(inputs: MoeInputs) -> None:
    """Refuse experts that a token or a rank cannot have."""
    if inputs.top_k > inputs.experts:
        raise InvalidSpecError(f"top_k = {inputs.top_k} exceeds experts = {inputs.experts}")
    if inputs.experts % inputs.ep or inputs.intermediate % inputs.moe_tp:
        raise InvalidSpecError(
            f"ep = {inputs.ep} must divide experts = {inputs.experts} and moe_tp = {inputs.moe_tp}"
            f" intermediate = {inputs.intermediate}"
        )


def check_conv(inputs: ConvInputs) -> None:
    """Refuse groups that do not divide channels, kernels beyond the padded image, and tables."""
    if inputs.tier == "measured":
        raise UnsupportedError(
            "tier = measured: there are no measured tables of convolutions; set tier = physics"
        )
    if inputs.channels % inputs.groups or inputs.filters % inputs.groups:
        raise InvalidSpecError(
            f"groups = {inputs.groups} must divide channels = {inputs.channels} and filters ="
            f" {inputs.filters}",
        )
    kernel_width = inputs.kernel_width or inputs.kernel
    for name, size, kernel in (
        ("height", inputs.height, inputs.kernel),
        ("width", inputs.width, kernel_width),
    ):
        padding = kernel // 2 if inputs.padding is None else inputs.padding
        if kernel > size + 2 * padding:
            raise InvalidSpecError(
                f"a kernel of {kernel} exceeds {name} = {size} with padding = {padding}",
            )


def check_norm(inputs: NormInputs) -> None:
    """Refuse groups that do not divide channels, and images that do not divide the rows."""
    if inputs.kind != "group":
        return
    for name, parts, whole in (
        ("groups", inputs.groups, "width"),
        ("batch", inputs.batch, "tokens"),
    ):
        if getattr(inputs, whole) % parts:
            raise InvalidSpecError(
                f"{name} = {parts} must divide {whole} = {getattr(inputs, whole)}"
            )


def _check_sizes(inputs: AttentionInputs | AttentionDesignInputs) -> None:
    """Refuse more queries than keys, and query heads that do not share KV heads evenly."""
    if inputs.q_len is not None and inputs.q_len > inputs.kv_len:
        raise InvalidSpecError(
            f"q_len = {inputs.q_len} exceeds kv_len = {inputs.kv_len}: kv_len includes the cached"
            " prefix and the queries"
        )
    if inputs.num_heads % (inputs.num_kv_heads or inputs.num_heads):
        raise InvalidSpecError(
            f"num_kv_heads = {inputs.num_kv_heads} must divide num_heads = {inputs.num_heads}"
        )


def read_attention_design(fields: Mapping[str, Any]) -> AttentionDesignInputs:
    """Return the attention kernel of named fields.

    Args:
        fields: The fields as given; None means "not given".

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another, or
            has no effect.
        UnsupportedError: Latent attention in prefill, which expands keys and values.
    """
    inputs = AttentionDesignInputs.read(fields)
    refuse_unused(vars(inputs), fields_of(type(inputs)))
    if inputs.kind == "mla" and inputs.phase != "decode":
        raise UnsupportedError(
            "kernel design attention models kind = mla in decode: set phase = decode, or use kernel"
            " attention"
        )
    _check_sizes(inputs)
    return inputs
