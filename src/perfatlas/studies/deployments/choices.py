"""Values that a search tries of a field: those that are listed, the one that is set, or all.

`choices` lists values, such as tp=2:4 or expert_exchange=deepep:all_to_all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error
from perfatlas.vocabulary.fields import Limits, Plan, Subject, fields_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Set as AbstractSet

    from perfatlas.vocabulary.fields import Field

SIZES: Final = (
    *("tp", "pp", "cp", "ring_degree", "guidance_degree", "dcp"),
    *("attention_dp", "ep", "moe_tp", "dp"),
)
# settings of the exchange of tokens between attention data-parallel ranks
EXCHANGE: Final = ("expert_exchange", "batch_overlap")
TOKENS: Final = "max_num_batched_tokens"
DEPTH: Final = "speculative_depth"
OFFLOADS: Final = ("weight_offload", "kv_offload")  # shares in a second memory
# fields that candidates of one family share
SETTINGS: Final = ("engine", *EXCHANGE, "redundant_experts", *OFFLOADS)
LISTED: Final = (*SIZES, *SETTINGS, TOKENS, DEPTH)

Choices = dict[str, tuple[Any, ...]]


def read_choices(listed: tuple[str, ...] | None) -> Choices:
    """Return the listed values of each field.

    Example:
        >>> from perfatlas.studies.deployments.choices import read_choices
        >>> read_choices(("tp=2:4", "expert_exchange=deepep"))
        {'tp': (2, 4), 'expert_exchange': ('deepep',)}
    """
    known = fields_of(Subject, Plan, Limits)
    choices: Choices = {}
    for text in listed or ():
        name, equals, values = text.partition("=")
        name = name.strip().casefold().replace("-", "_")
        if name not in LISTED or not equals:
            near = did_you_mean(name, LISTED) if equals else ""
            raise InvalidSpecError(
                f"choices = {repr_for_error(text)}: expected a field and its values, as in tp=2:4;"
                f" the fields are {', '.join(LISTED)}{near}"
            )
        if name in choices:
            raise InvalidSpecError(f"choices lists {name} twice; list its values once")
        numbers = [_value(known[name], part.strip(), text) for part in values.split(":")]
        choices[name] = tuple(dict.fromkeys(numbers))
    return choices


def _value(field: Field, text: str, whole: str) -> str | float:
    """Return one listed value of a field."""
    message = f"choices = {repr_for_error(whole)}: {repr_for_error(text)}"
    if field.number is None:
        word = str(field.folded(text))
        if not text or (field.choices and word not in field.choices):
            valid = f"one of {', '.join(field.choices)}" if field.choices else "a name"
            raise InvalidSpecError(f"{message} is not {valid}{did_you_mean(word, field.choices)}")
        return word
    least = field.number.at_least or 0
    whole_number = field.name not in OFFLOADS
    try:
        number = int(text) if whole_number else float(text)
    except ValueError:
        kind = "whole number" if whole_number else "number"
        raise InvalidSpecError(f"{message} is not a {kind}") from None
    if not least <= number <= (np.inf if field.number.at_most is None else field.number.at_most):
        most = "" if field.number.at_most is None else f", at most {field.number.at_most:,.0f}"
        valid = f"{least:g} or more{most}"
        raise InvalidSpecError(f"{message} is outside the values of {field.name}: {valid}")
    return number


def refuse_contradictions(choices: Choices, fields: AbstractSet[str], mode: str) -> None:
    """Refuse choices of fields that are set too, or have no effect."""
    for name in choices:
        if name in fields:
            raise InvalidSpecError(f"{name} has no effect with choices {name}=...; set one of both")
        if mode == "disaggregated" and name in ("dp", TOKENS):
            raise InvalidSpecError(
                f"choices of {name} have no effect in mode disaggregated: workers are counted by"
                " rates, and their batches are searched instead; leave it out"
            )


def settings_of(choices: Choices, fields: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Return the values of each setting that candidates share, None for the default."""
    return {name: choices.get(name, (fields.get(name),)) for name in SETTINGS}


def listed_names(choices: object) -> tuple[str, ...]:
    """Return the names of fields of which several values are listed, of the scenario of an answer.

    Args:
        choices: The list as given, or nothing.

    Example:
        >>> from perfatlas.studies.deployments.choices import listed_names
        >>> listed_names(["tp=2", "engine=vllm:sglang"]), listed_names(None)
        (('engine',), ())
    """
    listed = choices if isinstance(choices, list | tuple) else ()
    parts = [str(text).partition("=") for text in listed]
    return tuple(name.strip() for name, _, values in parts if ":" in values)
