"""Questions of `train`: reading, checks and layouts.

Shape legend: C candidates.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from perfatlas.formats import get_format
from perfatlas.hardware import is_pod, resolve_system, slice_of_pod
from perfatlas.networks import ModelFormats, is_graph, resolve_model
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.scenario.fields import number_columns, refuse_unused
from perfatlas.scenario.training_steps import graphs
from perfatlas.scenario.training_steps.inputs import TrainInputs
from perfatlas.scenario.training_steps.power import check_power_cap
from perfatlas.scenario.training_steps.recipe import check_recipe, check_recipe_layout, recipe_of
from perfatlas.training import profiles
from perfatlas.training.layouts import RECOMPUTE_LEVELS, Layouts
from perfatlas.training.step import TRAINED_FORMATS, TrainingQuestion
from perfatlas.vocabulary.fields import Missing, UnevenStages, fields_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.hardware import Device, System
    from perfatlas.operators import IntArray

# current scaling per tensor, the default recipe of Megatron-Bridge and of torchtitan's float8
FP8_DEFAULT: Final = "fp8_dynamic"
# fields that are columns of the candidates, beside those from which data-parallel ranks follow
SIZES: Final = (
    *("tp", "pp", "cp", "ep", "expert_tp", "vpp"),
    *("sequence_length", "global_batch", "micro_batch"),
)
RANKS: Final = ("gpus", "dp")
ZERO: Final[Mapping[str, int]] = {"0": 0, "1": 1, "2": 2, "3": 3, "fsdp2": 3}


def read_training(fields: Mapping[str, Any]) -> TrainInputs:
    """Return the training step of named fields.

    Args:
        fields: The fields as given; None means "not given".

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another, or
            has no effect.
    """
    inputs = read_without_layout(fields)
    inputs = _with_recipe(_with_micro_batch(inputs))
    _check_expert_overlap(inputs)
    check_recipe_layout(inputs, schedule_of(inputs), data_parallel(inputs))
    return inputs


def _with_micro_batch(inputs: TrainInputs) -> TrainInputs:
    """Return a training step of a graph with all items of a rank in one pass, unless given."""
    ranks = data_parallel(inputs)
    given = "micro_batch" in inputs.fields_set or inputs.global_batch % ranks
    if given or not is_graph(inputs.model):
        return inputs
    return inputs.changed(micro_batch=inputs.global_batch // ranks)


def _with_recipe(inputs: TrainInputs) -> TrainInputs:
    """Return a training step with the chunks per stage of the engine's recipes, unless given."""
    if inputs.vpp is not None:
        return inputs
    uneven = any(getattr(inputs, name) is not None for name in UnevenStages.__annotations__)
    chunks = 1
    if not uneven and inputs.pipeline_schedule in (None, "interleaved"):
        chunks = profiles.resolve_training_engine(inputs.engine).default_chunks(
            resolve_model(inputs.model).network,
            inputs.pp,
            inputs.global_batch / (data_parallel(inputs) * inputs.micro_batch),
        )
    return inputs.changed(vpp=chunks)


def read_without_layout(fields: Mapping[str, Any]) -> TrainInputs:
    """Return the training step of named fields, of which parallel sizes are not checked.

    Args:
        fields: The fields as given; None means "not given".

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another, or
            has no effect.
        UnsupportedError: There is no data for the format or the tier.
    """
    inputs = graphs.read_graph_training(fields) if is_graph(fields.get("model")) else _read(fields)
    check_experts(inputs)
    check_power_cap(inputs)
    if inputs.tier == "measured":
        raise UnsupportedError(
            "tier = measured is not supported by train: gradients have no measured rows; use auto"
        )
    _check_block_scaling(inputs)
    _check_release(inputs)
    check_recipe(inputs, training_format(inputs.format))
    return inputs


def _read(fields: Mapping[str, Any]) -> TrainInputs:
    inputs = TrainInputs.read(fields)
    if "engine" not in inputs.fields_set:
        inputs = inputs.changed(engine=_default_engine(inputs))
    graphs.check_engine(inputs)
    return inputs


class _NamesModel(Protocol):
    """Fields with a model."""

    model: str


def check_experts(inputs: _NamesModel) -> None:
    """Refuse fields of experts where the model is dense, or a graph of operators."""
    network = resolve_model(inputs.model).network

    def experts() -> Missing | None:
        if network.has_experts:
            return None
        if network.item:
            why = f"it applies to MoE layers, and {inputs.model} is a graph of operators"
            return Missing(why, "train a MoE model")
        return Missing(f"{inputs.model} is dense", "use a MoE model")

    def graph() -> Missing | None:
        why = f"{inputs.model} is a language model"
        return None if network.item else Missing(why, "train a graph of operators")

    divided = (lambda: None) if network.divides_weights else experts
    facts = {"experts": experts, "experts or tables": divided, "graph": graph}
    refuse_unused(vars(inputs), fields_of(type(inputs)), facts)


def _check_expert_overlap(inputs: TrainInputs) -> None:
    """Refuse pairs of passes where the schedule has none, or transfers that they could hide."""
    if not inputs.expert_overlap:
        return
    schedule = schedule_of(inputs)
    if inputs.ep * inputs.expert_tp == 1:
        raise InvalidSpecError("expert_overlap hides transfers between experts' ranks; set ep > 1")
    if schedule == "dualpipe":
        raise InvalidSpecError("pipeline_schedule = dualpipe overlaps experts; omit expert_overlap")
    if inputs.pp > 1 and schedule != "interleaved":
        raise InvalidSpecError(
            f"expert_overlap with pp = {inputs.pp} needs an interleaved schedule, not {schedule};"
            " set vpp > 1"
        )


def _check_block_scaling(inputs: TrainInputs) -> None:
    """Refuse MXFP8 where tensor cores do not scale blocks; those with FP4 do."""
    device = resolve_system(inputs.system).device
    if training_format(inputs.format) == "mxfp8" and "fp4" not in device.peak_flop_per_s:
        raise UnsupportedError(
            f"format = mxfp8 needs tensor cores that scale blocks of 32 elements, and"
            f" {inputs.system} has none; use format = bf16, or fp8 where it is supported"
        )


def _check_release(inputs: TrainInputs) -> None:
    """Refuse formats, models, sharding and packed sequences that a release did not run."""
    engine = profiles.resolve_training_engine(inputs.engine)
    _check_kind(inputs, engine)
    name = training_format(inputs.format)
    if engine.formats and name not in engine.formats:
        raise UnsupportedError(
            f"format = {name} is not supported by engine = {engine.id}, which runs"
            f" {', '.join(engine.formats)}; use a later release, such as engine = {engine.name}"
        )
    for size in (name for name in profiles.PARALLEL_SIZES if name not in engine.parallelism):
        if getattr(inputs, size) > 1:
            raise UnsupportedError(
                f"{size} = {getattr(inputs, size):,} is not supported by engine = {engine.id};"
                " leave it out, or use another engine, such as megatron or torchtitan"
            )
    network = resolve_model(inputs.model).network
    plain = all(layer.qkv_widths is not None for layer in network.layers)
    if not engine.fused_attention and not plain:
        raise UnsupportedError(
            f"engine = {engine.id} stores the scores of attention in memory, which is supported for"
            f" multi-head and grouped-query attention in all layers, and {inputs.model} has others;"
            f" use a release with fused attention, such as engine = {engine.name}"
        )
    if inputs.zero and ZERO[inputs.zero] > engine.most_zero:
        raise UnsupportedError(
            f"zero = {inputs.zero} is not supported by engine = {engine.id}, which shards up to"
            f" zero = {engine.most_zero}; use a later release, such as engine = {engine.name}"
        )
    if network.has_experts and not engine.experts:
        raise UnsupportedError(
            f"engine = {engine.id} is supported for dense models only, and {inputs.model} has"
            f" experts; use a later release, such as engine = {engine.name}"
        )
    if inputs.packed_length and not engine.fused_attention:
        raise UnsupportedError(
            f"packed_length = {inputs.packed_length:,} needs fused attention that skips other"
            f" documents: engine = {engine.id} computes the scores of whole sequences; leave it out"
            " or use a later release"
        )


def _check_kind(inputs: TrainInputs, engine: profiles.TrainingEngine) -> None:
    """Refuse an engine that does not run on a kind of machine."""
    device = resolve_system(inputs.system).device
    if _runs_on(engine, device):
        return
    named = ", ".join(_engines_on(inputs, device))
    if device.kind in engine.kinds:
        raise UnsupportedError(
            f"{engine.name} runs on devices of {', '.join(engine.vendors)}, and {device.name} is of"
            f" {device.vendor}; set engine = {named}"
        )
    raise UnsupportedError(
        f"{engine.name} does not run on {device.name}, a device of kind {device.kind}; set engine ="
        f" {named}"
    )


def _engines_on(inputs: TrainInputs, device: Device) -> tuple[str, ...]:
    """Return the engines that train a network on a device, first those made for its kind."""
    network = resolve_model(inputs.model).network
    found = [
        engine
        for engine in profiles.training_engines().values()
        if engine.trains(network) and _runs_on(engine, device)
    ]
    found.sort(key=lambda engine: not engine.kinds)
    return tuple(dict.fromkeys(engine.name for engine in found))


def _default_engine(inputs: TrainInputs) -> str:
    """Return the engine that trains on a system where none is named: Megatron where it runs."""
    device = resolve_system(inputs.system).device
    if _runs_on(profiles.resolve_training_engine(inputs.engine), device):
        return inputs.engine
    return _engines_on(inputs, device)[0]


def _runs_on(engine: profiles.TrainingEngine, device: Device) -> bool:
    """Return whether an engine runs on a device."""
    kinds, vendors = engine.kinds or (device.kind,), engine.vendors or (device.vendor,)
    return device.kind in kinds and device.vendor in vendors


def data_parallel(inputs: TrainInputs) -> int:
    """Return the data-parallel size, given or derived from the GPUs.

    Raises:
        InvalidSpecError: The sizes do not multiply to the GPUs.
    """
    replica = inputs.tp * inputs.pp * inputs.cp
    if inputs.gpus is None:
        return inputs.dp or 1
    words = f"tp x pp x cp = {inputs.tp} x {inputs.pp} x {inputs.cp} = {replica:,}"
    if inputs.gpus % replica:
        nearest = max(round(inputs.gpus / replica), 1) * replica
        raise InvalidSpecError(
            f"gpus = {inputs.gpus:,} must be a multiple of {words}; the nearest is gpus ="
            f" {nearest:,}"
        )
    if inputs.dp not in (None, inputs.gpus // replica):
        raise InvalidSpecError(
            f"gpus = {inputs.gpus:,} must be {words} times dp = {inputs.dp:,}; leave out gpus or dp"
        )
    return inputs.gpus // replica


def _on_slices(inputs: Sequence[TrainInputs]) -> tuple[tuple[System, ...], IntArray]:
    """Return the distinct systems, of pods the slices that jobs take, and that of each (C,)."""
    placed = []
    for train_inputs in inputs:
        pod = is_pod(resolve_system(train_inputs.system))
        placed.append(
            (
                train_inputs.system,
                train_inputs.tp * train_inputs.pp * train_inputs.cp * data_parallel(train_inputs)
                if pod
                else 0,
            )
        )
    distinct = list(dict.fromkeys(placed))
    systems = tuple(slice_of_pod(resolve_system(name), chips) for name, chips in distinct)
    return systems, np.array([distinct.index(pair) for pair in placed], np.int64)


def schedule_of(inputs: TrainInputs) -> str:
    """Return the pipeline schedule, given or derived from the chunks."""
    return inputs.pipeline_schedule or ("interleaved" if (inputs.vpp or 1) > 1 else "1f1b")


def training_format(text: str) -> str:
    """Return the name of a number format of training."""
    name = get_format(FP8_DEFAULT if text.strip().casefold() == "fp8" else text).name
    if name not in TRAINED_FORMATS:
        raise UnsupportedError(
            f"format = {name} is not supported by train; use {', '.join(TRAINED_FORMATS)}"
        )
    return name


def question_of(inputs: Sequence[TrainInputs]) -> TrainingQuestion:
    """Return the candidates of questions of one schedule that differ in sizes and GPUs alone.

    Args:
        inputs: The questions (C,).

    Raises:
        InvalidSpecError: A name is unknown.
        UnsupportedError: The format is not supported.
    """
    first = inputs[0]
    engine = profiles.resolve_training_engine(first.engine)
    if first.tensor_overlap is not None:
        engine = replace(engine, tiled_tensor_overlap=first.tensor_overlap)
    if first.tier == "bound":
        engine = profiles.lower_limit_of(engine)
    network = graphs.trained_network(first.model, engine)
    name = training_format(first.format)
    systems, index_C = _on_slices(inputs)
    parallel = [train_inputs.sequence_parallel for train_inputs in inputs]
    return TrainingQuestion(
        network=network,
        engine=engine,
        formats=ModelFormats(gemm=name, moe=name, kv="bf16", attention="bf16"),
        tier=first.tier,
        systems=systems,
        index_C=index_C,
        layouts=Layouts(
            **number_columns(inputs, SIZES),
            dp=np.array([data_parallel(train_inputs) for train_inputs in inputs], np.float64),
            zero=np.array(
                [ZERO[train_inputs.zero or str(engine.zero)] for train_inputs in inputs], np.int64
            ),
            sequence_parallel=np.array(
                [
                    train_inputs.tp > 1 if own is None else own
                    for train_inputs, own in zip(inputs, parallel, strict=True)
                ]
            ),
            recompute=np.array(
                [RECOMPUTE_LEVELS.index(train_inputs.recompute) for train_inputs in inputs],
                np.int64,
            ),
        ),
        schedule=schedule_of(first),
        optimizer=first.optimizer,
        gradient_format=first.gradient_format or engine.default_gradient_format(network),
        distribution=first.expert_distribution,
        expert_overlap=first.expert_overlap,
        dispatcher=first.dispatcher or engine.dispatcher,
        cuda_graphs=first.cuda_graphs,
        fused_experts=first.fused_experts,
        dispatch_format=first.dispatch_format or engine.dispatch_format,
        recipe=recipe_of(first),
        clock_ratio=first.clock_ratio,
        power_cap_w=math.inf if first.power_cap_w is None else first.power_cap_w,
    )
