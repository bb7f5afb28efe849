"""The scenarios that a comparison asks: given ones, and one for each alternative."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.fields import InputFields
from perfatlas.verbs.compare.groups import Alternatives

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ALTERNATIVES: Final = {
    "models": "model",
    "systems": "system",
    "engines": "engine",
    "formats": "format",
}
REQUIRED: Final = ("models", "systems")  # whose field has no default
MOST_SCENARIOS: Final = 64


class AlternativeInputs(InputFields, Alternatives):
    """What differs between the compared scenarios."""


def compared_scenarios(
    scenarios: Sequence[Mapping[str, Any]] | None, fields: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the compared scenarios, each with its `label`; the first is the base.

    Args:
        scenarios: Given scenarios; a `label` names one.
        fields: Fields that all share, and lists of alternatives, which are combined.

    Raises:
        InvalidSpecError: There are fewer than two scenarios, too many, or two with one label.

    Example:
        >>> from perfatlas.verbs.compare.question import compared_scenarios
        >>> found = compared_scenarios(None, {"system": "h100_sxm", "systems": ("h200_sxm",)})
        >>> [(one["label"], one["system"]) for one in found]
        [('h100_sxm', 'h100_sxm'), ('h200_sxm', 'h200_sxm')]
    """
    lists = AlternativeInputs.read({n: v for n, v in fields.items() if n in ALTERNATIVES})
    shared = {name: v for name, v in fields.items() if name not in ALTERNATIVES and v is not None}
    varied = {
        name: (*_base(several, shared, scenarios), *getattr(lists, several))
        for several, name in ALTERNATIVES.items()
        if getattr(lists, several)
    }
    found = []
    for place, given in enumerate(scenarios or [{}]):
        for values in product(*varied.values()):
            chosen = dict(zip(varied, values, strict=True))
            named = [str(given["label"])] if "label" in given else []
            if not named and scenarios:
                named = [f"scenario {place + 1}"]
            words = (str(v or given.get(name, f"default {name}")) for name, v in chosen.items())
            label = " ".join([*named, *words]) or "as given"
            own = {name: v for name, v in chosen.items() if v is not None}
            found.append({**given, **shared, **own, "label": label})
    for several in REQUIRED:
        name, values = ALTERNATIVES[several], getattr(lists, several)
        if values and (len(found) < 2 or not all(one.get(name) for one in found)):
            raise InvalidSpecError(
                f"--{several} {','.join(values)} needs --{name}, the {name} with which they are"
                f" compared, or a second {name}"
            )
    if len(found) < 2:
        raise InvalidSpecError(
            "a comparison needs two scenarios: give two files, or lists such as --systems"
            " h100_sxm,h200_sxm, --models, --engines or --formats; the first, or that of --system,"
            " --model, --engine or --format, is the base"
        )
    if len(found) > MOST_SCENARIOS:
        raise InvalidSpecError(
            f"{len(found)} scenarios are more than the {MOST_SCENARIOS} of a comparison; use"
            " `perfatlas estimate --table` for many"
        )
    labels = [one["label"] for one in found]
    if twice := next((one for one in labels if labels.count(one) > 1), ""):
        raise InvalidSpecError(f"two scenarios are called {twice!r}; give different ones")
    return found


def _base(
    several: str, shared: Mapping[str, Any], scenarios: Sequence[Mapping[str, Any]] | None
) -> tuple[Any, ...]:
    """Return the value that listed ones are compared with, none where the first of them is it."""
    value = shared.get(ALTERNATIVES[several])
    return () if value is None and several in REQUIRED and not scenarios else (value,)
