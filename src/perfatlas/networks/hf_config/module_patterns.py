"""Matching of module names and patterns in a checkpoint to the operators of a model.

Checkpoints name modules as plain paths, globs or regular expressions. Patterns come from untrusted
files, so regular expressions are never executed: the few constructs in use are rewritten as globs,
and a pattern with anything else is reported.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from perfatlas.networks.layers import (
    DenseFfn,
    GatedDeltaNet,
    GatedRecurrence,
    MlaAttention,
    MoeFfn,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.language_model import LayerGroup
    from perfatlas.networks.layers import Ffn, Mixer

MAX_TEMPLATES: Final = 2_000
MAX_ALTERNATIVES: Final = 256
MAX_PATTERN_LENGTH: Final = 300

PER_LAYER: Final = "embeddings per layer"
Rule = TypeVar("Rule")
# Paths inside a layer of the matrices that an operator runs as one, by class of mixer or part of
# the feed-forward; "|" separates the names of families.
PATHS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "GqaAttention": {
        "qkv_projection": (
            "self_attn.q_proj|self_attn.qkv_proj|mixer.q_proj|temporal_block.q_proj",
            "self_attn.k_proj|self_attn.qkv_proj|mixer.k_proj|temporal_block.k_proj",
            "self_attn.v_proj|self_attn.qkv_proj|mixer.v_proj|temporal_block.v_proj",
        ),
        "output_projection": (
            (
                "self_attn.o_proj|self_attn.out_proj|self_attn.dense|mixer.o_proj"
                "|temporal_block.o_proj"
            ),
        ),
        "indexer_q_projection": ("self_attn.index_q_proj",),
        "indexer_k_projection": ("self_attn.index_k_proj",),
    },
    "MlaAttention": {
        "qkv_a_projection": ("self_attn.q_a_proj", "self_attn.kv_a_proj_with_mqa"),
        "kv_a_projection": ("self_attn.kv_a_proj_with_mqa",),
        "q_b_projection": ("self_attn.q_b_proj",),
        "q_projection": ("self_attn.q_proj",),
        "kv_b_projection": ("self_attn.kv_b_proj",),
        "gate_projection": ("self_attn.g_proj",),
        "output_projection": ("self_attn.o_proj",),
        "indexer_q_projection": ("self_attn.indexer.wq_b",),
        "indexer_k_projection": ("self_attn.indexer.wk",),
    },
    "CompressedAttention": {
        "qkv_a_projection": ("attn.wq_a|self_attn.q_a_proj", "attn.wkv|self_attn.kv_proj"),
        "q_b_projection": ("attn.wq_b|self_attn.q_b_proj",),
        "output_a_projection": ("attn.wo_a|self_attn.o_a_proj",),
        "output_projection": ("attn.wo_b|self_attn.o_b_proj",),
        "indexer_q_projection": ("attn.indexer.wq_b|self_attn.indexer.q_b_proj",),
    },
    "GatedDeltaNet": {
        "qkvz_projection": (
            "linear_attn.in_proj_qkv|linear_attn.in_proj_qkvz|self_attn.q_proj",
            "linear_attn.in_proj_qkv|linear_attn.in_proj_qkvz|self_attn.k_proj",
            "linear_attn.in_proj_qkv|linear_attn.in_proj_qkvz|self_attn.v_proj",
            "linear_attn.in_proj_z|linear_attn.in_proj_qkvz|self_attn.g_proj",
        ),
        "gate_a_projection": ("self_attn.g_a_proj",),
        "gate_b_projection": ("self_attn.g_b_proj",),
        "output_projection": ("linear_attn.out_proj|self_attn.o_proj",),
        "decay_a_projection": ("self_attn.f_a_proj",),
        "decay_b_projection": ("self_attn.f_b_proj",),
    },
    "Mamba1": {
        "input_projection": ("mamba.in_proj|mixer.in_proj",),
        "state_projection": ("mamba.x_proj|mixer.x_proj",),
        "time_step_projection": ("mamba.dt_proj|mixer.dt_proj",),
        "output_projection": ("mamba.out_proj|mixer.out_proj",),
    },
    "Mamba2": {
        "input_projection": ("mamba.in_proj|mixer.in_proj",),
        "output_projection": ("mamba.out_proj|mixer.out_proj",),
    },
    "LightningAttention": {
        "qkvg_projection": ("self_attn.qkv_proj", "self_attn.output_gate"),
        "output_projection": ("self_attn.out_proj",),
    },
    "GatedRecurrence": {  # RecurrentGemma, xLSTM, RWKV
        "input_projection": (
            "temporal_block.linear_x|mlstm_layer.q|attention.key",
            "temporal_block.linear_x|mlstm_layer.k|attention.value",
            "temporal_block.linear_y|mlstm_layer.v|attention.receptance",
            "temporal_block.linear_y|mlstm_layer.ogate_preact|feed_forward.receptance",
        ),
        "output_projection": ("temporal_block.linear_out|mlstm_layer.out_proj|attention.output",),
    },
    "ShortConvolution": {
        "input_projection": ("conv.in_proj",),
        "output_projection": ("conv.out_proj",),
    },
    "dense": {
        "gate_up_projection": (
            (
                "mlp.gate_proj|mlp.gate_up_proj|feed_forward.gate_proj|feed_forward.w1"
                "|mlp_block.gate_proj|ffn.proj_up_gate"
            ),
            (
                "mlp.up_proj|mlp.gate_up_proj|feed_forward.up_proj|feed_forward.w3"
                "|mlp_block.up_proj|ffn.proj_up"
            ),
        ),
        "up_projection": ("mlp.up_proj|mlp.fc1|mlp.c_fc|mixer.up_proj|feed_forward.key",),
        "down_projection": (
            (
                "mlp.down_proj|mlp.fc2|mlp.c_proj|mixer.down_proj|feed_forward.down_proj"
                "|feed_forward.w2|mlp_block.down_proj|ffn.proj_down|feed_forward.value"
            ),
        ),
    },
    PER_LAYER: {
        "layer_embedding_projection": ("per_layer_model_projection",),
        "layer_input_gate": ("per_layer_input_gate",),
        "layer_input_projection": ("per_layer_projection",),
    },
    "experts": {
        "experts": tuple(
            f"mlp.experts.0.{name}|feed_forward.experts.0.{name}|mixer.experts.0.{name}"
            f"|block_sparse_moe.experts.0.{name}|experts.0.{name}"
            f"|block_sparse_moe.experts.0.{letter}|ffn.experts.0.{letter}|mlp.experts.{stacked}"
            for name, letter, stacked in (
                ("gate_proj", "w1", "gate_up_proj"),
                ("up_proj", "w3", "gate_up_proj"),
                ("down_proj", "w2", "down_proj"),
            )
        ),
    },
    "latent": {
        "latent_down_projection": ("mixer.fc1_latent_proj",),
        "latent_up_projection": ("mixer.fc2_latent_proj",),
    },
    "shared": {
        f"shared_expert_{operator}": tuple(
            f"mlp.shared_experts.{name}|mlp.shared_expert.{name}|mixer.shared_experts.{name}"
            f"|feed_forward.shared_expert.{name}|block_sparse_moe.shared_experts.{name}"
            f"|ffn.shared_experts.{letter}"
            for name, letter in names
        )
        for operator, names in (
            ("gate_up_projection", (("gate_proj", "w1"), ("up_proj", "w3"))),
            ("up_projection", (("up_proj", "w3"),)),
            ("down_projection", (("down_proj", "w2"),)),
        )
    },
}
# Parts of a family that stores a dense network beside its experts under `mlp`.
BESIDE_EXPERTS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    **PATHS,
    "experts": {
        "experts": ("experts.0.gate_proj", "experts.0.up_proj", "experts.0.down_proj"),
    },
    "shared": {
        "shared_expert_gate_up_projection": ("mlp.gate_proj", "mlp.up_proj"),
        "shared_expert_down_projection": ("mlp.down_proj",),
    },
}
_OUTSIDE = re.compile(r"(^|[._*])(mtp|vision|visual|audio|vit|mm_projector|draft|eagle)")
# GPTQModel names a layer without the list that it is in: `.*\.15\..*`
_LAYER = re.compile(r"(?:layers|blocks)\.(\d{1,6}|\*)(?!\d)|^\*\.(\d{1,6})(?=\.|$)")
_MODEL = re.compile(r"^(?:(?:language_|text_)?model\.)+")
# Modules without an operator that a checkpoint may quantize
_OTHERS = re.compile(
    r"head|embed|norm|bias|router|gate\*?$|conv1d|eh_proj|index|projector|merge|tower|wte|wpe|rotary"
)
_NUMBER_PART = re.compile(r"(?<=\.)\d+(?=\.|$)")
_PIECES = re.compile(r"\((?:\?:)?|\)|\||[^()|]+")
_CLASS = re.compile(r"\[((?:[0-9A-Za-z]-[0-9A-Za-z]|\w)+)\]")
_CHARACTERS = re.compile(r"([0-9A-Za-z])-([0-9A-Za-z])|(\w)")
_METACHARACTERS = frozenset("()[]{}+?|\\^$")


# What a mixer needs for an operator of its class
_NEEDS: Final = {
    "indexer_q_projection": "indexer",
    "indexer_k_projection": "indexer",
    "qkv_a_projection": "q_lora_rank",
    "q_b_projection": "q_lora_rank",
    "gate_projection": "output_gate",
    "decay_a_projection": "decay_rank",
    "decay_b_projection": "decay_rank",
    "gate_a_projection": "gate_rank",
    "gate_b_projection": "gate_rank",
}


class Slots(NamedTuple):
    """The matrices that an operator runs as one, over all layers that have it."""

    operator: str
    part: str  # Class of its mixer, or the part of a feed-forward
    layers: int
    at: frozenset[int]  # Which layers of the model those are
    paths: tuple[tuple[float, tuple[str, ...]], ...]  # Outputs (in proportion), names of families


def module_slots(architecture: Architecture) -> tuple[Slots, ...]:
    """Return the operators with weights that a checkpoint may quantize."""
    parts: dict[str, list[tuple[Mixer | Ffn, LayerGroup]]] = defaultdict(list)
    for group in architecture.layers:
        if group.mixer is not None:
            parts[type(group.mixer).__name__].append((group.mixer, group))
        if isinstance(group.ffn, DenseFfn):
            parts["dense"].append((group.ffn, group))
        if isinstance(group.ffn, MoeFfn):
            sizes = {"shared": group.ffn.shared_intermediate_size, "latent": group.ffn.latent_size}
            for part in ("experts", *(name for name, size in sizes.items() if size)):
                parts[part].append((group.ffn, group))
        if architecture.per_layer_width:
            parts[PER_LAYER].append((group.blocks[0], group))
    known = BESIDE_EXPERTS if architecture.model_type.startswith("gemma4") else PATHS
    found = []
    for part, blocks in parts.items():
        for operator, paths in known[part].items():
            groups = [group for block, group in blocks if _runs_operator(block, operator)]
            if not groups:
                continue
            block = next(block for block, group in blocks if group is groups[0])
            names = paths
            if operator == "experts" and not getattr(block, "gated", True):
                names = paths[1:]
            if operator == "qkvz_projection" and getattr(block, "gate_rank", False):
                names = paths[:-1]
            rows = zip(_widths(architecture, block, operator, len(names)), names, strict=True)
            slots = tuple((width, tuple(path.split("|"))) for width, path in rows)
            at = frozenset(layer for group in groups for layer in group.at)
            found.append(Slots(operator, part, sum(group.count for group in groups), at, slots))
    return tuple(found)


def _runs_operator(block: Mixer | Ffn, operator: str) -> bool:
    absent = "up_projection" if getattr(block, "gated", True) else "gate_up_projection"
    needed = getattr(block, _NEEDS.get(operator, ""), True)
    return bool(needed) and operator.removeprefix("shared_expert_") != absent


def _widths(
    architecture: Architecture, mixer: Mixer | Ffn, operator: str, number: int
) -> tuple[float, ...]:
    """Return the outputs of the matrices that an operator runs as one, in proportion."""
    if operator == "qkv_projection":
        widths = next(group.qkv_widths for group in architecture.layers if group.qkv_widths)
        return tuple(map(float, widths))
    if operator == "qkv_a_projection" and isinstance(mixer, MlaAttention):
        return float(mixer.q_lora_rank or 1), float(mixer.kv_lora_rank + mixer.rope_dim)
    if operator == "qkvz_projection" and isinstance(mixer, GatedDeltaNet):
        key, value = (
            float(mixer.num_key_heads * mixer.key_head_dim),
            float(mixer.num_value_heads * mixer.value_head_dim),
        )
        return (key, key, value, value)[:number]
    if operator == "input_projection" and isinstance(mixer, GatedRecurrence):
        key = float(mixer.num_heads * mixer.key_dim or mixer.inner)
        return key, key, float(mixer.inner), float(mixer.inner)
    return (1.0,) * number


def templates_of(patterns: Iterable[str]) -> tuple[dict[str, set[int] | None], tuple[str, ...]]:
    """Return the layers by path inside a layer (None: all), and the patterns not supported.

    Args:
        patterns: Module paths, globs, or regular expressions marked "re:".

    Example:
        >>> from perfatlas.networks.hf_config.module_patterns import templates_of
        >>> templates_of(["re:.*self_attn.*", "model.layers.7.mlp.down_proj"])[0]
        {'*self_attn*': None, 'mlp.down_proj': {7}}
    """
    templates: dict[str, set[int] | None] = {}
    unknown: list[str] = []
    for pattern in dict.fromkeys(patterns):
        globs = as_globs(pattern) if len(templates) < MAX_TEMPLATES else None
        if globs is None:
            unknown.append(pattern)
            continue
        for glob in globs:
            _record(glob, templates)
    return templates, tuple(unknown)


def layers_by_rule(
    paths: Sequence[str],
    rules: Sequence[tuple[Mapping[str, set[int] | None], Rule]],
    layers: int,
    at: Container[int],
) -> Iterator[tuple[Rule, int]]:
    """Yield the rules that hold for a matrix, with the number of layers; the last one wins.

    Args:
        paths: Its paths inside a layer, one per family.
        rules: Layers by path, as of `templates_of`; the first one must hold for all.
        layers: Layers that have it.
        at: Which layers of the model those are.
    """
    runs = {run for path in paths for run in _runs(path)}
    everywhere, own = rules[0][1], dict[int, Rule]()
    for templates, rule in rules[1:]:
        for template, named in templates.items():
            if not any(_glob_matches(template, run) for run in runs):
                continue
            if named is None:
                everywhere = rule
                own.clear()
            else:
                own |= dict.fromkeys((layer for layer in named if layer in at), rule)
    if len(own) < layers:
        yield everywhere, layers - len(own)
    for rule in own.values():
        yield rule, 1


def unmatched(templates: Iterable[str], slots: Iterable[Slots]) -> tuple[str, ...]:
    """Return the paths that name no operator, though they are not those of other modules."""
    runs = {run for slot in slots for _, paths in slot.paths for p in paths for run in _runs(p)}
    strange = (path for path in templates if not _OTHERS.search(path))
    return tuple(path for path in strange if not any(_glob_matches(path, run) for run in runs))


def as_globs(pattern: str) -> tuple[str, ...] | None:
    r"""Return a pattern as globs with "*" only, or None if globs cannot express it.

    Example:
        >>> from perfatlas.networks.hf_config.module_patterns import as_globs
        >>> as_globs(r"re:.*mlp\.(gate|up)_proj.*")
        ('*mlp.gate_proj*', '*mlp.up_proj*')
    """
    if len(pattern) > MAX_PATTERN_LENGTH:
        return None
    if not pattern.startswith("re:"):
        return None if _METACHARACTERS & set(pattern) else (pattern,)
    text = pattern[3:].removeprefix("^").removesuffix("$")
    for construct, glob in (("\\.", "."), (".*", "*"), (".+", "*"), ("\\d+", "*"), ("[0-9]+", "*")):
        text = text.replace(construct, glob)
    globs = _alternatives(_CLASS.sub(_any_of, text))
    if any(_METACHARACTERS & set(glob) for glob in globs):
        return None
    return globs


def _alternatives(text: str) -> tuple[str, ...]:
    """Return the text for each choice in its (a|b) groups; unexpanded if there are too many."""
    open_groups: list[tuple[list[str], list[str]]] = [([], [""])]  # choices, the last one
    for piece in _PIECES.findall(text):
        choices, last = open_groups[-1]
        if piece.startswith("("):
            open_groups.append(([], [""]))
        elif piece == "|":
            open_groups[-1] = ([*choices, *last], [""])
        elif piece == ")" and len(open_groups) > 1:
            open_groups.pop()
            before, starts = open_groups[-1]
            ends = [*choices, *last]
            open_groups[-1] = (before, [start + end for start in starts for end in ends])
        else:
            open_groups[-1] = (choices, [start + piece for start in last])
        if sum(map(len, open_groups[-1])) > MAX_ALTERNATIVES:
            return (text,)
    choices, last = open_groups[-1]
    return (text,) if len(open_groups) > 1 else (*choices, *last)


def _any_of(found: re.Match[str]) -> str:
    """Return a class of characters as alternatives: [a-c] as (a|b|c)."""
    characters = (
        chr(code)
        for first, last, one in _CHARACTERS.findall(found[1])
        for code in range(ord(first or one), ord(last or one) + 1)
    )
    return f"({'|'.join(characters)})"


def _record(glob: str, templates: dict[str, set[int] | None]) -> None:
    """Record the layers that a glob names, by its path inside a layer; None means all layers."""
    layer = _LAYER.search(glob)
    head = glob[: layer.start()] if layer else glob
    if _OUTSIDE.search(head):
        return
    tail = glob[layer.end() :] if layer else _MODEL.sub("", glob)
    template = _NUMBER_PART.sub("0", tail).removeprefix(".").removeprefix("*.") or "*"
    number = (layer[1] or layer[2]) if layer else "*"
    if number == "*":
        templates[template] = None
        return
    layers = templates.setdefault(template, set())
    if layers is not None:
        layers.add(int(number))


def _runs(path: str) -> Iterable[str]:
    """Return every run of dotted components: a parent or a suffix also matches the module."""
    parts = path.split(".")
    count = len(parts)
    return (".".join(parts[i:j]) for i in range(count) for j in range(i + 1, count + 1))


def _glob_matches(glob: str, text: str) -> bool:
    """Return whether "*" wildcards can match the whole text, in linear time."""
    first, *rest = glob.split("*")
    if not rest:
        return glob == text
    if not text.startswith(first):
        return False
    position = len(first)
    for piece in rest[:-1]:
        start = text.find(piece, position)
        if start < 0:
            return False
        position = start + len(piece)
    return text.endswith(rest[-1]) and len(text) - len(rest[-1]) >= position
