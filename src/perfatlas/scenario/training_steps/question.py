"""Questions of `train`: reading, checks and layouts.

Shape legend: C candidates.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.hardware import is_pod, resolve_system, slice_of_pod
from perfatlas.networks import ModelFormats, is_graph, resolve_model
from perfatlas.quantities import InvalidSpecError, refuse_broken
from perfatlas.scenario.fields import number_columns, refuse_unused, system_engine
from perfatlas.scenario.training_steps import rules
from perfatlas.scenario.training_steps.recipe import (
    TrainInputs,
    recipe_of,
    schedule_of,
    training_format,
)
from perfatlas.training import profiles
from perfatlas.training.layouts import RECOMPUTE_LEVELS, Layouts
from perfatlas.training.step import TrainingQuestion
from perfatlas.vocabulary.fields import Missing, UnevenStages, fields_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.hardware import System
    from perfatlas.networks import Network
    from perfatlas.operators import IntArray
    from perfatlas.scenario.fields import InputFields

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
    refuse_broken(rules.SINGLE, _trained(inputs, data_parallel(inputs)))
    return inputs


def _trained(inputs: TrainInputs, dp: int) -> rules.Trained:
    """Return what rules of a training step read."""
    engine = profiles.resolve_training_engine(inputs.engine)
    return rules.Trained(inputs=inputs, layouts=_layouts([inputs], [dp], engine), engine=engine)


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
    graph = is_graph(fields.get("model"))
    if graph:
        engine = fields.get("engine") or system_engine(fields["model"], fields.get("system"))
        fields = {**fields, "engine": engine}
    inputs = TrainInputs.read(fields)
    if "engine" not in inputs.fields_set:
        inputs = inputs.changed(engine=_default_engine(inputs))
    if graph:
        refuse_broken(rules.GRAPHS, _trained(inputs, inputs.dp or 1))
        inputs = inputs.changed(sequence_length=1)
    check_experts(inputs)
    refuse_broken(rules.RECIPES, _trained(inputs, inputs.dp or 1))
    return inputs


def check_experts(inputs: InputFields) -> None:
    """Refuse fields of experts where the model is dense, or a graph of operators."""
    model = inputs.values["model"]
    network = resolve_model(model).network

    def experts() -> Missing | None:
        if network.has_experts:
            return None
        if network.item:
            why = f"it applies to MoE layers, and {model} is a graph of operators"
            return Missing(why, "train a MoE model")
        return Missing(f"{model} is dense", "use a MoE model")

    def graph() -> Missing | None:
        why = f"{model} is a language model"
        return None if network.item else Missing(why, "train a graph of operators")

    divided = (lambda: None) if network.divides_weights else experts
    facts = {"experts": experts, "experts or tables": divided, "graph": graph}
    refuse_unused(inputs.values, fields_of(type(inputs)), facts)


def _default_engine(inputs: TrainInputs) -> str:
    """Return the engine that trains on a system where none is named: Megatron where it runs."""
    device = resolve_system(inputs.system).device
    if rules.runs_on(profiles.resolve_training_engine(inputs.engine), device):
        return inputs.engine
    return rules.engines_on(resolve_model(inputs.model).network, device)[0]


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


def _layouts(
    inputs: Sequence[TrainInputs], dp: Sequence[int], engine: profiles.TrainingEngine
) -> Layouts:
    """Return the layouts of questions, with their data-parallel ranks."""
    zeros = [train_inputs.zero or str(engine.zero) for train_inputs in inputs]
    levels = [RECOMPUTE_LEVELS.index(train_inputs.recompute) for train_inputs in inputs]
    parallel = [
        train_inputs.tp > 1 if train_inputs.sequence_parallel is None else own
        for train_inputs in inputs
        for own in (train_inputs.sequence_parallel,)
    ]
    return Layouts(
        **number_columns(inputs, SIZES),
        dp=np.array(dp, np.float64),
        zero=np.array([ZERO[zero] for zero in zeros], np.int64),
        sequence_parallel=np.array(parallel, np.bool_),
        recompute=np.array(levels, np.int64),
    )


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
    network = trained_network(first.model, engine)
    name = training_format(first.format)
    systems, index_C = _on_slices(inputs)
    return TrainingQuestion(
        network=network,
        engine=engine,
        formats=ModelFormats(gemm=name, moe=name, kv="bf16", attention="bf16"),
        tier=first.tier,
        systems=systems,
        index_C=index_C,
        layouts=_layouts(inputs, [data_parallel(train_inputs) for train_inputs in inputs], engine),
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


def trained_network(name: str, engine: profiles.TrainingEngine) -> Network:
    """Return what a training step runs of a network, with the fusions of the engine."""
    network = resolve_model(name).network
    if not network.item:
        return network.trained()
    from perfatlas.engines import resolve_engine  # language models train without them
    from perfatlas.step import fused_kinds

    return network.trained(fused_kinds(resolve_engine(engine.graph_engine), trains=True))
