"""Decoders by the facts of their config: attention, recurrent mixers, experts, windows, norms.

A family adds what its config does not state (`family_rows`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Final

from perfatlas.files import shipped_text
from perfatlas.networks.hf_config import blocks
from perfatlas.networks.hf_config.fields import Fields
from perfatlas.networks.hf_config.keys import CLASS_KEYS, FEATURES, KEYS, canonical, unread
from perfatlas.networks.hf_config.scope import Scope, columns_of
from perfatlas.networks.language_model import LayerGroup
from perfatlas.networks.layers import (
    DenseFfn,
    GatedDeltaNet,
    GatedRecurrence,
    GqaAttention,
    LightningAttention,
    Mamba1,
    Mamba2,
    MoeFfn,
    ShortConvolution,
)
from perfatlas.quantities import InvalidSpecError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.layers import Ffn, Mixer

DIMENSIONS: Final = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size"),
)
# Dimensions of which an answer warns if the config class supplies them
_SUPPLIED: Final = (
    *DIMENSIONS,
    *("num_key_value_heads", "head_dim", "sliding_window", "num_experts", "num_experts_per_tok"),
    "moe_intermediate_size",
)
LEFT_OUT: Final = "left out of config.json, taken from its class in transformers"
# Keys of layers that are not modeled
_NOT_MODELED: Final = ("use_cla", "parallel_attn_mlp_res", "share_kv_cache")
# Spelling in configs -> kind of a mixer
KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("full_attention", "attention", "global", "global_attention"), "full"),
    **dict.fromkeys(("sliding_attention", "local", "sliding_window_attention"), "sliding"),
    **dict.fromkeys(("linear_attention", "mamba", "mamba2", "conv"), "recurrent"),
}
# Letters of a pattern such as "LLLG"
_LETTERS: Final[Mapping[str, str]] = {"L": "sliding", "G": "full"}
# Activations of feed-forwards without a gate, where no family says more
_UNGATED: Final = ("relu", "relu2", "xielu", "gelu_new", "gelu_fast")
_TIME_STEP_DIVISOR: Final = 16  # ceil(hidden_size / 16): Mamba's rank of the time-step projection


@dataclass(frozen=True, kw_only=True)
class Family:
    """What a config of some model_types leaves out, or never states."""

    defaults: Mapping[str, object] = field(default_factory=dict)  # Of its config class
    fixed: Mapping[str, object] = field(default_factory=dict)  # Whatever the config says
    names: Mapping[str, str] = field(default_factory=dict)  # Name used here by key
    only: Mapping[str, object] = field(default_factory=dict)  # The value of a key that is supported
    gated: bool | None = None  # Whether feed-forwards have a gate; None: by the activation
    joined_width: bool = False  # Whether intermediate_size is that of gate and up together
    ffn_multiple: int = 0  # Width of a feed-forward over hidden_size where none is stated
    norms: int = 2  # Norms of the hidden state in a layer
    learned_norm: bool = True
    norm_bias: bool = False
    qk_norm: str = "head"  # Width of the norms of queries and keys, where there are any
    qk_norm_weight: bool = True
    sinks: bool = False
    gate_per_head: bool = False
    shared_gate: bool = False
    expert_bias: bool = False
    lightning: bool = False  # Whether recurrent layers are lightning attention
    inner_norms: bool = False  # Norms inside a Mamba
    embedding_norm: bool = False
    padding_positions: int | None = None  # Rows of a table of positions beyond the longest prompt
    below_windows: bool = False  # Windows in every other layer below max_window_layers
    # The mixer of each layer, where the facts above do not give them
    mixers: Callable[[Fields, int], Sequence[Mixer]] | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    # Keys that follow from others, and parameters that are counted and not priced: expressions
    computed: Mapping[str, str] = field(default_factory=dict)
    unpriced: Mapping[str, str] = field(default_factory=dict)
    # Whether recurrent mixers and attention stand side by side in each layer (Falcon-H1)
    parallel: bool = False


def read(fields: Fields, family: Family, *, known: bool = True) -> Architecture:
    """Return the architecture of a decoder.

    Args:
        known: Whether its family is; otherwise a warning says what is assumed.

    Raises:
        InvalidSpecError: A field is missing, has the wrong type or contradicts another.
        UnsupportedError: The config asks for something that is not modeled.
    """
    fields, warnings = completed(fields, family)
    depth = fields.num_layers()
    mixers = family.mixers(fields, depth) if family.mixers else mixers_of(fields, family, depth)
    ffns = feed_forwards(fields, family, depth)
    layers = blocks.group_layers(
        zip(mixers, ffns, strict=True), norms=1 if not any(ffns) else family.norms
    )
    if family.parallel:
        beside = mixer(fields, family, "recurrent")
        at = tuple(range(depth))
        layers = (LayerGroup(count=depth, mixer=beside, ffn=None, norms=0, at=at), *layers)
    architecture = blocks.assemble(
        fields, layers, mtp_layers=mtp_layers(fields), notes=family.notes
    )
    unpriced = {name: scope_of(fields).value(text) for name, text in family.unpriced.items()}
    rows = family.padding_positions
    positions = 0 if rows is None else architecture.max_position_embeddings + rows
    return replace(
        architecture,
        learned_norm=family.learned_norm,
        layer_norm_bias=family.norm_bias,
        lm_head_bias=fields.boolean("lm_head_bias", default=False),
        embedding_norm=family.embedding_norm,
        position_rows=positions,
        per_layer_width=fields.integer("hidden_size_per_layer_input", default=0, minimum=0),
        per_layer_rows=fields.integer("vocab_size_per_layer_input", default=0, minimum=0),
        unpriced_parameters=sum(unpriced.values()),
        warnings=(
            *warnings,
            *family.warnings,
            *unpriced_text(unpriced),
            *(() if known else (_assumed(fields, family),)),
        ),
    )


def scope_of(fields: Fields) -> Scope:
    """Return what expressions over the fields of a decoder read."""
    columns = dict(columns_of(fields.values))
    columns.setdefault("num_key_value_heads", columns.get("num_attention_heads", 0))
    return Scope(fields=fields, columns=columns)


def unpriced_text(unpriced: Mapping[str, int]) -> tuple[str, ...]:
    """Return the warning of what is counted but not priced."""
    named = "; ".join(f"{name} ({size:,} parameters)" for name, size in unpriced.items() if size)
    return (f"counted in memory, but not priced: {named}",) if named else ()


def completed(fields: Fields, family: Family) -> tuple[Fields, tuple[str, ...]]:
    """Return the fields under the names used here with what a config leaves out or never states.

    Also warnings of what it leaves out, and of what its class does not read.
    """
    below = _supplied_by_class(fields.text("model_type"), tuple(family.names.items()))
    fields, warnings = canonical(fields, family.names), []
    left_out = [name for name in _SUPPLIED if below.get(name) and name not in fields.values]
    strange = [str(name) for name in fields.values if name not in CLASS_KEYS]
    for name in left_out if strange else ():
        if hint := did_you_mean(name, [other for other in strange if name not in other]):
            raise InvalidSpecError(f"{fields.origin}: {name} is missing{hint}")
    if below:  # a class that does not know a feature ignores its keys
        known = {*below, *family.defaults, *family.fixed, *family.names.values()}
        ignored = {name: fields.values.get(name) for name in FEATURES if name not in known}
        values = {name: value for name, value in fields.values.items() if name not in ignored}
        live = [fields.spelled(name) for name, value in ignored.items() if value and value != 1]
        if live:
            warnings.append(
                f"not read: {', '.join(live)}, which the class of model_type"
                f" {fields.text('model_type')[:40]!r} in transformers does not know"
            )
        fields = replace(fields, values=values)
    fields = replace(fields, values={**family.defaults, **below, **fields.values})
    for name, value in family.only.items():
        allowed = fields.values.get(value) if isinstance(value, str) and value in KEYS else value
        if fields.has(name) and fields.values[name] != allowed:
            raise fields.unsupported(name, f"only {allowed} is supported")
    for name in _NOT_MODELED:
        if fields.boolean(name, default=False):
            raise fields.unsupported(name, "such layers are not modeled")
    fields = replace(fields, values={**fields.values, **family.fixed})
    computed = {name: scope_of(fields).value(text) for name, text in family.computed.items()}
    fields = replace(fields, values={**fields.values, **computed})
    unused = {
        "sliding_window": not fields.boolean("use_sliding_window", default=True),
        "head_dim": fields.has("kv_lora_rank") is not None,
    }
    left_out = [name for name in left_out if not unused.get(name)]
    if left_out:
        named = ", ".join(f"{name} = {fields.values[name]}" for name in left_out)
        warnings.append(f"{LEFT_OUT}: {named}")
    return fields, tuple(warnings)


@cache
def _supplied_by_class(model_type: str, names: tuple[tuple[str, str], ...]) -> Mapping[str, object]:
    """Return what the config class of a model_type supplies, under the names used here."""
    known = class_defaults()
    values = known.get(model_type) or known.get(f"{model_type}_text") or {}
    supplied = Fields(values=values, origin=model_type)
    return canonical(supplied, dict(names)).values


@cache
def class_defaults() -> Mapping[str, Mapping[str, object]]:
    """Return what the config class of each model_type supplies for keys that are left out.

    Source: the configuration classes of transformers 5.24.0 (Apache-2.0).
    """
    rows: dict[str, dict[str, object]] = json.loads(shipped_text("data/config_defaults.json"))
    return rows


def _assumed(fields: Fields, family: Family) -> str:
    """Return what is assumed of a config whose family is not known."""
    others = unread(fields)
    ignored = f"; not read: {', '.join(others[:12])}" if others else ""
    gate = "a gated" if _gated(fields, family) else "an ungated"
    return (
        f"model_type {fields.text('model_type')[:40]!r} is not known: its config is read by the"
        f" names of its fields, as that of a decoder with two norms per layer, {gate} feed-forward"
        f" and biases only where it states them{ignored}; compare the number of parameters with the"
        " model card"
    )


def mixers_of(fields: Fields, family: Family, depth: int) -> tuple[Mixer, ...]:
    """Return the mixer of each layer, by its kind."""
    kinds = layer_kinds(fields, family, depth)
    mixers = {kind: mixer(fields, family, kind) for kind in dict.fromkeys(kinds)}
    last = depth - fields.integer("num_kv_shared_layers", default=0, minimum=0, maximum=depth)
    shared = {
        kind: replace(one, shared_cache=True)
        for kind, one in mixers.items()
        if isinstance(one, GqaAttention)
    }
    return tuple(mixers[kind] if i < last else shared[kind] for i, kind in enumerate(kinds))


def mtp_layers(fields: Fields) -> int:
    """Return the multi-token-prediction layers of the checkpoint."""
    if fields.boolean("use_mtp", default=False):  # MiniMax-M2: modules of several layers
        modules = fields.integer("num_mtp_modules", default=0, minimum=0, maximum=64)
        return modules * fields.integer("mtp_transformer_layers", default=1, maximum=64)
    return fields.integer("mtp_layers", default=0, minimum=0, maximum=64)


def layer_kinds(fields: Fields, family: Family, depth: int) -> tuple[str, ...]:
    """Return the kind of the mixer of each layer: "full", "sliding", "recurrent" or "cross"."""
    listed = fields.values.get("layer_types")
    if listed is not None:
        return _listed_kinds(fields, depth)
    if fields.has("cross_attention_layers"):
        cross = {*fields.integers("cross_attention_layers", maximum=depth - 1)}
        return tuple("cross" if i in cross else "full" for i in range(depth))
    if fields.has("full_attention_layers") or "full_attention_layers" in family.defaults:
        full = {*fields.integers("full_attention_layers", maximum=depth - 1)}
        return tuple("full" if i in full else "recurrent" for i in range(depth))
    if fields.has("attn_layer_period"):
        attends = periodic(fields, "attn_layer", depth, (8, 4))
        return tuple("full" if attend else "recurrent" for attend in attends)
    if fields.has("full_attention_interval"):
        period = fields.integer("full_attention_interval")
        return tuple("recurrent" if (i + 1) % period else "full" for i in range(depth))
    if fields.has("num_attention_heads") is None and fields.has("mamba_d_state"):
        return ("recurrent",) * depth
    if family.lightning:
        return tuple("recurrent" if i % 2 else "full" for i in range(depth))
    return _windows(fields, family, depth)


def _listed_kinds(fields: Fields, depth: int) -> tuple[str, ...]:
    listed = fields.values["layer_types"]
    if isinstance(listed, list) and all(isinstance(kind, int) for kind in listed):
        kinds = tuple(
            "full" if flag else "recurrent" for flag in fields.integers("layer_types", maximum=1)
        )
    else:
        stated = fields.texts("layer_types")
        unknown = sorted({*stated} - {*KINDS})
        if unknown:
            raise fields.unsupported(
                "layer_types", f"{unknown[0][:40]!r} is not one of {', '.join(KINDS)}"
            )
        kinds = tuple(KINDS[kind] for kind in stated)
    if len(kinds) != depth:
        raise fields.invalid(
            "layer_types", f"has {len(kinds)} entries for num_hidden_layers = {depth}"
        )
    return kinds


def _windows(fields: Fields, family: Family, depth: int) -> tuple[str, ...]:
    """Return which layers have a window where no list says so."""
    if not _window(fields):
        return ("full",) * depth
    pattern = fields.values.get("sliding_window_pattern")
    if isinstance(pattern, str) and pattern and {*pattern} <= {*_LETTERS}:
        return tuple(_LETTERS[pattern[i % len(pattern)]] for i in range(depth))
    if fields.has("max_window_layers"):
        first = fields.integer("max_window_layers", minimum=0)
        below = family.below_windows
        return tuple(
            "sliding" if (i < first and i % 2 == 0 if below else i >= first) else "full"
            for i in range(depth)
        )
    if pattern is not None:
        period = fields.integer("sliding_window_pattern")
        return tuple("sliding" if (i + 1) % period else "full" for i in range(depth))
    return ("sliding",) * depth


def _window(fields: Fields) -> int:
    """Return the sliding window [tokens], 0 for none."""
    window = fields.window()
    return window if fields.boolean("use_sliding_window", default=True) else 0


def periodic(fields: Fields, name: str, depth: int, default: tuple[int, int]) -> tuple[bool, ...]:
    """Return which layers a period and an offset select (Jamba)."""
    period = fields.integer(f"{name}_period", default=default[0])
    offset = fields.integer(f"{name}_offset", default=default[1], minimum=0)
    if offset >= period:
        raise fields.invalid(f"{name}_offset", f"must be below {name}_period = {period}")
    return tuple(i % period == offset for i in range(depth))


def mixer(fields: Fields, family: Family, kind: str) -> Mixer:
    """Return the mixer of the layers of a kind."""
    if kind == "recurrent":
        return recurrent(fields, family)
    if fields.has("kv_lora_rank"):
        return blocks.mla(fields)
    attention = attention_of(fields, family)
    if kind == "cross":
        return replace(attention, qk_norm="head", cross=True)
    return replace(attention, window=_window(fields)) if kind == "sliding" else attention


def attention_of(fields: Fields, family: Family) -> GqaAttention:
    """Return the attention of layers without a window."""
    if fields.has("num_key_value_heads") is None and fields.boolean("multi_query", default=False):
        fields = replace(fields, values={**fields.values, "num_key_value_heads": 1})
    normed = fields.boolean("use_qk_norm", default=False)
    return replace(
        blocks.gqa(fields),
        value_head_dim=fields.integer("v_head_dim", default=blocks.gqa(fields).head_dim),
        qkv_bias=fields.boolean("qkv_bias", default=False),
        output_bias=fields.boolean("output_bias", default=False),
        qk_norm=family.qk_norm if normed else "none",
        qk_norm_weight=family.qk_norm_weight,
        sinks=family.sinks,
        output_gate=fields.boolean("attn_output_gate", default=False),
        gate_per_head=family.gate_per_head,
    )


def recurrent(fields: Fields, family: Family) -> Mixer:
    """Return the mixer of recurrent layers, by what the config states."""
    if family.lightning:
        attention = blocks.gqa(fields)
        return LightningAttention(num_heads=attention.num_heads, head_dim=attention.head_dim)
    if fields.has("conv_kernel_size"):
        return ShortConvolution(
            width=fields.integer("hidden_size"),
            conv_kernel=fields.integer("conv_kernel_size"),
            bias=fields.boolean("conv_bias", default=False),
        )
    if fields.has("linear_num_key_heads"):
        return delta_net(fields)
    if fields.has("mamba_dt_rank") and not fields.has("mamba_n_heads"):
        return mamba(fields, inner_norms=family.inner_norms)
    if fields.has("mamba_n_heads"):
        return mamba2(fields)
    raise fields.unsupported("layer_types", "recurrent layers of a kind that is not modeled")


def delta_net(fields: Fields) -> GatedDeltaNet:
    """Return the gated delta net of Qwen3-Next."""
    key_heads = fields.integer("linear_num_key_heads")
    value_heads = fields.integer("linear_num_value_heads")
    if value_heads % key_heads:
        raise fields.invalid(
            "linear_num_value_heads", f"must be a multiple of linear_num_key_heads = {key_heads}"
        )
    return GatedDeltaNet(
        num_key_heads=key_heads,
        num_value_heads=value_heads,
        key_head_dim=fields.integer("linear_key_head_dim"),
        value_head_dim=fields.integer("linear_value_head_dim"),
        conv_kernel=fields.integer("linear_conv_kernel_dim"),
    )


def rg_lru(fields: Fields, depth: int) -> tuple[Mixer, ...]:
    """Return the mixers of RecurrentGemma: RG-LRU, and every third layer attention in a window.

    Source: transformers, `RecurrentGemmaRecurrentBlock`; De et al. 2024 (arXiv 2402.19427).
    """
    hidden, heads = fields.integer("hidden_size"), fields.integer("num_attention_heads")
    width = fields.integer("lru_width", default=hidden)
    if width % heads:
        raise fields.invalid("lru_width", f"must be a multiple of num_attention_heads = {heads}")
    kernel = fields.integer("conv1d_width", default=4)
    block = GatedRecurrence(
        num_heads=heads,
        value_dim=width // heads,
        input_columns=2 * width,
        gate_blocks=2,
        conv_kernel=kernel,
        vectors=5 * width + hidden,
    )
    window = fields.tokens("sliding_window", default=2048)
    attention = replace(blocks.gqa(fields), window=window, output_bias=True)
    kinds = fields.texts("layer_types") or ("recurrent", "recurrent", "attention")
    return tuple(attention if kinds[i % len(kinds)] == "attention" else block for i in range(depth))


def mlstm(fields: Fields, depth: int) -> tuple[Mixer, ...]:
    """Return the mixers of xLSTM 7B.

    Source: transformers, `xLSTMLayer`; Beck et al. 2025 (arXiv 2503.13427).
    """
    heads = fields.integer("num_heads", default=8)
    key = scope_of(fields).value("qk_dim_factor * hidden_size")
    value = scope_of(fields).value("v_dim_factor * hidden_size")
    if key % heads or value % heads:
        raise fields.invalid("num_heads", f"must divide the width {key} of keys and {value}")
    mixer = GatedRecurrence(
        num_heads=heads,
        value_dim=value // heads,
        key_dim=key // heads,
        input_columns=2 * key + 2 * value + 2 * heads,
        chunk=fields.integer("chunk_size", default=64),
        normed=True,
        vectors=2 * heads + value,
    )
    return (mixer,) * depth


def wkv(fields: Fields, depth: int) -> tuple[Mixer, ...]:
    """Return the mixers of RWKV-4, whose products include the gate of the feed-forward.

    Source: transformers, `RwkvSelfAttention`; Peng et al. 2023 (arXiv 2305.13048).
    """
    hidden = fields.integer("hidden_size")
    width = fields.integer("attention_hidden_size", default=hidden)
    mixer = GatedRecurrence(
        num_heads=width,
        value_dim=1,
        input_columns=3 * width + hidden,
        states=3,
        vectors=2 * width + 5 * hidden,
    )
    return (mixer,) * depth


def mamba(fields: Fields, *, inner_norms: bool) -> Mamba1:
    """Return a Mamba."""
    hidden_size = fields.integer("hidden_size")
    rank = -(-hidden_size // _TIME_STEP_DIVISOR)
    if fields.values.get("mamba_dt_rank") != "auto":
        rank = fields.integer("mamba_dt_rank", default=rank)
    return Mamba1(
        intermediate_size=fields.integer(
            "mamba_d_ssm", default=fields.integer("mamba_expand", default=2) * hidden_size
        ),
        state_size=fields.integer("mamba_d_state", default=16),
        time_step_rank=rank,
        conv_kernel=fields.integer("mamba_d_conv", default=4),
        conv_bias=fields.boolean("mamba_conv_bias", default=True),
        projection_bias=fields.boolean("mamba_proj_bias", default=False),
        inner_norms=inner_norms,
    )


def mamba2(fields: Fields) -> Mamba2:
    """Return a Mamba-2."""
    heads = fields.integer("mamba_n_heads")
    groups = fields.integer("mamba_n_groups", default=1)
    if heads % groups:
        name = fields.spelled("mamba_n_groups")
        raise fields.invalid("mamba_n_groups", f"must divide the {heads} heads of a {name}")
    width = fields.integer("mamba_expand", default=2) * fields.integer("hidden_size")
    width = fields.integer("mamba_d_ssm", default=width) // heads
    stated = fields.values.get("mamba_d_head") not in (None, "auto")
    return Mamba2(
        num_heads=heads,
        head_dim=fields.integer("mamba_d_head") if stated else max(width, 1),
        state_size=fields.integer("mamba_d_state", default=128),
        num_groups=groups,
        conv_kernel=fields.integer("mamba_d_conv", default=4),
        conv_bias=fields.boolean("mamba_conv_bias", default=True),
        projection_bias=fields.boolean("mamba_proj_bias", default=False),
    )


def feed_forwards(fields: Fields, family: Family, depth: int) -> tuple[Ffn | None, ...]:
    """Return the feed-forward of each layer; None in layers that are a mixer alone."""
    sparse: Sequence[bool] = (False,) * depth
    null = fields.values.get("num_experts", 0) is None and fields.has("num_experts_per_tok")
    if (null or fields.has("num_experts")) and fields.integer("num_experts", minimum=0) > 1:
        sparse = sparse_layers(fields, depth)
    routed = experts(fields, family) if any(sparse) else None
    plain = None if all(sparse) else dense(fields, family)
    return tuple(routed if flag else plain for flag in sparse)


def dense(fields: Fields, family: Family) -> DenseFfn | None:
    """Return the dense feed-forward, None where the config states no width."""
    multiple = fields.integer(
        "expansion_ratio", "intermediate_multiple_size", default=family.ffn_multiple, minimum=0
    )
    width = multiple * fields.integer("hidden_size")
    if not width and fields.has("intermediate_size") is None:
        if fields.has("shared_expert_intermediate_size"):  # Granite 4 without routed experts
            width = fields.integer("shared_expert_intermediate_size")
        elif fields.has("mamba_n_heads", "mamba_dt_rank"):
            return None
    width = fields.integer("intermediate_size", default=width or None)
    width = width // 2 if family.joined_width else width
    if fields.boolean("block_auto_adjust_ff_dim", default=False):  # LFM2
        multiple = fields.integer("block_multiple_of")
        width = -(-(2 * width // 3) // multiple) * multiple
    return DenseFfn(
        intermediate_size=width,
        gated=_gated(fields, family),
        bias=fields.boolean("mlp_bias", default=False),
    )


def _gated(fields: Fields, family: Family) -> bool:
    if family.gated is not None:
        return family.gated
    return fields.text("hidden_act", default="silu") not in _UNGATED


def experts(fields: Fields, family: Family) -> MoeFfn:
    """Return the routed experts, with shared ones and their gate where there are any."""
    width = "moe_intermediate_size" if fields.has("moe_intermediate_size") else "intermediate_size"
    routed = blocks.moe(fields, experts=("num_experts",), width=width)
    shared = fields.integer("num_shared_experts", default=0, minimum=0, maximum=10_000)
    shared_width = shared * routed.intermediate_size
    if fields.has("shared_expert_intermediate_size"):
        shared_width = fields.integer("shared_expert_intermediate_size", minimum=0) * max(shared, 1)
    return replace(
        routed,
        shared_intermediate_size=shared_width,
        gated=_gated(fields, family),
        bias=family.expert_bias,
        router_bias=fields.boolean("router_bias", default=False),
        latent_size=fields.integer("moe_latent_size", default=0, minimum=0),
        shared_gate=family.shared_gate and shared_width > 0,
    )


def sparse_layers(fields: Fields, depth: int) -> tuple[bool, ...]:
    """Return which layers have experts."""
    if fields.has("mlp_layer_types"):
        kinds = fields.texts("mlp_layer_types")
        if len(kinds) != depth or not {*kinds} <= {"dense", "sparse"}:
            rule = f"must be {depth} entries of 'dense' or 'sparse'"
            raise fields.invalid("mlp_layer_types", rule)
        return tuple(kind == "sparse" for kind in kinds)
    if isinstance(fields.values.get("moe_layer_freq"), list):
        return blocks.flags(fields, "moe_layer_freq", depth, (True,) * depth)
    if fields.has("expert_layer_period"):
        return periodic(fields, "expert_layer", depth, (2, 1))
    if fields.has("mlp_only_layers", "decoder_sparse_step"):
        return blocks.moe_layers(fields, depth)
    first = fields.integer("first_k_dense_replace", default=0, minimum=0)
    last = fields.integer("moe_layer_end_index", default=depth, minimum=-1)
    end = depth if last < 0 else last
    period = fields.integer("moe_layer_freq", default=1)
    return tuple(first <= i <= end and i % period == 0 for i in range(depth))
