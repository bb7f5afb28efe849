"""Facts of a scenario that conditions of fields refer to, and fields that all pools override.

Shape legend: N rows.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.engines import resolve_engine
from perfatlas.hardware import resolve_system
from perfatlas.networks import is_graph, resolve_model
from perfatlas.quantities import PerfatlasError, Rule
from perfatlas.scenario.fields import FIELD_NAMES, distinct_rows
from perfatlas.scenario.resolution.pools import ROLES, SHARED
from perfatlas.vocabulary.fields import Missing, value_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.operators import IntArray
    from perfatlas.scenario.fields import BoolArray, Columns
    from perfatlas.vocabulary.fields.conditions import Facts

FORMATS: Final = ("gemm_format", "moe_format")  # of all that `format` sets
SYSTEMS: Final = ("system", *(f"{role}_system" for role in ROLES))
PROMPTS_FIRST: Final = "sglang"  # scheduling policy that runs prompts before decodes
BALANCES: Final = "trtllm"  # prefix of those that can hold prompts for those of other ranks
RANKS: Final = ("attention_dp", *(f"{role}_attention_dp" for role in ROLES))
EXPERT_RANKS: Final = ("ep", *(f"{role}_ep" for role in (*ROLES, "feed_forward")))
# the fields that facts derive from
FACTS: Final = {
    "tokens": ("model",),
    "denoiser": ("model",),
    "guidance": ("model",),
    "experts": ("model",),
    "vision encoder": ("model",),
    "expert format": ("model", "format", *FORMATS),
    "front end": ("mode", "engine"),
    "SGLang scheduler": ("engine",),
    "prompt balance": ("engine", "attention_dp"),
    "expert ranks": ("model", *EXPERT_RANKS),
    "token exchange": ("model", *RANKS),
    "overlapped exchange": ("model", "engine", "batch_overlap", *SYSTEMS, *RANKS),
    "split steps": ("mode", "speculative_depth"),
}


def _differing(
    c: Columns, rows: IntArray, read: Sequence[str], breaks: Callable[[dict[str, Any]], bool]
) -> BoolArray:
    """Return the rows whose fields have no effect (N,), called once per distinct combination.

    Args:
        rows: Rows in which they may have none.
        read: The fields that it reads.
    """
    broken_N = np.zeros(c.size, np.bool_)
    if rows.size:
        for members in distinct_rows([c[key].value_codes[rows] for key in read]).members():
            broken_N[rows[members]] = breaks(c.at(int(rows[members[0]]), read))
    return broken_N


def _own(name: str) -> list[str]:
    """Return the fields of pools that override a field of both."""
    return [field for role in ROLES if (field := f"{role}_{name}") in FIELD_NAMES]


def _overridden(c: Columns, name: str) -> BoolArray:
    """Return where both pools have another value of a field than the scenario (N,)."""
    rows = np.flatnonzero(c.equals("mode", "disaggregated") & c.is_set(name))

    def breaks(values: dict[str, Any]) -> bool:
        shared, *others = values.values()
        return is_overridden(shared, others)

    return _differing(c, rows, [name, *_own(name)], breaks)


def _format_overridden(c: Columns, name: str) -> BoolArray:
    """Return where the formats of all layers differ from that of a pool, or of all (N,)."""
    rows = np.flatnonzero(c.is_set(name) & c.is_set("gemm_format"))
    read = ["model", name, *FORMATS]
    return _differing(c, rows, read, lambda values: bool(overridden_format(values, name)))


def _format_message(name: str, c: Columns, row: int) -> str:
    return overridden_format(c.row(row), name)


def _overridden_message(name: str, c: Columns, row: int) -> str:
    fields = c.row(row)
    return overridden_sentence(name, fields[name], [fields[own] for own in _own(name)], "pools")


def overridden_format(values: Mapping[str, Any], name: str = "format") -> str:
    """Return that a format has no effect, as each kind of layer has another one, or "".

    Args:
        values: model, the format, gemm_format and moe_format as given.
        name: format, or that of a pool.
    """
    own = FORMATS[:1] if _experts(values) else FORMATS
    if not is_overridden(values[name], [values[key] for key in own]):
        return ""
    given = " and ".join(f"{key} = {value_text(values[key])}" for key in own)
    verb = "override" if own[1:] else "overrides"
    return (
        f"{name} = {value_text(values[name])} has no effect here: {given} {verb} it; leave"
        f" {name} out"
    )


def is_overridden(shared: object, own: Sequence[object]) -> bool:
    """Return whether every pool, or kind of replica, has another value than all share.

    Args:
        shared: What the scenario says.
        own: What each pool or kind says, None for nothing.
    """
    return shared is not None and all(value not in (None, shared) for value in own)


def overridden_sentence(name: str, shared: object, own: Sequence[object], whose: str) -> str:
    """Return that a field has no effect, as every pool or kind of replica has its own value.

    Args:
        whose: "pools" or "kinds".
    """
    return (
        f"{name} = {value_text(shared)} has no effect here: all {whose} override it"
        f" ({', '.join(map(value_text, own))}); leave {name} out"
    )


def facts_of_field(name: str, values: Mapping[str, Any]) -> Facts:
    """Return the facts that the condition of a field refers to, from the fields that it reads."""
    return facts_of(_of_pool(name, values))


def facts_of(values: Mapping[str, Any]) -> dict[str, Callable[[], Missing | None]]:
    """Return the facts of a scenario that conditions refer to: None where they hold."""
    return {
        "tokens": partial(_tokens, values),
        "denoiser": partial(_denoiser, values),
        "guidance": partial(_guidance, values),
        "experts": partial(_experts, values),
        "vision encoder": partial(_encoder, values),
        "expert format": partial(_expert_format, values),
        "front end": partial(_front_end, values),
        "SGLang scheduler": partial(_prompts_first, values),
        "prompt balance": partial(_balances, values),
        "expert ranks": partial(_expert_ranks, values),
        "token exchange": partial(_token_exchange, values),
        "overlapped exchange": partial(_overlapped_exchange, values),
        "split steps": partial(_split_steps, values),
    }


def _of_pool(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with the attention_dp of the pool alone that a field is about, if of one."""
    role = name.partition("_")[0]
    if role not in ROLES:
        return dict(values)
    own = values.get(f"{role}_attention_dp") or values.get("attention_dp")
    return {**values, **dict.fromkeys(RANKS), "attention_dp": own}


def _tokens(values: Mapping[str, Any]) -> Missing | None:
    """Return that requests of the model have no tokens."""
    if not is_graph(values["model"]):
        return None
    named = value_text(values["model"])
    return Missing(f"requests of {named}, a graph of operators, have no tokens", "")


def _split_steps(values: Mapping[str, Any]) -> Missing | None:
    """Return that the closed forms of split layers are those of a batch without drafts."""
    for name, value in (("mode", "static"), ("speculative_depth", 0)):
        if values.get(name) != value:
            why = f"{name} = {values.get(name)}"
            return Missing(why, f"set {name} = {value} or use simulate")
    return None


def _denoiser(values: Mapping[str, Any]) -> Missing | None:
    """Return that the model has no denoiser that is a transformer."""
    try:
        known = resolve_model(values["model"]).network.divides_denoiser
    except PerfatlasError:
        return None
    named = value_text(values["model"])
    why = f"{named} has no diffusion transformer"
    return None if known else Missing(why, "use one, such as flux.1-dev")


def _guidance(values: Mapping[str, Any]) -> Missing | None:
    """Return that the model has no denoiser that runs with and without a prompt."""
    try:
        known = resolve_model(values["model"]).network.guided
    except PerfatlasError:
        return None
    named = value_text(values["model"])
    why = f"{named} runs no second pass of a denoiser, without a prompt"
    return None if known else Missing(why, "use a pipeline with guidance, such as sd3-medium")


def _experts(values: Mapping[str, Any]) -> Missing | None:
    """Return that the model has no experts; unknown models are reported elsewhere."""
    try:
        dense = not resolve_model(values["model"]).network.has_experts
    except PerfatlasError:
        return None
    named = value_text(values["model"])
    return Missing(f"{named} is a dense model", "use an MoE model") if dense else None


def _encoder(values: Mapping[str, Any]) -> Missing | None:
    """Return that the model encodes no images; unknown models are reported elsewhere."""
    try:
        network = resolve_model(values["model"]).network
    except PerfatlasError:
        return None
    named = value_text(values["model"])
    if network.encoder_parameters:
        return None
    if network.undescribed:
        return Missing(network.undescribed, "add what is missing to its config.json")
    why = f"no vision encoder of {named} is described"
    return Missing(why, "use another model, such as Qwen/Qwen3-VL-8B-Instruct")


def _expert_format(values: Mapping[str, Any]) -> Missing | None:
    """Return that the model has no experts, unless the format is that of its dense layers.

    A table may have the column for its models with experts.

    Args:
        values: Fields of a scenario or of a kind of replica.
    """
    dense, experts = (values[name] for name in FORMATS)
    missing = _experts(values)
    if missing is None:
        return None
    stored = resolve_model(values["model"]).network.checkpoint.gemm_format
    default = dense or values["format"] or stored or "bf16"
    return None if str(experts).casefold() == default.casefold() else missing


def _scheduling(values: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return engine and scheduling policy; for engines that are unknown, None."""
    try:
        profile = resolve_engine(values["engine"])
    except PerfatlasError:
        return None
    return profile.id, values.get("scheduler") or profile.scheduler.rules


def _prompts_first(values: Mapping[str, Any]) -> Missing | None:
    """Return that the engine has another scheduler; unknown engines are reported elsewhere."""
    engine, rules = _scheduling(values) or ("", PROMPTS_FIRST)
    if rules == PROMPTS_FIRST:
        return None
    return Missing(f"{engine} schedules as {rules}", f"set engine = {PROMPTS_FIRST}")


def _balances(values: Mapping[str, Any]) -> Missing | None:
    """Return that no prompts wait for those of other ranks; for unknown engines, None."""
    if (found := _scheduling(values)) is None:
        return None
    engine, rules = found
    if not rules.startswith(BALANCES):
        return Missing(f"{engine} schedules as {rules}", f"set engine = {BALANCES}")
    if (values.get("attention_dp") or 1) > 1:
        return None
    why = "attention_dp = 1 has no other ranks to wait for"
    return Missing(why, "set attention_dp, such as 8")


def _expert_ranks(values: Mapping[str, Any]) -> Missing | None:
    """Return that no ranks divide experts."""
    if (dense := _experts(values)) is not None:
        return dense
    if any((values.get(name) or 1) > 1 for name in EXPERT_RANKS):
        return None
    return Missing("experts of ep = 1 are on no other ranks", "set ep, such as 8")


def _token_exchange(values: Mapping[str, Any]) -> Missing | None:
    """Return that no tokens are exchanged between attention data-parallel ranks."""
    if (dense := _experts(values)) is not None:
        return dense
    if any((values.get(name) or 1) > 1 for name in RANKS):
        return None
    return Missing(
        "attention_dp = 1 exchanges no tokens between ranks", "set attention_dp, such as 8"
    )


def _overlapped_exchange(values: Mapping[str, Any]) -> Missing | None:
    """Return that the exchange of tokens has nothing beside it to overlap with."""
    if (nothing := _token_exchange(values)) is not None:
        return nothing
    named = values["batch_overlap"]
    try:
        shared = resolve_model(values["model"]).network.has_shared_experts
        overlaps = [
            overlap
            for overlap in resolve_engine(values["engine"]).overlaps
            if overlap.batch_overlap
        ]
        systems = [resolve_system(values[name]) for name in SYSTEMS if values.get(name)]
    except PerfatlasError:
        return None
    overlaps = [overlap for overlap in overlaps if overlap.batch_overlap == named]
    if not overlaps:  # two batches, or refused with the engine's settings
        return None
    if not shared:
        why = f"{named} runs the shared expert beside the exchange, and"
        model = value_text(values["model"])
        return Missing(f"{why} {model} has none", "set batch_overlap = two_batch")
    known = list(dict.fromkeys(name for overlap in overlaps for name in overlap.architectures))
    own = list(dict.fromkeys(system.device.architecture for system in systems))
    if not known or set(own) & set(known):
        return None
    engine = value_text(values["engine"])
    return Missing(
        f"{engine} runs {named} on {', '.join(known)}, not on {' or '.join(own)}",
        "set batch_overlap = two_batch",
    )


def _front_end(values: Mapping[str, Any]) -> Missing | None:
    """Return that the answer includes no front end."""
    if values["mode"] == "static":
        return Missing("mode = static excludes the front end", "set mode = aggregated")
    try:
        front = resolve_engine(values["engine"]).front
    except PerfatlasError:
        return None
    if front.tokenizes or front.token_s:
        return None
    return Missing(f"the front end of engine {value_text(values['engine'])} takes no time", "")


# what all of those who could read it override
EFFECTS: Final = (
    *(Rule(partial(_overridden, name=name), partial(_overridden_message, name)) for name in SHARED),
    *(
        Rule(
            partial(_format_overridden, name=name),
            partial(_format_message, name),
        )
        for name in ("format", *(f"{role}_format" for role in ROLES))
    ),
)
