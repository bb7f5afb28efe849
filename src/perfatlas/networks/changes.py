"""Models with other dimensions, also at equal parameters or FLOP per token."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeVar

from perfatlas.networks import dimensions
from perfatlas.networks.layers import GqaAttention, MoeFfn
from perfatlas.networks.parameters import parameter_counts
from perfatlas.quantities import InvalidSpecError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.networks.language_model import LanguageModel, LayerGroup

Kind = TypeVar("Kind", bound="LanguageModel")
WIDTH_MULTIPLE: Final = 128  # of solved widths, if that of the model is one
MAX_DEVIATION: Final = 0.05  # of a solved model from the equal count
MAX_FACTOR: Final = 16  # of a solved value to that of the model
COUNTS: Final = ("parameters", "flop")


def changed_model(architecture: Kind, settings: Mapping[str, str]) -> tuple[Kind, dict[str, int]]:
    """Return a model with other dimensions, and the dimensions, a solved one included.

    Args:
        settings: Fields with their values as text; `equal` and `solve` together solve one field
            so that the model keeps its parameters, or its FLOP per token.

    Limits: `equal=flop` counts the matrix products with weights, 2 FLOP for each active parameter
        outside the embedding, without attention scores, which depend on the context. Layers for
        multi-token prediction, position limits and number formats stay those of the model.

    Example:
        >>> from perfatlas.networks import resolve_model
        >>> base = resolve_model("Qwen/Qwen3-32B").network
        >>> settings = {"layers": "48", "equal": "parameters", "solve": "intermediate_size"}
        >>> base.changed(settings)[1]
        {'layers': 48, 'intermediate_size': 36224}
    """
    named = {
        n: text for n, text in settings.items() if n not in (dimensions.EQUAL, dimensions.SOLVE)
    }
    if unknown := [name for name in named if name not in dimensions.MODEL_FIELDS]:
        raise InvalidSpecError(dimensions.unknown_dimension(unknown[0]))
    changes = {name: dimensions.read_dimension(name, text) for name, text in named.items()}
    notes = [
        _note(architecture, name, value)
        for name, value in changes.items()
        if _values(architecture, name) != [value]
    ]
    if dimensions.EQUAL in settings or dimensions.SOLVE in settings:
        solved, value, note = _solved(architecture, changes, settings)
        changes[solved] = value
        notes.append(note)
    changed = _checked(_apply(architecture, changes), changes)
    return replace(changed, notes=(*architecture.notes, *notes)), changes


def split_layers(architecture: Kind) -> tuple[Kind, Kind]:
    """Return a model without feed-forward networks, and these alone, without vocabulary.

    Each part has a norm in front of its blocks, and half of those behind them. A drafter runs whole
    in the first.

    Example:
        >>> from perfatlas.networks import resolve_model
        >>> model = resolve_model("meta-llama/Llama-3.1-8B").network
        >>> parts = model.split()
        >>> [f"{part.parameters().total / 1e9:.2f}" for part in parts]
        ['2.39', '5.64']
    """
    groups = architecture.layers
    layers = tuple(
        replace(group, ffn=None, norms=group.norms - group.norms // 2)
        for group in groups
        if group.mixer is not None
    )
    moved = tuple(
        replace(group, mixer=None, norms=group.norms // 2)
        for group in groups
        if group.ffn is not None
    )
    if not layers or not moved:
        raise UnsupportedError(
            f"the layers of this {architecture.model_type} model cannot be split into attention and"
            " feed-forward networks; leave feed_forward_system out"
        )
    alone = replace(architecture, layers=moved, vocab_size=0, encoder=None)
    whole = [group for group in groups if group.mixer is not None and group.ffn is not None]
    drafter = replace(whole[-1], count=1) if whole else None
    return replace(architecture, layers=layers, drafter=drafter), alone


def _note(architecture: LanguageModel, name: str, value: int) -> str:
    old = " and ".join(f"{number:,}" for number in _values(architecture, name))
    return f"{name} = {value:,} instead of {old} (override of the model)"


def _values(architecture: LanguageModel, name: str) -> list[int]:
    """Return the distinct values of a field in a model, empty if it has none."""
    field = dimensions.MODEL_FIELDS[name]
    if not field.part:
        return [getattr(architecture, field.name)]
    parts = [part for group in architecture.layers for part in (group.mixer, group.ffn)]
    values = [getattr(part, field.name) for part in parts if isinstance(part, field.part)]
    return list(dict.fromkeys(values))


def _apply(architecture: Kind, changes: Mapping[str, int]) -> Kind:
    """Return a model with changes, without checking that they fit together."""
    for name, value in changes.items():
        field = dimensions.MODEL_FIELDS[name]
        if name == "layers":
            architecture = replace(architecture, layers=_with_layers(architecture, value))
        elif not field.part:
            changed: dict[str, Any] = {field.name: value}
            architecture = replace(architecture, **changed)
        else:
            architecture = _with_part(architecture, name, value)
    return architecture


def _with_layers(architecture: LanguageModel, layers: int) -> tuple[LayerGroup, ...]:
    """Return groups with their shares of another number of layers, each of at least one."""
    groups = architecture.layers
    if layers < len(groups):
        raise InvalidSpecError(
            f"layers = {layers}: the model has {len(groups)} groups of different layers, each of at"
            " least one"
        )
    if layers == architecture.num_layers:
        return groups
    share = layers / architecture.num_layers
    ends = [0]
    for number, group in enumerate(groups):
        end = round(
            share * (sum(layer_group.count for layer_group in groups[:number]) + group.count)
        )
        ends.append(min(max(end, ends[-1] + 1), layers - (len(groups) - number - 1)))
    return tuple(
        replace(group, count=after - before)
        for group, (before, after) in zip(groups, pairwise(ends), strict=True)
    )


def _with_part(architecture: Kind, name: str, value: int) -> Kind:
    field = dimensions.MODEL_FIELDS[name]
    values = _values(architecture, name)
    if not values:
        parts = " or ".join(part.__name__ for part in field.part)
        raise InvalidSpecError(
            f"{name} = {value}: no layer of this {architecture.model_type} model has it ({parts})"
        )
    windowed = name == "window" and any(values)
    settings: dict[str, Any] = {field.name: value}
    if name == "head_dim":
        settings["value_head_dim"] = value

    def changed(part: Any) -> Any:  # noqa: ANN401 - any mixer or feed-forward
        if not isinstance(part, field.part) or (windowed and not getattr(part, field.name)):
            return part
        return replace(part, **settings)  # type: ignore[type-var]

    layers = tuple(
        replace(group, mixer=changed(group.mixer), ffn=changed(group.ffn))
        for group in architecture.layers
    )
    return replace(architecture, layers=layers)


def without_windows(architecture: Kind, note: str) -> Kind:
    """Return a model whose layers attend to the whole cache and keep it.

    Example:
        >>> from perfatlas.networks import resolve_model
        >>> model = resolve_model("mistralai/Mistral-7B-v0.1").network
        >>> model.without_windows("its engine has no windows").layers[0].mixer.window
        0
    """
    if not any(_values(architecture, "window")):
        return architecture
    changed = _with_part(architecture, "window", 0)
    return replace(changed, notes=(*architecture.notes, note))


def with_redundant_experts(architecture: Kind, copies: int) -> Kind:
    """Return a model as a deployment holds it, with copies of popular experts in each MoE layer.

    A token still goes to `top_k` different experts, now among all copies: loads are spread over
    `num_experts + copies` slots, and the router is as before.

    Source: DeepSeek-V3 report (arXiv 2412.19437, section 3.4): 32 redundant experts in prefill.
    Limits: A copy is placed where it balances loads that were measured; traffic that differs from
        it, and the transfer of weights when experts move, are left out.

    Example:
        >>> from perfatlas.networks import resolve_model
        >>> model = resolve_model("deepseek-ai/DeepSeek-V3").network
        >>> model.with_redundant_experts(32).layers[1].ffn.slots
        288
    """
    layers = tuple(
        replace(group, ffn=replace(group.ffn, redundant_experts=copies))
        if isinstance(group.ffn, MoeFfn)
        else group
        for group in architecture.layers
    )
    return replace(architecture, layers=layers)


def _checked(architecture: Kind, changes: Mapping[str, int]) -> Kind:
    """Return the model, or refuse changes that contradict each other or what stays."""
    for group in architecture.layers:
        mixer, ffn = group.mixer, group.ffn
        if isinstance(mixer, GqaAttention) and mixer.num_heads % mixer.num_kv_heads:
            other = "heads" if "kv_heads" in changes else "kv_heads"
            raise InvalidSpecError(
                f"kv_heads = {mixer.num_kv_heads} does not divide heads = {mixer.num_heads}; set"
                f" {other} too"
            )
        if isinstance(ffn, MoeFfn) and ffn.top_k > ffn.num_experts:
            raise InvalidSpecError(
                f"experts_per_token = {ffn.top_k} exceeds experts = {ffn.num_experts}"
            )
    return architecture


def _solved(
    architecture: LanguageModel, changes: Mapping[str, int], settings: Mapping[str, str]
) -> tuple[str, int, str]:
    """Return the solved field, its value, and a note with both counts."""
    equal, name = settings.get(dimensions.EQUAL), settings.get(dimensions.SOLVE)
    possible = [text for text, field in dimensions.MODEL_FIELDS.items() if field.solved]
    if equal not in COUNTS or name not in possible:
        stated = ", ".join(
            f"{key} = {settings[key]}"
            for key in (dimensions.EQUAL, dimensions.SOLVE)
            if key in settings
        )
        raise InvalidSpecError(
            f"{stated}: an equal model needs {dimensions.EQUAL}={' or '.join(COUNTS)} and the field"
            f" that is solved, {dimensions.SOLVE}={', '.join(possible[:-1])} or {possible[-1]}"
        )
    if name in changes:
        raise InvalidSpecError(f"{name} is set and solved for: leave one of them out")
    count = _COUNTS[equal]
    target = count(architecture)
    values = _values(architecture, name)
    if len(values) != 1:
        why = f"has {len(values)} values" if values else "is no dimension"
        raise InvalidSpecError(f"{dimensions.SOLVE} = {name}: {name} {why} of this model")
    step = math.gcd(values[0], WIDTH_MULTIPLE) if dimensions.MODEL_FIELDS[name].is_width else 1

    def counted(multiple: int) -> int:
        return count(_apply(architecture, {**changes, name: multiple * step}))

    field = dimensions.MODEL_FIELDS[name]
    least, most = field.least, min(field.most, MAX_FACTOR * values[0])
    if name == "layers":
        least = len(architecture.layers)
    elif name == "experts":
        least = changes.get("experts_per_token", max(_values(architecture, "experts_per_token")))
    elif name == "experts_per_token":
        most = changes.get("experts", min(_values(architecture, "experts")))
    value = step * _nearest(counted, target, -(-least // step), most // step)
    parameters = counted(value // step)
    deviation = parameters / target - 1.0
    if abs(deviation) > MAX_DEVIATION:
        raise InvalidSpecError(
            f"no {name} keeps {equal} within {MAX_DEVIATION:.0%}: {name} = {value:,} has"
            f" {parameters:,} instead of {target:,}; solve for another field"
        )
    unit = "parameters" if equal == "parameters" else "FLOP per token without attention scores"
    note = (
        f"{name} = {value:,} instead of {values[0]:,} keeps {unit}: {parameters:,} instead of"
        f" {target:,} ({deviation:+.2%})"
    )
    return name, value, note


def _nearest(counted: Callable[[int], int], target: int, low: int, high: int) -> int:
    """Return the argument at which an increasing count is nearest to its target."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if counted(middle) <= target else (low, middle)
    return min((low, high), key=lambda number: (abs(counted(number) - target), number))


def _parameters(architecture: LanguageModel) -> int:
    return parameter_counts(architecture).total


def _flop(architecture: LanguageModel) -> int:
    """Return the FLOP of a token in matrix products with weights; a tied embedding is the head."""
    counts = parameter_counts(replace(architecture, encoder=None))
    read = 0 if architecture.tie_word_embeddings else counts.embedding
    return 2 * (counts.active - read)


_COUNTS: Final[dict[str, Callable[[LanguageModel], int]]] = {
    "parameters": _parameters,
    "flop": _flop,
}
