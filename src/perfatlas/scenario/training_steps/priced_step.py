"""Training steps of named fields, priced; one step is a table of one row."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.cost import price_problem, prices_of
from perfatlas.hardware import resolve_system
from perfatlas.quantities import InfeasibleError, PerfatlasError, broken_rules, format_quantity
from perfatlas.scenario.training_steps.evidence import evidence_of, training_warnings
from perfatlas.scenario.training_steps.power import broken_limit, power_rows
from perfatlas.scenario.training_steps.question import question_of, read_training
from perfatlas.scenario.training_steps.recipe import FP8_FORMATS
from perfatlas.scenario.training_steps.results import (
    checkpoint_results,
    item_results,
    memory_of,
    training_results,
)
from perfatlas.scenario.training_steps.rules import refused_by_recipe
from perfatlas.training.layouts import RECOMPUTE_LEVELS, Layouts, layout_rules, take_layouts
from perfatlas.training.step import state_bytes, training_steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perfatlas.answer import Evidence
    from perfatlas.cost import GpuPrice
    from perfatlas.scenario.training_steps.recipe import TrainInputs
    from perfatlas.training.recipe import Recipe
    from perfatlas.training.step import TrainingMemory, TrainingQuestion, TrainingSteps

MAX_ADVICE: Final = 3


# Fields that an advised change has at most, beside dp and the GPUs.
MAX_FIELDS: Final = 4


MAX_GPUS: Final = 131_072.0


# Ranks of one parallel size at most.
MAX_RANKS: Final = 512.0


# Parts at most into which dp is divided for a size that is no power of two times the former one.
MAX_PARTS: Final = 16


# Tokens of a sequence that a rank keeps at least where cp grows, as in a search of layouts.
MIN_TOKENS: Final = 1024.0


def does_not_fit(
    inputs: TrainInputs, question: TrainingQuestion, memory: TrainingMemory, at: int
) -> InfeasibleError:
    """Return the error of a candidate that does not fit, with changes that do."""
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
    if memory.overflows[at]:
        message = (
            f"optimizer_offload and activation_offload leave {_bytes(memory.second_bytes[at])} to"
            f" the second memory of a GPU, which has {_bytes(memory.second_capacity_bytes[at])}."
        )
    found = (*_fp8_weights(inputs, question, at), *changes_that_fit(inputs, question, at))
    advice = tuple(f"set {change}" for change in found[:MAX_ADVICE])
    if not advice and (pinned := _pinning(question.recipe)):
        advice = (f"leave out {pinned}: no change of recompute, zero or micro_batch fits with it",)
    elif not advice and question.network.tables:
        advice = ("divide the tables over more GPUs: set gpus, and ep x expert_tp = dp",)
    elif not advice and question.network.item:
        advice = (f"no change of zero and micro_batch fits on up to {MAX_GPUS:,.0f} GPUs",)
    elif not advice:
        advice = (
            (
                "no change of recompute, zero, micro_batch, tp, pp, cp and ep fits on up to"
                f" {MAX_GPUS:,.0f} GPUs: use shorter sequences or GPUs with more memory"
            ),
        )
    return InfeasibleError(message, advice=advice, memory=facts)


def _fp8_weights(inputs: TrainInputs, question: TrainingQuestion, at: int) -> tuple[str, ...]:
    """Return FP8 frozen weights as a change, empty unless a candidate with adapters then fits."""
    if not question.recipe.lora_rank or question.formats.gemm not in FP8_FORMATS:
        return ()
    narrow = replace(question.recipe, fp8_parameter_gather=True)
    place = np.array([at])
    training_question = replace(
        question,
        recipe=narrow,
        layouts=take_layouts(question.layouts, place),
        index_C=question.index_C[place],
    )
    fits = bool(training_steps(training_question).memory.fits[0])
    return ("fp8_parameter_gather = true",) if fits and not inputs.fp8_parameter_gather else ()


def changes_that_fit(inputs: TrainInputs, question: TrainingQuestion, at: int) -> list[str]:
    """Return the changes with which a candidate fits, as text.

    Changes on the same GPUs come before those with more, and changes of fewer fields before those
    of more. Of these, the one with the shortest step comes first, and of a field that with it.
    """
    one = take_layouts(question.layouts, np.array([at]))
    pinned = bool(_pinning(question.recipe))
    domain = question.systems[int(question.index_C[at])].device.scale_up.domain_size
    options = _recipe_options(one)
    if question.network.item:  # not divided, and blocks are computed again as a whole
        full = float(RECOMPUTE_LEVELS.index("full"))
        options["recompute"] = [level for level in options.get("recompute", []) if level == full]
    elif not pinned:
        options |= _sizes(one, domain)
    if inputs.pipeline_schedule is None and question.schedule == "interleaved":
        options["vpp"] = sorted({one.vpp[0] // 2.0, 1.0}, reverse=True)
    for gpus in one.gpus if pinned else _gpu_counts(question, at, float(one.gpus[0])):
        for fields in range(MAX_FIELDS + 1):
            changes = [
                dict(zip(names, values, strict=True))
                for names in combinations(options, fields)
                for values in product(*(options[name] for name in names))
            ]
            layouts = _changed(inputs, one, changes, gpus)
            found = _fitting(inputs, question, at, changes, layouts)
            if found:
                stated = inputs.dp is not None
                return [_change_text(change, one, new, dp_given=stated) for change, new in found]
    return []


def _fitting(
    inputs: TrainInputs,
    question: TrainingQuestion,
    at: int,
    changes: list[dict[str, float]],
    layouts: Layouts,
) -> list[tuple[dict[str, float], Layouts]]:
    """Return the changes that fit with the shortest steps, of different fields each."""
    plain_C = (layouts.vpp == 1.0) & (question.schedule == "interleaved")
    fits: list[tuple[float, int]] = []
    for schedule, own_C in ((question.schedule, ~plain_C), ("1f1b", plain_C)):
        broken_C = ~own_C | (layouts.dp < 1.0) | (layouts.dp % 1.0 != 0.0)
        broken_C |= (layouts.pp > question.layouts.pp[at]) & (layouts.micro_batches < layouts.pp)
        broken_C |= refused_by_recipe(inputs, layouts)
        for rule in layout_rules(question.network, schedule):
            broken_C |= rule.refused(layouts)
        whole = np.flatnonzero(~broken_C)
        if whole.size:
            index_C = np.full(whole.size, question.index_C[at])
            valid = replace(question, layouts=take_layouts(layouts, whole), index_C=index_C)
            steps = training_steps(replace(valid, schedule=schedule))
            own = zip(steps.step_s_C.tolist(), whole.tolist(), steps.memory.fits, strict=True)
            fits += [(step_s, index) for step_s, index, fit in own if fit]
    found: list[tuple[dict[str, float], Layouts]] = []
    for _, index in sorted(fits):
        if all(earlier.keys() != changes[index].keys() for earlier, _ in found):
            found.append((changes[index], take_layouts(layouts, np.array([index]))))
    return found[:MAX_ADVICE]


def _gpu_counts(question: TrainingQuestion, at: int, gpus: float) -> Iterator[float]:
    """Yield the GPUs of a layout and their doublings that hold the states of the model at least."""
    each, recipe = state_bytes(question), question.recipe
    states = min(each.states, each.end_states) * (1.0 - recipe.optimizer_offload)
    trained = min(each.weights, each.end_weights) + question.gradient_bytes + states
    least = min(each.weights, each.end_weights, each.frozen) if recipe.lora_rank else trained
    device = question.systems[int(question.index_C[at])].device
    model_bytes = least * question.network.parameters().total
    while gpus <= MAX_GPUS:
        if gpus * device.memory_bytes >= model_bytes:
            yield gpus
        gpus *= 2.0


def _pinning(recipe: Recipe) -> str:
    """Return the fields of a recipe that hold for given parallel sizes only, as text."""
    names = ("first_stage_layers", "last_stage_layers", "stage_layers")
    given = [name for name in names if getattr(recipe, name)]
    if recipe.sharding_replicas > 1:
        given.append("sharding_replicas")
    return " and ".join(given)


def _recipe_options(layouts: Layouts) -> dict[str, list[float]]:
    """Return the values to which fields of a layout may change on the same ranks."""
    more = range(int(layouts.recompute[0]) + 1, len(RECOMPUTE_LEVELS))
    half = layouts.micro_batch[0] // 2
    options = {
        "recompute": [float(level) for level in more],
        "zero": [float(zero) for zero in range(int(layouts.zero[0]) + 1, 4)],
        "micro_batch": sorted({half, 1.0}, reverse=True) if half >= 1 else [],
    }
    return {name: values for name, values in options.items() if values}


def _sizes(layouts: Layouts, domain: float) -> dict[str, list[float]]:
    """Return larger parallel sizes, doubled or with dp divided over them; tp stays in a domain."""
    most = {
        "tp": domain,
        "pp": MAX_RANKS,
        "ep": MAX_RANKS,
        "cp": layouts.sequence_length[0] / MIN_TOKENS,
    }
    # divisors of the data-parallel ranks, which three stages of three GPUs need
    dp = int(layouts.dp[0])
    parts = [float(part) for part in range(2, MAX_PARTS + 1) if dp % part == 0]
    sizes: dict[str, list[float]] = {}
    for name, limit in most.items():
        size = float(getattr(layouts, name)[0])
        doubled = {size * 2.0**step for step in range(1, int(math.log2(MAX_GPUS)))}
        values = sorted(doubled | {size * part for part in parts})
        sizes[name] = [value for value in values if value <= min(limit, MAX_RANKS)]
    return {name: values for name, values in sizes.items() if values}


def _changed(
    inputs: TrainInputs, layouts: Layouts, changes: list[dict[str, float]], gpus: float
) -> Layouts:
    """Return a layout with each of some changes (C,), on a number of GPUs."""
    columns: dict[str, Any] = {
        name: np.array([change.get(name, value[0]) for change in changes], value.dtype)
        for name, value in vars(layouts).items()
    }
    columns["dp"] = gpus / (columns["tp"] * columns["pp"] * columns["cp"])
    if inputs.sequence_parallel is None:
        columns["sequence_parallel"] = columns["tp"] > 1.0
    return Layouts(**columns)


def _change_text(
    change: Mapping[str, float], layouts: Layouts, changed: Layouts, *, dp_given: bool
) -> str:
    """Return a change as text, with dp and the GPUs if it needs others."""
    words = [
        f"{name} = {RECOMPUTE_LEVELS[int(value)] if name == 'recompute' else f'{value:.0f}'}"
        for name, value in change.items()
    ]
    if dp_given and changed.dp[0] != layouts.dp[0]:
        words.append(f"dp = {changed.dp[0]:.0f}")
    if changed.gpus[0] != layouts.gpus[0]:
        words.append(f"gpus = {changed.gpus[0]:.0f}")
    return ", ".join(words[:-1]) + (" and " if words[1:] else "") + words[-1]


def _bytes(value: float) -> str:
    return format_quantity(value, "B", exact=False)


@dataclass(frozen=True, kw_only=True)
class TrainingStep:
    """One training step that fits in memory and keeps its power limit."""

    inputs: TrainInputs
    question: TrainingQuestion  # The candidates of the steps that are priced together
    steps: TrainingSteps
    results: Mapping[str, Any]  # Its results by name, as `train` answers them
    warnings: tuple[str, ...]  # What to know before relying on it

    def smoothed(self, longer_s: float, added_j: float) -> TrainingStep:
        """Return a step that is priced alone, with power smoothing.

        Args:
            longer_s: Time that ramps add [s].
            added_j: Energy that a mean board draws beyond its work [J].
        """
        steps, power = self.steps, self.steps.power
        parts_j = {**power.parts_j, "smoothing": power.on_w_C * longer_s + added_j}
        longer = replace(
            steps,
            **{
                name: getattr(steps, name) + longer_s
                for name in ("step_s_C", "low_s_C", "high_s_C")
            },
            waterfall={**steps.waterfall, "smoothing": np.full_like(steps.step_s_C, longer_s)},
            power=replace(power, parts_j=parts_j, dynamic_j_C=power.dynamic_j_C + added_j),
        )
        (found,) = _all_results([self.inputs], self.question, longer)
        return replace(self, steps=longer, results=found)

    def evidence(self) -> Evidence:
        """Return what the results of a step that is priced alone rest on."""
        found, price = evidence_of(self.question, self.steps), self.price
        assumptions = (*found.assumptions, price.note)
        return replace(found, assumptions=assumptions, sources=(*found.sources, *price.sources))

    @property
    def price(self) -> GpuPrice:
        """The price of its GPUs."""
        system, train_inputs = resolve_system(self.inputs.system).name, self.inputs
        prices, _ = prices_of(
            [system],
            [train_inputs.usd_per_gpu_hour],
            [train_inputs.pue],
            [train_inputs.usd_per_kwh],
        )
        return prices[0]


def training_step(fields: Mapping[str, Any]) -> TrainingStep:
    """Return the training step of named fields.

    Args:
        fields: Fields of `perfatlas train`.

    Raises:
        InvalidSpecError: A field is missing, unknown or out of its bounds, or the layout does not
            divide the model, the batch or the GPUs.
        InfeasibleError: The step does not fit in the memory of a GPU.
        UnsupportedError: There is no data for the format, the schedule or the tier.
    """
    (found,) = training_rows([read_training(fields)])
    if isinstance(found, PerfatlasError):
        raise found
    return found


def training_rows(inputs: Sequence[TrainInputs]) -> list[TrainingStep | PerfatlasError]:
    """Return the training steps of questions that are priced together, or why there is none.

    Args:
        inputs: Questions of one schedule that differ in sizes, GPUs, facility and storage alone.
    """
    question = question_of(inputs)
    rules = layout_rules(question.network, question.schedule)
    found: dict[int, TrainingStep | PerfatlasError] = {**broken_rules(rules, question.layouts)}
    problems = {
        given: price_problem(given)
        for given in {train_inputs.usd_per_gpu_hour for train_inputs in inputs}
    }
    for at, train_inputs in enumerate(inputs):
        if (unread := problems[train_inputs.usd_per_gpu_hour]) is not None:
            found.setdefault(at, unread)
    legal = [at for at in range(len(inputs)) if at not in found]
    if legal:
        if found:
            question = question_of([inputs[at] for at in legal])
        found |= zip(legal, _priced([inputs[at] for at in legal], question), strict=True)
    return [found[at] for at in range(len(inputs))]


def _priced(
    inputs: Sequence[TrainInputs], question: TrainingQuestion
) -> Iterator[TrainingStep | PerfatlasError]:
    """Yield the training steps of legal layouts, or the limit that each does not keep."""
    steps = training_steps(question)
    warnings = training_warnings(inputs, question, steps)
    results = _all_results(inputs, question, steps)
    for at, train_inputs in enumerate(inputs):
        if steps.memory.too_large[at]:
            yield does_not_fit(train_inputs, question, steps.memory, at)
        elif (error := broken_limit(question, steps, at)) is not None:
            yield error
        else:
            found = TrainingStep(
                inputs=train_inputs,
                question=question,
                steps=steps,
                results=results[at],
                warnings=warnings[at],
            )
            stale = found.price.warning
            yield replace(found, warnings=(*warnings[at], stale)) if stale else found


def _all_results(
    inputs: Sequence[TrainInputs], question: TrainingQuestion, steps: TrainingSteps
) -> list[dict[str, Any]]:
    """Return the results of each candidate."""
    power, results = power_rows(inputs, question, steps), training_results(question, steps)
    item, found = question.network.item, []
    for at, train_inputs in enumerate(inputs):
        told = results[at] | power[at] | checkpoint_results(train_inputs, question, steps, at)
        found.append(item_results(item, told) if item else told)
    return found
