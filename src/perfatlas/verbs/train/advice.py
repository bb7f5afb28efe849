"""Layouts that fit, near one that does not.

Shape legend: C changed layouts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.quantities import InfeasibleError, format_quantity
from perfatlas.training.layouts import RECOMPUTE_LEVELS, Layouts, layout_problems, take_layouts
from perfatlas.training.step import training_steps
from perfatlas.verbs.train.results import memory_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perfatlas.training.recipe import Recipe
    from perfatlas.training.step import TrainingMemory, TrainingQuestion

MOST_ADVICE: Final = 3
MOST_RANKS: Final = 4096.0
SIZES: Final = ("tp", "pp", "cp", "dp", "ep")


def does_not_fit(question: TrainingQuestion, memory: TrainingMemory, at: int) -> InfeasibleError:
    """Return the error of a candidate that does not fit, with changes that do.

    Args:
        question: The candidates.
        memory: Their memory.
        at: Position of the candidate.
    """
    facts = memory_of(memory, at)
    parts = {
        "weights": "weights_bytes",
        "gradients": "gradients_bytes",
        "optimizer states": "optimizer_bytes",
        "activations": "activation_bytes",
        "other": "other_bytes",
    }
    listed = ", ".join(
        f"{_bytes(facts[key])} {name}" for name, key in parts.items() if facts[key] > 0.0
    )
    message = (
        f"the step needs {_bytes(facts['total_bytes'])} per GPU ({listed}) and a GPU has"
        f" {_bytes(facts['capacity_bytes'])}."
    )
    found = list(changes_that_fit(question, at))[:MOST_ADVICE]
    advice = tuple(f"set {change}" for change in found)
    if not advice and (pinned := _pinning(question.recipe)):
        advice = (f"leave out {pinned}: no change of recompute, zero or micro_batch fits with it",)
    elif not advice:
        advice = ("no single change of recompute, zero, micro_batch, tp, pp, cp, dp or ep fits",)
    return InfeasibleError(message, advice=advice, memory=facts)


def changes_that_fit(question: TrainingQuestion, at: int) -> Iterator[str]:
    """Yield changes of one or two fields with which a candidate fits, the smallest first.

    Args:
        question: The candidates.
        at: Position of the candidate.
    """
    one = take_layouts(question.layouts, np.array([at]))
    domain = question.systems[int(question.index_C[at])].device.scale_up.domain_size
    changes = list(_changes(one, domain, () if _pinning(question.recipe) else SIZES))
    if not changes:
        return
    layouts = _stacked([_changed(one, change) for change in changes])
    asked = replace(question, layouts=layouts, index_C=np.full(layouts.size, question.index_C[at]))
    broken_C = np.zeros(layouts.size, np.bool_)
    for problem in layout_problems(question.architecture, layouts, question.schedule):
        broken_C |= problem.broken_C
    whole = np.flatnonzero(~broken_C)
    if not whole.size:
        return
    valid = replace(asked, layouts=take_layouts(layouts, whole), index_C=asked.index_C[whole])
    told: list[dict[str, float]] = []
    for position in np.flatnonzero(training_steps(valid).memory.fits):
        change = changes[whole[position]]
        if any(shorter.items() <= change.items() for shorter in told):
            continue  # a part of it fits already
        told.append(change)
        yield _change_text(change, one, take_layouts(layouts, whole[[position]]))


def _pinning(recipe: Recipe) -> str:
    """Return the fields of a recipe that hold for given parallel sizes only, as text."""
    names = ("first_stage_layers", "last_stage_layers", "stage_layers")
    given = [name for name in names if getattr(recipe, name)]
    if recipe.sharding_replicas > 1:
        given.append("sharding_replicas")
    return " and ".join(given)


def _changes(
    one: Layouts, domain: float, sizes: tuple[str, ...] = SIZES
) -> Iterator[dict[str, float]]:
    """Yield changes of a layout, the cheapest first; tp grows within a scale-up domain only.

    Args:
        one: The layout.
        domain: GPUs of a scale-up domain.
        sizes: Parallel sizes that may grow; none where replicas or stages are given for the others.
    """
    full = float(RECOMPUTE_LEVELS.index("full"))
    cheap: list[dict[str, float]] = []
    if one.recompute[0] < full:
        cheap.append({"recompute": full})
    if one.zero[0] < 3:
        cheap += [{"zero": float(zero)} for zero in range(int(one.zero[0]) + 1, 4)]
    if one.micro_batch[0] > 1:
        cheap.append({"micro_batch": max(one.micro_batch[0] // 2, 1.0)})
    yield from cheap
    for first, second in ((cheap[0], later) for later in cheap[1:]):
        yield first | second
    for name in sizes:
        size = 2.0 * float(getattr(one, name)[0])
        while size <= (domain if name == "tp" else MOST_RANKS):
            yield {name: size}
            yield from ({name: size} | change for change in cheap)
            size *= 2.0


def _changed(one: Layouts, change: Mapping[str, float]) -> Layouts:
    """Return a layout with some fields changed, on as many GPUs as before where dp allows it."""
    fields: dict[str, Any] = {
        name: np.array([value], dtype=getattr(one, name).dtype) for name, value in change.items()
    }
    for name in ("tp", "pp", "cp"):
        if name in change and one.dp[0] * getattr(one, name)[0] % change[name] == 0:
            fields["dp"] = one.dp * getattr(one, name) / change[name]
    return replace(one, **fields)


def _stacked(layouts: list[Layouts]) -> Layouts:
    return Layouts(
        **{name: np.concatenate([vars(one)[name] for one in layouts]) for name in vars(layouts[0])}
    )


def _change_text(change: Mapping[str, float], one: Layouts, changed: Layouts) -> str:
    """Return a change as text, with the GPUs if it needs others."""
    words = [
        f"{name} = {RECOMPUTE_LEVELS[int(value)] if name == 'recompute' else f'{value:g}'}"
        for name, value in change.items()
        if name != "dp"
    ]
    if changed.gpus[0] != one.gpus[0]:
        words.append(f"gpus = {changed.gpus[0]:g}")
    return " and ".join(words)


def _bytes(value: float) -> str:
    return format_quantity(value, "B", exact=False)
