"""Building blocks shared by the family files: attention, feed-forward and grouping of layers."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from perfatlas.networks.architecture import Architecture
from perfatlas.networks.language_model import LayerGroup
from perfatlas.networks.layers import DenseFfn, Ffn, GqaAttention, Mixer, MlaAttention, MoeFfn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfatlas.networks.hf_config.fields import Fields


def gqa(
    fields: Fields, *, head_dim: int | None = None, kv_heads: int | None = None
) -> GqaAttention:
    """Return the grouped-query attention of a config, without biases, window or norms.

    Families add their specifics with `dataclasses.replace`.

    Args:
        head_dim: Default of head_dim; None means hidden_size / num_attention_heads.
        kv_heads: num_key_value_heads if the key is absent; None, and null in the config, mean one
            per query head.
    """
    num_heads = fields.integer("num_attention_heads")
    stated = "num_key_value_heads" in fields.values
    default_kv_heads = num_heads if stated or kv_heads is None else kv_heads
    num_kv_heads = fields.integer("num_key_value_heads", default=default_kv_heads)
    if num_heads % num_kv_heads:
        raise fields.invalid(
            "num_key_value_heads",
            f"the {num_kv_heads} key-value heads must divide"
            f" {fields.spelled('num_attention_heads')} = {num_heads}",
        )
    head_dim = _head_dim(fields, num_heads, head_dim)
    return GqaAttention(
        num_heads=num_heads, num_kv_heads=num_kv_heads, head_dim=head_dim, value_head_dim=head_dim
    )


def _head_dim(fields: Fields, num_heads: int, default: int | None) -> int:
    if fields.has("head_dim") or default is not None:
        return fields.integer("head_dim", default=default)
    hidden_size = fields.integer("hidden_size")
    if hidden_size % num_heads:
        raise fields.invalid(
            "hidden_size",
            f"must be a multiple of {fields.spelled('num_attention_heads')} = {num_heads} if"
            " head_dim is absent",
        )
    return hidden_size // num_heads


def mla(fields: Fields) -> MlaAttention:
    """Return the multi-head latent attention of DeepSeek configs, without an indexer."""
    num_heads = fields.integer("num_attention_heads")
    if fields.boolean("attention_bias", default=False):
        raise fields.unsupported("attention_bias", "latent attention with biases is not supported")
    return MlaAttention(
        num_heads=num_heads,
        q_lora_rank=fields.integer("q_lora_rank", default=0, minimum=0),
        kv_lora_rank=fields.integer("kv_lora_rank"),
        nope_dim=fields.integer("qk_nope_head_dim"),
        rope_dim=fields.integer("qk_rope_head_dim"),
        value_head_dim=fields.integer(
            "v_head_dim", default=fields.integer("hidden_size") // num_heads or None
        ),
    )


def dense(fields: Fields, *, bias: bool = False, gated: bool = True) -> DenseFfn:
    """Return the dense feed-forward of `intermediate_size`."""
    return DenseFfn(intermediate_size=fields.integer("intermediate_size"), gated=gated, bias=bias)


def moe(fields: Fields, *, experts: Sequence[str], width: str = "moe_intermediate_size") -> MoeFfn:
    """Return the routed experts of a config, without shared experts, gates or biases."""
    num_experts = fields.integer(*experts)
    top_k = fields.integer("num_experts_per_tok", "experts_per_token")
    if top_k > num_experts:
        raise fields.invalid(
            fields.has("num_experts_per_tok") or "experts_per_token",
            f"must not exceed the {num_experts} routed experts",
        )
    return MoeFfn(num_experts=num_experts, top_k=top_k, intermediate_size=fields.integer(width))


def layer_types(fields: Fields, allowed: Sequence[str], default: Sequence[str]) -> tuple[str, ...]:
    """Return the kind of each layer, from `layer_types` or else the family's default.

    Args:
        default: One kind per layer, used if `layer_types` is absent.
    """
    stated = fields.texts("layer_types")
    if fields.has("layer_types") is None:
        return tuple(default)
    if len(stated) != len(default):
        raise fields.invalid(
            "layer_types",
            f"has {len(stated)} entries for num_hidden_layers = {len(default)}",
        )
    if unknown := sorted(set(stated) - set(allowed)):
        name = unknown[0][:40]
        raise fields.invalid("layer_types", f"{name!r} is not one of {', '.join(allowed)}")
    return stated


def flags(fields: Fields, name: str, depth: int, default: Sequence[bool]) -> tuple[bool, ...]:
    """Return one flag per layer from a list of 0 and 1, or the default if it is absent."""
    stated = fields.integers(name, maximum=1)
    if not stated:
        return tuple(default)
    if len(stated) < depth:
        raise fields.invalid(name, f"has {len(stated)} entries for num_hidden_layers = {depth}")
    return tuple(entry == 1 for entry in stated[:depth])


def moe_layers(fields: Fields, depth: int) -> tuple[bool, ...]:
    """Return which layers have experts, by `mlp_only_layers` and `decoder_sparse_step` (Qwen)."""
    step = fields.integer("decoder_sparse_step", default=1)
    dense_layers = set(fields.integers("mlp_only_layers", maximum=depth - 1))
    return tuple(i not in dense_layers and (i + 1) % step == 0 for i in range(depth))


def choose_ffns(fields: Fields, sparse: Iterable[bool], experts: MoeFfn) -> tuple[Ffn, ...]:
    """Return one feed-forward per layer; `intermediate_size` is read only if a layer is dense.

    Args:
        sparse: Whether each layer has experts (layers,).
    """
    flags = tuple(sparse)
    if all(flags):
        return (experts,) * len(flags)
    plain = dense(fields)
    return tuple(experts if flag else plain for flag in flags)


def group_layers(
    layers: Iterable[tuple[Mixer | None, Ffn | None]], *, norms: int | None = 2
) -> tuple[LayerGroup, ...]:
    """Return identical layers merged into groups, in order of first appearance.

    Args:
        layers: Mixer and feed-forward of each layer (layers,); None where it has none. A layer
            without both is left out.
        norms: Norms of one layer; None means one for each block that it has.
    """
    places: dict[tuple[Mixer | None, Ffn | None], list[int]] = defaultdict(list)
    for place, layer in enumerate(layers):
        if any(layer):
            places[layer].append(place)

    def of(mixer: Mixer | None, ffn: Ffn | None) -> int:
        return int(mixer is not None) + int(ffn is not None) if norms is None else norms

    return tuple(
        LayerGroup(count=len(at), mixer=mixer, ffn=ffn, norms=of(mixer, ffn), at=tuple(at))
        for (mixer, ffn), at in places.items()
    )


def assemble(
    fields: Fields,
    layers: tuple[LayerGroup, ...],
    *,
    tied: bool = False,
    mtp_layers: int = 0,
    notes: tuple[str, ...] = (),
) -> Architecture:
    """Return the architecture: its layers with embedding, head and maximum sequence length.

    Args:
        tied: `tie_word_embeddings` when absent.
    """
    return Architecture(
        model_type=fields.text("model_type"),
        hidden_size=fields.integer("hidden_size"),
        vocab_size=fields.integer("vocab_size"),
        tie_word_embeddings=fields.boolean("tie_word_embeddings", default=tied),
        layers=layers,
        mtp_layers=mtp_layers,
        max_position_embeddings=fields.tokens("max_position_embeddings"),
        notes=notes,
    )
