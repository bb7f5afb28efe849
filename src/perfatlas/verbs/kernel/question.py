"""Queries of the kernel verbs: parsing and validation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.scenario.fields import InputFields, refuse_unused
from perfatlas.scenario.resolution import half_format
from perfatlas.vocabulary.fields import (
    AttentionPhase,
    AttentionShape,
    AttentionSizes,
    ClockChoice,
    DesignedAttention,
    ElementwiseShape,
    GemmShape,
    KernelChoice,
    MeasuredProduct,
    MoeShape,
    PowerLimit,
    SystemChoice,
    TierChoice,
    TileChoice,
    fields_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


# groups in reverse order: Python collects annotations from the last base on
class GemmInputs(
    InputFields,
    PowerLimit,
    ClockChoice,
    TierChoice,
    KernelChoice,
    MeasuredProduct,
    GemmShape,
    SystemChoice,
):
    """A matrix product on one device."""


class AttentionInputs(
    InputFields,
    PowerLimit,
    ClockChoice,
    TierChoice,
    KernelChoice,
    AttentionShape,
    AttentionSizes,
    AttentionPhase,
    SystemChoice,
):
    """The attention of one layer on one device."""


class MoeInputs(
    InputFields, PowerLimit, ClockChoice, TierChoice, KernelChoice, MoeShape, SystemChoice
):
    """The routed experts of one layer on one device."""


class ElementwiseInputs(
    InputFields, PowerLimit, ClockChoice, TierChoice, KernelChoice, ElementwiseShape, SystemChoice
):
    """An operator limited by memory bandwidth on one device."""


class AttentionDesignInputs(
    InputFields, TileChoice, DesignedAttention, AttentionSizes, SystemChoice
):
    """An attention kernel under design."""


class GemmDesignInputs(InputFields, TileChoice, GemmShape, SystemChoice):
    """A GEMM kernel under design."""


DesignInputs = AttentionDesignInputs | GemmDesignInputs
OperatorInputs = GemmInputs | AttentionInputs | MoeInputs | ElementwiseInputs


def _with_half(fields: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Return the fields, with unset formats of 16 bits fp16 on tensor cores without bf16."""
    unset = [name for name in names if fields.get(name) in (None, "")]
    system = fields.get("system")
    if not unset or not isinstance(system, str) or half_format(system) == "bf16":
        return fields
    return {**fields, **dict.fromkeys(unset, half_format(system))}


def read_gemm(fields: Mapping[str, Any]) -> GemmInputs:
    """Return the matrix product of named fields.

    Args:
        fields: The fields as given; None means "not given".

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, or has no effect.
    """
    inputs = GemmInputs.read(_with_half(fields, "format"))
    refuse_unused(vars(inputs), fields_of(type(inputs)))
    return inputs


def read_attention(fields: Mapping[str, Any]) -> AttentionInputs:
    """Return the attention of named fields, with its number of queries and KV heads.

    Args:
        fields: The fields as given; None means "not given".

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another, or
            has no effect.
    """
    inputs = AttentionInputs.read(_with_half(fields, "format", "kv_format"))
    refuse_unused(vars(inputs), fields_of(type(inputs)))
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
    return inputs


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
        UnsupportedError: Too few speeds are published to check a model of the kernel.
    """
    inputs = AttentionDesignInputs.read(fields)
    for name, modelled in (("phase", "prefill"), ("kind", "gqa"), ("direction", "forward")):
        if (value := getattr(inputs, name)) != modelled:
            raise UnsupportedError(
                f"{name} = {value} is not validated in kernel design: too few speeds are"
                f" published; use {name} = {modelled}, or kernel attention"
            )
    refuse_unused(vars(inputs), fields_of(type(inputs)))
    _check_sizes(inputs)
    return inputs


def read_gemm_design(fields: Mapping[str, Any]) -> GemmDesignInputs:
    """Return the GEMM kernel of named fields.

    Args:
        fields: The fields as given; None means "not given".

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, or has no effect.
    """
    inputs = GemmDesignInputs.read(fields)
    refuse_unused(vars(inputs), fields_of(type(inputs)))
    return inputs


def read_moe(fields: Mapping[str, Any]) -> MoeInputs:
    """Return the experts of named fields.

    Args:
        fields: The fields as given; None means "not given".

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, or contradicts another.
    """
    inputs = MoeInputs.read(_with_half(fields, "format"))
    refuse_unused(vars(inputs), fields_of(type(inputs)))
    if inputs.top_k > inputs.experts:
        raise InvalidSpecError(f"top_k = {inputs.top_k} exceeds experts = {inputs.experts}")
    if inputs.experts % inputs.ep or inputs.intermediate % inputs.moe_tp:
        raise InvalidSpecError(
            f"ep = {inputs.ep} must divide experts = {inputs.experts} and moe_tp = {inputs.moe_tp}"
            f" intermediate = {inputs.intermediate}"
        )
    return inputs


def read_elementwise(fields: Mapping[str, Any]) -> ElementwiseInputs:
    """Return the elementwise operator of named fields.

    Args:
        fields: The fields as given; None means "not given".

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, or has no effect.
    """
    inputs = ElementwiseInputs.read(fields)
    refuse_unused(vars(inputs), fields_of(type(inputs)))
    return inputs
