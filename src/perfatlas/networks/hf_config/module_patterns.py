"""Matching of module names and patterns in a checkpoint to parts of a model.

Checkpoints name modules as plain paths, globs or regular expressions. Patterns come from untrusted
files, so regular expressions are never executed: the few constructs in use are rewritten as globs,
and a pattern with anything else is reported.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from perfatlas.networks.layers import DenseFfn, MoeFfn

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from perfatlas.networks.architecture import Architecture

MAX_TEMPLATES: Final = 2_000
MAX_ALTERNATIVES: Final = 64
MAX_PATTERN_LENGTH: Final = 300

# part of a layer -> module paths inside a layer, over all families
PARTS: Final[dict[str, tuple[str, ...]]] = {
    "attention": (
        "self_attn.q_proj",
        "self_attn.q_b_proj",
        "self_attn.qkv_proj",
        "linear_attn.in_proj_qkv",
        "linear_attn.in_proj_qkvz",
        "mamba.in_proj",
        "mixer.q_proj",
        "mixer.in_proj",
    ),
    "dense": ("mlp.down_proj", "feed_forward.down_proj", "mixer.down_proj"),
    "experts": (
        "mlp.experts.0.down_proj",
        "block_sparse_moe.experts.0.w2",
        "feed_forward.experts.0.down_proj",
        "mixer.experts.0.down_proj",
        "experts.0.down_proj",
    ),
    "shared": (
        "mlp.shared_experts.down_proj",
        "mlp.shared_expert.down_proj",
        "feed_forward.shared_expert.down_proj",
        "mixer.shared_experts.down_proj",
    ),
}
# Parts of a family that stores a dense network beside its experts under `mlp`.
BESIDE_EXPERTS: Final = {**PARTS, "experts": ("experts.0.down_proj",), "shared": ("mlp.down_proj",)}
_OUTSIDE = re.compile(r"(^|[._])(mtp|vision|visual|audio|vit|mm_projector|draft|eagle)")
_LAYER = re.compile(r"layers\.(\d{1,6}|\*)(?!\d)")
_NUMBER_PART = re.compile(r"(?<=\.)\d+(?=\.|$)")
_GROUP = re.compile(r"\(\??:?([\w|.*]*)\)")
_METACHARACTERS = frozenset("()[]{}+?|\\^$")


def part_sizes(architecture: Architecture) -> dict[str, int]:
    """Return the number of layers with each part; absent parts are omitted."""
    sizes: dict[str, int] = defaultdict(int)
    for group in architecture.layers:
        if group.mixer is not None:
            sizes["attention"] += group.count
        if isinstance(group.ffn, DenseFfn):
            sizes["dense"] += group.count
        if isinstance(group.ffn, MoeFfn):
            sizes["experts"] += group.count
            if group.ffn.shared_intermediate_size:
                sizes["shared"] += group.count
    return dict(sizes)


def module_paths(model_type: str) -> Mapping[str, tuple[str, ...]]:
    """Return the module paths of each part of a layer of a family."""
    return BESIDE_EXPERTS if model_type.startswith("gemma4") else PARTS


def covered_parts(
    patterns: Iterable[str],
    sizes: Mapping[str, int],
    *,
    depth: int,
    paths: Mapping[str, tuple[str, ...]] = PARTS,
) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the parts that the patterns cover in most of their layers.

    Args:
        patterns: Module paths, globs, or regular expressions marked "re:".
        sizes: Number of layers with each part, from `part_sizes`.
        paths: Module paths of each part, from `module_paths`.

    Returns:
        The parts, and the patterns that are not supported.

    Example:
        >>> from perfatlas.networks.hf_config.module_patterns import covered_parts
        >>> sizes = {"attention": 32, "dense": 32}
        >>> covered_parts(["lm_head", "re:.*self_attn.*"], sizes, depth=32)[0]
        frozenset({'attention'})
    """
    templates: dict[str, set[int] | None] = {}
    unknown: list[str] = []
    for pattern in dict.fromkeys(patterns):
        globs = as_globs(pattern)
        if globs is None or len(templates) >= MAX_TEMPLATES:
            unknown.append(pattern)
            continue
        for glob in globs:
            _record(glob, templates)
    covered = {
        part
        for part, size in sizes.items()
        if 2 * _layers_covered(paths[part], templates, depth) > size
    }
    return frozenset(covered), tuple(unknown)


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
    globs = _alternatives(text)
    if any(_METACHARACTERS & set(glob) for glob in globs):
        return None
    return globs


def _alternatives(text: str) -> tuple[str, ...]:
    """Return the text for each choice in its (a|b) groups; unexpanded if there are too many."""
    globs = [text]
    while len(globs) <= MAX_ALTERNATIVES:
        match = _GROUP.search(globs[0])
        if match is None:
            return tuple(globs)
        choices = match[1].split("|")
        globs = [
            glob[: group.start()] + choice + glob[group.end() :]
            for glob in globs
            if (group := _GROUP.search(glob))
            for choice in choices
        ]
    return (text,)


def _record(glob: str, templates: dict[str, set[int] | None]) -> None:
    """Record the layers that a glob names, by its path inside a layer; None means all layers."""
    layer = _LAYER.search(glob)
    head = glob[: layer.start()] if layer else glob
    if _OUTSIDE.search(head):
        return
    tail = glob[layer.end() :] if layer else glob.removeprefix("model.")
    template = _NUMBER_PART.sub("0", tail).lstrip("*.") or "*"
    if layer is None and template == "*":
        templates["*"] = None
    elif layer is None or layer[1] == "*":
        templates[template] = None
    else:
        layers = templates.setdefault(template, set())
        if layers is not None:
            layers.add(int(layer[1]))


def _layers_covered(
    paths: Iterable[str], templates: Mapping[str, set[int] | None], depth: int
) -> int:
    runs = {run for path in paths for run in _runs(path)}
    layers: set[int] = set()
    for template, named in templates.items():
        if any(_glob_matches(template, run) for run in runs):
            if named is None:
                return depth
            layers |= named
    return sum(1 for layer in layers if layer < depth)


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
