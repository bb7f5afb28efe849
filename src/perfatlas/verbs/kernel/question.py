"""What the kernel verbs are asked, read and checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.fields import InputFields, refuse_unused
from perfatlas.vocabulary.fields import (
    AttentionShape,
    ClockChoice,
    GemmShape,
    KernelChoice,
    MoeShape,
    SystemChoice,
    TierChoice,
    fields_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


# the groups from the last to the first: Python collects annotations from the last base on
class GemmQuestion(InputFields, ClockChoice, TierChoice, KernelChoice, GemmShape, SystemChoice):
    """One matrix product on one device."""


class AttentionQuestion(
    InputFields, ClockChoice, TierChoice, KernelChoice, AttentionShape, SystemChoice
):
    """The attention of one layer on one device."""


class MoeQuestion(InputFields, ClockChoice, TierChoice, KernelChoice, MoeShape, SystemChoice):
    """The routed experts of one layer on one device."""


Question = GemmQuestion | AttentionQuestion | MoeQuestion


def read_gemm(fields: Mapping[str, Any]) -> GemmQuestion:
    """Return the matrix product of named fields.

    Args:
        fields: As given; None is not given.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, or has no effect.
    """
    asked = GemmQuestion.read(fields)
    refuse_unused(vars(asked), fields_of(type(asked)))
    return asked


def read_attention(fields: Mapping[str, Any]) -> AttentionQuestion:
    """Return the attention of named fields, with the number of queries and key-value heads.

    Args:
        fields: As given; None is not given.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another, or
            has no effect.
    """
    asked = AttentionQuestion.read(fields)
    refuse_unused(vars(asked), fields_of(type(asked)))
    if asked.q_len is not None and asked.q_len > asked.kv_len:
        raise InvalidSpecError(
            f"q_len = {asked.q_len} exceeds kv_len = {asked.kv_len}: kv_len counts the cached"
            " prefix and the queries themselves"
        )
    if asked.num_heads % (asked.num_kv_heads or asked.num_heads):
        raise InvalidSpecError(
            f"num_kv_heads = {asked.num_kv_heads} must divide num_heads = {asked.num_heads}"
        )
    return asked


def read_moe(fields: Mapping[str, Any]) -> MoeQuestion:
    """Return the experts of named fields.

    Args:
        fields: As given; None is not given.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, or contradicts another.
    """
    asked = MoeQuestion.read(fields)
    refuse_unused(vars(asked), fields_of(type(asked)))
    if asked.top_k > asked.experts:
        raise InvalidSpecError(f"top_k = {asked.top_k} exceeds experts = {asked.experts}")
    if asked.experts % asked.ep or asked.intermediate % asked.moe_tp:
        raise InvalidSpecError(
            f"ep = {asked.ep} must divide experts = {asked.experts} and moe_tp = {asked.moe_tp}"
            f" intermediate = {asked.intermediate}"
        )
    return asked
