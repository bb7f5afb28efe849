"""`perfatlas kernel gemm|attention|moe`: one operator on one GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from perfatlas.cli.flags import Count, OutputFlags, default, given
from perfatlas.cli.output import answer_rows, require, show_answer, show_summary, wants_table

if TYPE_CHECKING:
    from collections.abc import Sequence


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class GemmFlags:
    """A matrix product.

    Args:
        system: Catalog name, TOML file, or name with changes.
        m: Rows of the activations: tokens.
        n: Columns of the weights: output features.
        k: Inner dimension: input features.
        format: Number format of the product.
        quantization: Of the activation, as measured with fp8_dynamic, fp8_block and nvfp4: in the
            time or not.
        kernel_family: Whose kernels, such as vllm; by default the fastest of all.
        protocol: How time is measured; cold is with cold caches.
        clock_ratio: Clock over the sustained clock of the device.
        tier: Which pricing.
        silicon_version: Of the tables of tier measured: the version of the engine measured.
    """

    system: str | None = None
    m: Count = None
    n: Count = None
    k: Count = None
    format: Annotated[str | None, default("bf16")] = None
    quantization: Annotated[Literal["excluded", "included"] | None, default("excluded")] = None
    kernel_family: str | None = None
    protocol: Annotated[str | None, default("cold")] = None
    clock_ratio: Annotated[float | None, default("1")] = None
    tier: Annotated[Literal["auto", "bound", "physics", "measured"] | None, default("auto")] = None
    silicon_version: str | None = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class AttentionFlags:
    """The attention of one layer.

    Args:
        system: Catalog name, TOML file, or name with changes.
        phase: Many new tokens per sequence, or one.
        kind: Grouped-query (also MHA and MQA) or multi-head latent attention.
        batch: Sequences.
        q_len: New tokens per sequence.
        kv_len: Keys per sequence, the new ones included.
        num_heads: Query heads on this GPU.
        num_kv_heads: Key-value heads on this GPU.
        head_dim: Width of a head.
        kv_lora_rank: Width of the latent, for mla.
        rope_dim: Width of the rotary part, for mla.
        format: Number format of the arithmetic.
        kv_format: Number format of the KV cache.
        window: Sliding window in tokens; 0 is none.
        kernel_family: Whose kernels, such as vllm; by default the fastest of all.
        protocol: How time is measured; cold is with cold caches.
        clock_ratio: Clock over the sustained clock of the device.
        tier: Which pricing.
        silicon_version: Of the tables of tier measured: the version of the engine measured.
    """

    system: str | None = None
    phase: Annotated[Literal["prefill", "decode"] | None, default("decode")] = None
    kind: Annotated[Literal["gqa", "mla"] | None, default("gqa")] = None
    batch: Annotated[Count, default("1")] = None
    q_len: Count = None
    kv_len: Count = None
    num_heads: Count = None
    num_kv_heads: Count = None
    head_dim: Annotated[Count, default("128")] = None
    kv_lora_rank: Annotated[Count, default("512")] = None
    rope_dim: Annotated[Count, default("64")] = None
    format: Annotated[str | None, default("bf16")] = None
    kv_format: Annotated[str | None, default("bf16")] = None
    window: Annotated[Count, default("0")] = None
    kernel_family: str | None = None
    protocol: Annotated[str | None, default("cold")] = None
    clock_ratio: Annotated[float | None, default("1")] = None
    tier: Annotated[Literal["auto", "bound", "physics", "measured"] | None, default("auto")] = None
    silicon_version: str | None = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class MoeFlags:
    """The expert GEMMs of one layer.

    Args:
        system: Catalog name, TOML file, or name with changes.
        tokens: Tokens before routing, over the expert-parallel group.
        hidden: Model width.
        intermediate: Width of one expert, unsharded.
        experts: Routed experts, unsharded.
        top_k: Experts per token.
        ep: Expert-parallel size.
        moe_tp: Tensor-parallel size inside an expert.
        format: Number format of the products.
        distribution: How tokens fall on experts: uniform (drawn evenly), balanced (dealt out) or
            power_law_1.2.
        kernel_family: Whose kernels, such as vllm; by default the fastest of all.
        protocol: How time is measured; cold is with cold caches.
        clock_ratio: Clock over the sustained clock of the device.
        tier: Which pricing.
        silicon_version: Of the tables of tier measured: the version of the engine measured.
    """

    system: str | None = None
    tokens: Count = None
    hidden: Count = None
    intermediate: Count = None
    experts: Count = None
    top_k: Count = None
    ep: Annotated[Count, default("1")] = None
    moe_tp: Annotated[Count, default("1")] = None
    format: Annotated[str | None, default("bf16")] = None
    distribution: Annotated[str | None, default("uniform")] = None
    kernel_family: str | None = None
    protocol: Annotated[str | None, default("cold")] = None
    clock_ratio: Annotated[float | None, default("1")] = None
    tier: Annotated[Literal["auto", "bound", "physics", "measured"] | None, default("auto")] = None
    silicon_version: str | None = None


def gemm(*, flags: GemmFlags | None = None, output: OutputFlags | None = None) -> int:
    """Return the exit code of timing a GEMM.

    Args:
        flags: The product.
        output: Where the answer goes.
    """
    return _run(
        "gemm",
        flags or GemmFlags(),
        output or OutputFlags(),
        needed=("system", "m", "n", "k"),
        example="perfatlas kernel gemm --system h200_sxm --m 64 --n 8192 --k 8192 --format bf16",
    )


def attention(*, flags: AttentionFlags | None = None, output: OutputFlags | None = None) -> int:
    """Return the exit code of timing an attention.

    Args:
        flags: The attention.
        output: Where the answer goes.
    """
    return _run(
        "attention",
        flags or AttentionFlags(),
        output or OutputFlags(),
        needed=("system", "kv_len", "num_heads"),
        example="perfatlas kernel attention --system h200_sxm --phase decode --batch 64 "
        "--kv-len 4096 --num-heads 8 --num-kv-heads 1 --head-dim 128",
    )


def moe(*, flags: MoeFlags | None = None, output: OutputFlags | None = None) -> int:
    """Return the exit code of timing the experts of a layer.

    Args:
        flags: The layer.
        output: Where the answer goes.
    """
    return _run(
        "moe",
        flags or MoeFlags(),
        output or OutputFlags(),
        needed=("system", "tokens", "hidden", "intermediate", "experts", "top_k"),
        example="perfatlas kernel moe --system h200_sxm --tokens 64 --hidden 4096 "
        "--intermediate 1536 --experts 128 --top-k 8 --format fp8_block",
    )


def _run(
    verb: str,
    flags: GemmFlags | AttentionFlags | MoeFlags,
    output: OutputFlags,
    *,
    needed: Sequence[str],
    example: str,
) -> int:

    import perfatlas

    asked = given(flags)
    face = getattr(perfatlas, f"kernel_{verb}")
    if wants_table(output):
        summary = answer_rows(
            face, output, asked=asked, names=type(flags).__dataclass_fields__, first="time_s"
        )
        return show_summary(f"kernel {verb}", summary, asked=asked, as_json=output.json)
    require(asked, needed, example=example)
    return show_answer(face(**asked).to_dict(), as_json=output.json, asked=asked)
