"""What the answer of a training step rests on, and what to know before relying on it.

Shape legend: C candidates.
"""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.answer import Evidence, calibration_rows, match_versions, tier_of, used_matches
from perfatlas.energy import board_energy
from perfatlas.hardware import cited_sources
from perfatlas.scenario.fields import unused_warnings
from perfatlas.scenario.training_steps.breakdown import step_costs_of
from perfatlas.scenario.training_steps.power import power_notes, power_remarks
from perfatlas.scenario.training_steps.recipe import DECODED_PER_S
from perfatlas.step import SharedSteps
from perfatlas.training.profiles import highest_mfu
from perfatlas.training.step import FLOP_CONVENTION, PRICED_AS, scale_error
from perfatlas.vocabulary.fields import fields_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.scenario.training_steps.recipe import TrainInputs
    from perfatlas.training.step import TrainingQuestion, TrainingSteps


INTERVAL: Final = (
    "the 90% interval is that of models to which the engine is not fitted, from the spread of the"
    " published runs between and within models (MoE: sources), or,"
    " for an engine that is not fitted, of kernels on inference shapes, assumed fully correlated,"
    " and ends where all FLOP run at the peak;"
    " kernels of gradients are priced as forward kernels of the transposed shape"
)
WIDER: Final = (
    "no published run of {kind} models on {architecture} is among the fitted ones of {engine}: both"
    " ends of the interval are wider by a factor of {factor:g}, the drift of releases"
)
HYBRID: Final = (
    "dense models with recurrent layers are in no fit of {engine}: the interval is the wider one of"
    " MoE models"
)
OF_MOE: Final = (
    "MoE training steps differ between sources by more than is modeled (dispatcher, launches,"
    " expert load): the 90% interval spans sources that no fit has seen, and the drift of releases"
    " where no fit has the GPU generation, {low:.2f} to {high:.2f} times the predicted time"
)
OF_GRAPHS: Final = (
    "dropout and the loss are left out; operators that read one"
    " tensor keep it each; of a pipeline, one pass of its denoiser is trained, on latents and"
    " embeddings that are computed before"
)
NO_INPUT: Final = "the input pipeline of the host is left out; input_cores counts it"
OF_DECODING: Final = (
    "a core of the host decodes {likely:g} images a second ({least:g} to {most:g}), as torchvision"
    " those of ImageNet (arXiv 2605.08731v2); other sizes and augmentation are not counted:"
    " input_rate states what a core was measured to do"
)
OF_SCALE: Final = (
    "no fit of {engine} has a job of more than {gpus:,} GPUs: failing GPUs and network contention"
    " of larger jobs are not modeled, and the slow end of the interval is wider by a factor of"
    " {factor:.2f}"
)
OF_TABLES: Final = (
    "embedding tables are in 32 bits, and the backward kernel updates the rows that were looked"
    " up, by row-wise Adagrad; sorting of ids is left out, and nothing overlaps with exchanges"
)
OF_RECOMMENDER: Final = (
    "published steps of DLRM-DCNv2 are predicted 12% off in the median on B200 with the fastest"
    " plan of tables, on PCIe from 168% too fast (4 H100) to 27% too slow"
    " (python -m validation networks)"
)
# What measured steps are off (validation/pages/networks.md): errors of the speed of networks, and
# memory of tensors over the measured one.
OF_EAGER: Final = (
    "speeds of measured eager steps that the GPU limits are 16.5% (H100) and 7.4% (H200) off in"
    " the median of networks (python -m validation networks)"
)
OF_COMPILED: Final = (
    "speeds of compiled steps measured on H100 are 9.2% off in the median of 4 networks;"
    " ResNet-50 takes 46 to 66% longer (python -m validation networks)"
)
OF_TPUS: Final = (
    "training steps of graphs on TPUs are compared with no measurement; kernels have the speed of"
    " published steps of language models"
)
OF_OTHERS: Final = (
    "rates of eager kernels are those of Hopper per SM and clock, which no step on {architecture}"
    " has set: published steps on RTX 3090 are 19.7% off in the median, ResNets up to 34% too slow,"
    " and 72.2% are inside the 90% interval (python -m validation networks)"
)
OF_MEMORY: Final = (
    "tensors are predicted to take 1.07 times the measured memory in the median, 0.76 (T5) to 1.30"
    " times (PixArt)"
)
OF_HOST: Final = (
    "the step may wait for the host, which runs {kernels:,.0f} operators in {us:g} us each,"
    " {low:g} to {high:g} in the interval: measure on your own host"
)
TPU: Final = "tpu"
MEASURED: Final = "hopper"  # architecture of the GPUs whose eager kernels set rates
PAIRS: Final = (
    "pairs of a forward and a backward pass hide transfers of experts in the order of"
    " arXiv 2412.19437; the kernels that move tokens take {sms} SMs and memory bandwidth from the"
    " computation beside them"
)
LOWER_LIMIT: Final = (
    "kernels and collectives run at their lower limits, embedding tables are divided evenly; no"
    " efficiency of the engine, no SMs for collectives, no host time and no jitter are counted"
)


def evidence_of(question: TrainingQuestion, steps: TrainingSteps) -> Evidence:
    """Return what the answer of the first candidate rests on."""
    shape = int(steps.costs.index_C[0])
    costs = step_costs_of(question, steps)
    matches = used_matches(costs, shape)
    system, engine = question.systems[0], question.engine
    notes = dict.fromkeys(note for match in matches for note in match.notes)
    tier = tier_of([SharedSteps(cost, steps.costs.index_C[:1]) for cost in costs])
    if question.network.item:
        assumed = [OF_GRAPHS, *_of_input(question), OF_MEMORY]
    else:
        assumed = [FLOP_CONVENTION]
    assumed += [OF_TABLES] if question.network.tables else []
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


def _of_input(question: TrainingQuestion) -> tuple[str, ...]:
    """Return that the input of a graph is not priced, empty where it is."""
    return (NO_INPUT,) if math.isinf(question.recipe.input_rates[0]) else ()


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


ABOVE_MEASURED: Final = (
    "MFU {mfu:.1%} is above the highest published, {highest:.1%} ({kind}, {format}, {device}:"
    " {run}; {source})"
)

UPPER_MEMORY: Final = (
    "memory is an upper estimate, and exceeds that of the device: what the compiler frees inside a"
    " layer is not known, so the step may still fit"
)


def training_warnings(
    inputs: Sequence[TrainInputs], question: TrainingQuestion, steps: TrainingSteps
) -> list[tuple[str, ...]]:
    """Return what to know before relying on a step, for each candidate (C)."""
    above, power = above_measured(question, steps), power_remarks(inputs, question, steps)
    unused = [
        unused_warnings(vars(train_inputs), fields_of(type(train_inputs)))
        for train_inputs in inputs
    ]
    graph, moe = _of_graphs(question, steps), _of_moe(question, steps)
    memory = [() if fits else (UPPER_MEMORY,) for fits in steps.memory.fits]
    least, _, most = question.recipe.input_rates
    decoded_C = (steps.waterfall["input"] > 0.0) & (least < most)
    text = OF_DECODING.format(**dict(zip(("least", "likely", "most"), DECODED_PER_S, strict=True)))
    decoding = [(text,) if decoded else () for decoded in decoded_C]
    own = [question.network.warnings] * len(question.index_C)
    notes = (own, above, moe, _of_scale(question), power, unused, memory, decoding, graph)
    return [tuple(chain(*of_each)) for of_each in zip(*notes, strict=True)]


def _of_moe(question: TrainingQuestion, steps: TrainingSteps) -> list[tuple[str, ...]]:
    """Return the spread of MoE steps between sources, where steps have an upper end (C)."""
    said: list[tuple[str, ...]] = []
    for index, most_s in zip(question.index_C, steps.high_s_C, strict=True):
        architecture = question.systems[index].device.architecture
        low, high = question.engine.errors(architecture, moe=True)
        applies = question.network.has_experts and math.isfinite(most_s) and low < high
        text = OF_MOE.format(low=math.exp(low), high=math.exp(high))
        said.append((text,) if applies and architecture != TPU else ())
    return said


def _of_scale(question: TrainingQuestion) -> list[tuple[str, ...]]:
    """Return what is unknown of jobs beyond the largest fitted one (C)."""
    if question.tier == "bound":
        return [()] * question.layouts.size
    named = {"engine": question.engine.id, "gpus": question.engine.largest_fitted_gpus}
    return [
        (OF_SCALE.format(factor=math.exp(error), **named),) if error else ()
        for error in scale_error(question)
    ]


def _of_graphs(question: TrainingQuestion, steps: TrainingSteps) -> list[tuple[str, ...]]:
    """Return how far steps of graphs are off, and whether they may wait for the host (C)."""
    if question.graph is None or question.tier == "bound":
        return [()] * question.layouts.size
    compiled = bool(question.graph.fusions)
    host = question.graph.host
    each_us, factor = host.per_operator_prefill_s * 1e6, host.host_factor
    limits = {"us": each_us, "low": each_us / factor, "high": each_us * factor}
    count_U = np.sum([row.operator.count for row in steps.costs.rows], axis=0)
    batches_C = question.layouts.micro_batches
    count_C = (count_U * question.network.num_layers)[steps.costs.index_C]
    waits_C = factor * each_us * 1e-6 * count_C * batches_C > steps.waterfall["compute"]
    waiting = [
        (OF_HOST.format(kernels=count, **limits),) if waits else ()
        for waits, count in zip(waits_C, count_C, strict=True)
    ]
    architectures = (question.systems[index].device.architecture for index in question.index_C)
    tables = (OF_RECOMMENDER,) if question.network.tables else ()
    return [
        (*tables, *_of_kernels(architecture, compiled=compiled), *waits)
        for architecture, waits in zip(architectures, waiting, strict=True)
    ]


def _of_kernels(architecture: str, *, compiled: bool) -> tuple[str, ...]:
    """Return how far measured steps are off that the GPU limits."""
    if architecture == TPU:
        return (OF_TPUS,)
    if compiled:
        return (OF_COMPILED,)
    if architecture == MEASURED:
        return (OF_EAGER,)
    return (OF_OTHERS.format(architecture=architecture),)


def above_measured(question: TrainingQuestion, steps: TrainingSteps) -> list[tuple[str, ...]]:
    """Return what to say of MFU above all published ones of the device, for each candidate (C)."""
    kind = "moe" if question.network.has_experts else "dense"
    peak_C = steps.step_s_C * question.layouts.gpus * steps.peak_flop_per_s_C
    pretrains = question.tier != "bound" and not question.recipe.lora_rank
    said: list[tuple[str, ...]] = []
    for mfu, index in zip(steps.model_flop_C / peak_C, question.index_C, strict=True):
        device = question.systems[index].device
        known = highest_mfu().get((device.name, kind, question.formats.gemm))
        if known is None or not pretrains or device.overridden or mfu <= known.mfu:
            said.append(())
            continue
        words = {"kind": "MoE" if kind == "moe" else kind, "format": question.formats.gemm}
        words |= {"device": device.name, "run": known.run, "source": known.source}
        said.append((ABOVE_MEASURED.format(mfu=mfu, highest=known.mfu, **words),))
    return said
