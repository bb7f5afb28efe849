"""What the answer of a training step rests on: its calibrations, assumptions and sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.answer import Evidence, calibration_rows, match_versions, tier_of, used_matches
from perfatlas.energy import board_energy
from perfatlas.hardware import cited_sources
from perfatlas.scenario.training_steps.breakdown import step_costs_of
from perfatlas.scenario.training_steps.power import power_notes
from perfatlas.training.step import FLOP_CONVENTION, PRICED_AS

if TYPE_CHECKING:
    from perfatlas.training.step import TrainingQuestion, TrainingSteps

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
HYBRID: Final = (
    "dense models with recurrent layers are in no fit of {engine}: the interval is that of MoE"
    " models, among which fitted models with recurrent layers are"
)
PAIRS: Final = (
    "pairs of a forward and a backward pass hide transfers of experts in the order of"
    " arXiv 2412.19437; the kernels that move tokens take {sms} SMs and memory bandwidth from the"
    " computation beside them"
)
LOWER_LIMIT: Final = (
    "kernels and collectives run at their lower limits; no efficiency of the engine, no SMs for"
    " collectives, no host time and no jitter are counted"
)


def evidence_of(question: TrainingQuestion, steps: TrainingSteps) -> Evidence:
    """Return what the answer of the first candidate rests on."""
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
        assumed += [*_hybrid(question), INTERVAL, *_wider(question), f"{engine.id}: {engine.fit}"]
    if question.formats.gemm in PRICED_AS:
        other = PRICED_AS[question.formats.gemm]
        assumed.append(f"{question.formats.gemm} has no measured kernels; priced as {other}")
    assumed += power_notes(question, steps)
    paired = question.schedule == "dualpipe" or question.expert_overlap
    if paired and question.network.has_experts:
        assumed.append(PAIRS.format(sms=engine.dispatcher_sms))
    if question.network.has_experts:
        assumed.append(f"expert load: {question.distribution}")
    recipe = engine.recipe_of(question.network)
    settings = (engine.source, recipe.source) if recipe else (engine.source,)
    return Evidence(
        tier=tier,
        calibrations=calibration_rows(matches),
        data_versions={"engine": engine.id} | match_versions(matches),
        assumptions=(*notes, *system.notes, *assumed),
        sources=(*cited_sources(system), *settings, *board_energy(system.device).sources),
    )


def _hybrid(question: TrainingQuestion) -> tuple[str, ...]:
    """Return whose interval a dense model with recurrent layers has, empty for other models."""
    if question.network.has_experts or not question.has_interval_of_moe:
        return ()
    return (HYBRID.format(engine=question.engine.id),)


def _wider(question: TrainingQuestion) -> tuple[str, ...]:
    """Return what widens the interval on a generation without runs, empty where it has some."""
    moe = question.has_interval_of_moe
    architecture = question.systems[0].device.architecture
    factor = question.engine.widening(architecture, moe=moe)
    if factor == 1.0:
        return ()
    kind = "MoE" if moe else "dense"
    engine = question.engine.id
    return (WIDER.format(kind=kind, architecture=architecture, engine=engine, factor=factor),)
