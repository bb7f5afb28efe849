"""`train`: the time of a training step, its memory and where the time goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.answer import (
    Answer,
    Evidence,
    calibration_rows,
    match_versions,
    tier_of,
    used_matches,
    warn_unused_changes,
    with_unused_changes,
)
from perfatlas.declarations import signature_of, verb_fields
from perfatlas.energy import board_energy
from perfatlas.hardware import cited_sources
from perfatlas.quantities import InvalidSpecError, PerfatlasError
from perfatlas.scenario.fields import Answered, answer_columns, complete_scenario
from perfatlas.training.layouts import layout_problems
from perfatlas.training.step import FLOP_CONVENTION, PRICED_AS, training_steps
from perfatlas.verbs.train.advice import does_not_fit
from perfatlas.verbs.train.breakdown import step_costs_of, training_breakdown
from perfatlas.verbs.train.power import (
    FACILITY,
    broken_limit,
    power_notes,
    power_remarks,
    power_rows,
)
from perfatlas.verbs.train.question import (
    RANKS,
    SIZES,
    data_parallel,
    question_of,
    read_training,
    schedule_of,
)
from perfatlas.verbs.train.remarks import above_measured, graphs_matter, step_remarks
from perfatlas.verbs.train.results import STORAGE, checkpoint_results, training_results

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.training.step import TrainingQuestion, TrainingSteps
    from perfatlas.verbs.train.inputs import TrainInputs

INTERVAL: Final = (
    "the 90% interval is that of models to which the engine is not fitted, from the spread of the"
    " published runs between and within models, or,"
    " for an engine that is not fitted, of kernels on inference shapes, assumed fully correlated,"
    " and ends where all FLOP run at the peak;"
    " kernels of gradients are priced as forward kernels of the transposed shape"
)
WIDER: Final = (
    "no published run of {kind} models on {architecture} is among the fitted ones of {engine}: both"
    " ends of the interval are wider by a factor of {factor:g}, the drift of releases"
)
PAIRS: Final = (
    "pairs of a forward and a backward pass hide transfers of experts in the order of"
    " arXiv 2412.19437; the kernels that move tokens take {sms} SMs and memory bandwidth from the"
    " computation beside them"
)
VARYING: Final = SIZES + RANKS + FACILITY + STORAGE  # of rows that are priced together
LOWER_LIMIT: Final = (
    "kernels and collectives run at their lower limits; no efficiency of the engine, no SMs for"
    " collectives, no host time and no jitter are counted"
)


@signature_of("train")
@warn_unused_changes
def train(**fields: Any) -> Answer:  # noqa: ANN401 - checked against the table of fields
    """Return the time of a training step, its waterfall, utilization and memory.

    Args:
        **fields: Fields of `perfatlas train`.

    Raises:
        InvalidSpecError: A field is missing, unknown or out of its bounds, or the layout does not
            divide the model, the batch or the GPUs.
        InfeasibleError: The step does not fit in the memory of a GPU.
        UnsupportedError: There is no data for the format, the schedule or the tier.

    Example:
        >>> from perfatlas.verbs.train import train
        >>> answer = train(model="meta-llama/Llama-3.1-8B", system="h100_sxm", gpus=8, tp=2,
        ...     sequence_length=4096, global_batch=64)
        >>> parts = answer.results["waterfall"]
        >>> abs(sum(parts.values()) / answer.results["step_time_s"] - 1) < 1e-9
        True
    """
    inputs = read_training(fields)
    question = question_of([inputs])
    for problem in layout_problems(question.architecture, question.layouts, question.schedule):
        raise InvalidSpecError(problem.sentence(0))
    steps = training_steps(question)
    if not steps.memory.fits[0]:
        raise does_not_fit(inputs, question, steps.memory, 0)
    if (error := broken_limit(question, steps, 0)) is not None:
        raise error
    return Answer(
        command="train",
        scenario=_scenario(inputs, question),
        results=training_results(question, steps)[0]
        | power_rows([inputs], question, steps)[0]
        | checkpoint_results(inputs, question, steps, 0),
        breakdown=training_breakdown(question, steps),
        warnings=step_remarks(
            inputs,
            (*above_measured(question, steps)[0], *power_remarks([inputs], question, steps)[0]),
            graphs_act=bool(graphs_matter(question, steps)[0]),
        ),
        evidence=evidence_of(question, steps),
    )


def train_columns(table: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Return the answers of a table of training steps.

    Args:
        table: Columns of fields by name; None and empty text mean "not given".

    Returns:
        Results by name, `warnings`, `error_code` and `error`; None for missing values.
    """
    return with_unused_changes(table, _priced_columns)


def _priced_columns(table: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    return answer_columns(table, read_training, _rows, varying=VARYING, alike=schedule_of)


def _rows(inputs: Sequence[TrainInputs]) -> Answered:
    """Return the answers of questions of one schedule that differ in `VARYING` alone."""
    from perfatlas.answer import flat_results

    asked = question_of(inputs)
    found: dict[int, tuple[dict[str, Any], Sequence[str]] | PerfatlasError] = {}
    for problem in layout_problems(asked.architecture, asked.layouts, asked.schedule):
        for at in problem.broken_C.nonzero()[0].tolist():
            found.setdefault(at, InvalidSpecError(problem.sentence(at)))
    valid = [at for at in range(len(inputs)) if at not in found]
    if valid:
        question = question_of([inputs[at] for at in valid])
        steps = training_steps(question)
        graphs_act = graphs_matter(question, steps).tolist()
        power = power_rows([inputs[at] for at in valid], question, steps)
        above = above_measured(question, steps)
        said = power_remarks([inputs[at] for at in valid], question, steps)
        for place, (at, row) in enumerate(
            zip(valid, training_results(question, steps), strict=True)
        ):
            if steps.memory.fits[place]:
                if (error := broken_limit(question, steps, place)) is not None:
                    found[at] = error
                    continue
                own = power[place] | checkpoint_results(inputs[at], question, steps, place)
                remarks = step_remarks(
                    inputs[at], (*above[place], *said[place]), graphs_act=graphs_act[place]
                )
                found[at] = dict(flat_results(row | own)), remarks
            else:
                found[at] = does_not_fit(inputs[at], question, steps.memory, place)
    return Answered.of([found[at] for at in range(len(inputs))])


def _scenario(inputs: TrainInputs, question: TrainingQuestion) -> dict[str, Any]:
    layouts = question.layouts
    return complete_scenario(
        verb_fields("train"),
        inputs,
        gpus=int(layouts.gpus[0]),
        dp=data_parallel(inputs),
        engine=question.engine.id,
        format=question.formats.gemm,
        pipeline_schedule=question.schedule,
        zero=inputs.zero or str(question.engine.zero),
        sequence_parallel=bool(layouts.sequence_parallel[0]),
        gradient_format=question.gradient_format,
        dispatcher=question.dispatcher if question.architecture.has_experts else None,
        dispatch_format=question.dispatch_format if question.architecture.has_experts else None,
        moment_format=question.moment_format,
        tensor_overlap=question.engine.tiled_tensor_overlap if inputs.tp > 1 else None,
    )


def evidence_of(question: TrainingQuestion, steps: TrainingSteps) -> Evidence:
    """Return what the answer of the first candidate rests on.

    Args:
        question: The candidates.
        steps: Their steps.
    """
    shape = int(steps.costs.index_C[0])
    costs = step_costs_of(question, steps)
    matches = used_matches(costs, shape)
    system, engine = question.systems[0], question.engine
    notes = dict.fromkeys(note for match in matches for note in match.notes)
    tier = tier_of(costs, shape)
    assumed = [FLOP_CONVENTION]
    if question.tier == "bound":
        assumed.append(LOWER_LIMIT)
    else:
        assumed += [INTERVAL, *_wider(question), f"{engine.id}: {engine.fit}"]
    if question.formats.gemm in PRICED_AS:
        other = PRICED_AS[question.formats.gemm]
        assumed.append(f"{question.formats.gemm} has no measured kernels; priced as {other}")
    assumed += power_notes(question, steps)
    paired = question.schedule == "dualpipe" or question.expert_overlap
    if paired and question.architecture.has_experts:
        assumed.append(PAIRS.format(sms=engine.dispatcher_sms))
    if question.architecture.has_experts:
        assumed.append(f"expert load: {question.distribution}")
    recipe = engine.recipe_of(question.architecture)
    settings = (engine.source, recipe.source) if recipe else (engine.source,)
    return Evidence(
        tier=tier,
        calibrations=calibration_rows(matches),
        data_versions={"engine": engine.id} | match_versions(matches),
        assumptions=(*notes, *system.notes, *assumed),
        sources=(*cited_sources(system), *settings, *board_energy(system.device).sources),
    )


def _wider(question: TrainingQuestion) -> tuple[str, ...]:
    """Return what widens the interval on a generation without runs, empty where it has some."""
    moe = question.architecture.has_experts
    architecture = question.systems[0].device.architecture
    factor = question.engine.widening(architecture, moe=moe)
    if factor == 1.0:
        return ()
    kind = "MoE" if moe else "dense"
    engine = question.engine.id
    return (WIDER.format(kind=kind, architecture=architecture, engine=engine, factor=factor),)
