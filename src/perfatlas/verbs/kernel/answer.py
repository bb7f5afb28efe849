"""`kernel gemm`, `kernel attention`, `kernel moe`: the price of one operator on one device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.answer import CHOICES, quantizes_input, tells_unused_changes
from perfatlas.operators import Attention, Gemm, GroupedGemm, LatentAttention, Phase
from perfatlas.quantities import InvalidSpecError
from perfatlas.verbs.kernel.operator_answer import OperatorReader
from perfatlas.vocabulary.fields import check_distribution

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.answer import Answer

GEMM_FIELDS: Final = (
    "system",
    "m",
    "n",
    "k",
    "format",
    "quantization",
    "kernel_family",
    "protocol",
    "clock_ratio",
    "tier",
    "silicon_version",
)
ATTENTION_FIELDS: Final = (
    "system",
    "phase",
    "kind",
    "batch",
    "q_len",
    "kv_len",
    "num_heads",
    "num_kv_heads",
    "head_dim",
    "format",
    "kv_format",
    "window",
    "kv_lora_rank",
    "rope_dim",
    "kernel_family",
    "protocol",
    "clock_ratio",
    "tier",
    "silicon_version",
)
MOE_FIELDS: Final = (
    "system",
    "tokens",
    "hidden",
    "intermediate",
    "experts",
    "top_k",
    "ep",
    "moe_tp",
    "format",
    "distribution",
    "kernel_family",
    "protocol",
    "clock_ratio",
    "tier",
    "silicon_version",
)


@tells_unused_changes
def kernel_gemm(**fields: Any) -> Answer:  # noqa: ANN401 - checked below, name by name
    """Return the time of one matrix product C[m, n] = A[m, k] W[k, n].

    Args:
        **fields: system, m, n, k, format (bf16), quantization (of the activation: excluded, or
            included as fp8_dynamic, fp8_block and nvfp4 were measured), kernel_family (the engine
            whose kernels run; default the fastest of all), protocol (cold), clock_ratio (1, over
            the sustained clock), tier (auto), silicon_version.

    Raises:
        InvalidSpecError: A dimension is missing or not a positive integer, or the quantization of
            a format that was not measured with one.
        UnsupportedError: No such format on the device, or no data for the tier.

    Example:
        >>> from perfatlas.verbs.kernel import kernel_gemm
        >>> kernel_gemm(system="h200_sxm", m=4096, n=8192, k=8192).results["bound"]
        'compute'
    """
    reader = OperatorReader("kernel gemm", fields)
    reader.allow(GEMM_FIELDS)
    number_format = reader.number_format("format")
    quantization = reader.choice("quantization", CHOICES, "excluded")
    operator = Gemm(
        name="gemm",
        phase=Phase.PREFILL,
        count=np.ones(1),
        m=reader.size("m"),
        n=reader.size("n"),
        k=reader.size("k"),
        format=number_format.name,
        weight_bytes_per_element=number_format.weight_bytes,
        input_bytes_per_element=number_format.activation_bytes,
        quantizes_input=quantizes_input(quantization, number_format.name),
    )
    return reader.price(operator)


@tells_unused_changes
def kernel_attention(**fields: Any) -> Answer:  # noqa: ANN401 - checked below, name by name
    """Return the time of the attention of one layer on one device.

    Args:
        **fields: system, phase (prefill or decode), kind (gqa or mla), batch, q_len, kv_len,
            num_heads, num_kv_heads, head_dim, window, format, kv_format, kv_lora_rank, rope_dim,
            kernel_family, protocol, clock_ratio, tier, silicon_version.

    Raises:
        InvalidSpecError: A dimension is missing or contradicts another.
        UnsupportedError: No such format on the device, or no data for the tier.
    """
    reader = OperatorReader("kernel attention", fields)
    reader.allow(ATTENTION_FIELDS)
    phase = Phase(reader.choice("phase", (Phase.PREFILL, Phase.DECODE), Phase.DECODE))
    kind = reader.choice("kind", ("gqa", "mla"), "gqa")
    kv_len = reader.size("kv_len")
    q_len = reader.size("q_len", 1 if phase == Phase.DECODE else float(kv_len[0]))
    if q_len[0] > kv_len[0]:
        raise InvalidSpecError(
            f"q_len = {q_len[0]:g} exceeds kv_len = {kv_len[0]:g}: kv_len counts the cached prefix"
            " and the queries themselves"
        )
    cache = reader.number_format("kv_format")
    shared: dict[str, Any] = {
        "name": "attention",
        "phase": phase,
        "count": np.ones(1),
        "batch": reader.size("batch", 1),
        "q_len": q_len,
        "kv_len": kv_len,
        "num_heads": reader.size("num_heads"),
        "format": reader.number_format("format").name,
        "kv_format": cache.name,
        "kv_bytes_per_element": cache.weight_bytes,
    }
    return reader.price(_latent(reader, shared) if kind == "mla" else _grouped(reader, shared))


def _grouped(reader: OperatorReader, shared: Mapping[str, Any]) -> Attention:
    heads = float(shared["num_heads"][0])
    kv_heads = reader.size("num_kv_heads", heads)
    if heads % kv_heads[0]:
        raise InvalidSpecError(f"num_kv_heads = {kv_heads[0]:g} must divide num_heads = {heads:g}")
    head_dim = reader.size("head_dim", 128)
    return Attention(
        **shared,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        value_head_dim=head_dim,
        window=reader.size("window", 0, least=0),
    )


def _latent(reader: OperatorReader, shared: Mapping[str, Any]) -> LatentAttention:
    return LatentAttention(
        **shared,
        kv_lora_rank=reader.size("kv_lora_rank", 512),
        rope_dim=reader.size("rope_dim", 64),
        nope_dim=reader.size("head_dim", 128),
        value_head_dim=reader.size("head_dim", 128),
        selected=reader.size("window", 0, least=0),
    )


@tells_unused_changes
def kernel_moe(**fields: Any) -> Answer:  # noqa: ANN401 - checked below, name by name
    """Return the time of the routed experts of one layer on one rank.

    Args:
        **fields: system, tokens, hidden, intermediate, experts, top_k, ep, moe_tp, format,
            distribution (uniform, balanced or power_law_<alpha>), kernel_family, clock_ratio,
            tier, silicon_version.

    Raises:
        InvalidSpecError: A dimension is missing or contradicts another.
        UnsupportedError: No such format on the device, or no data for the tier.
    """
    reader = OperatorReader("kernel moe", fields)
    reader.allow(MOE_FIELDS)
    number_format = reader.number_format("format")
    experts, top_k = reader.size("experts"), reader.size("top_k")
    ep, moe_tp = reader.size("ep", 1), reader.size("moe_tp", 1)
    intermediate = reader.size("intermediate")
    if top_k[0] > experts[0]:
        raise InvalidSpecError(f"top_k = {top_k[0]:g} exceeds experts = {experts[0]:g}")
    if experts[0] % ep[0] or intermediate[0] % moe_tp[0]:
        raise InvalidSpecError(
            f"ep = {ep[0]:g} must divide experts = {experts[0]:g} and moe_tp = {moe_tp[0]:g}"
            f" intermediate = {intermediate[0]:g}"
        )
    operator = GroupedGemm(
        name="experts",
        phase=Phase.PREFILL,
        count=np.ones(1),
        tokens=reader.size("tokens"),
        hidden=reader.size("hidden"),
        intermediate=intermediate,
        experts=experts,
        top_k=top_k,
        ep=ep,
        moe_tp=moe_tp,
        matrices=3,
        format=number_format.name,
        weight_bytes_per_element=number_format.weight_bytes,
        input_bytes_per_element=number_format.activation_bytes,
        distribution=check_distribution(reader.text("distribution", "uniform")),
    )
    return reader.price(operator)
