"""The recipe of a training step, from its fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.models import GqaAttention, MlaAttention, resolve_model
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.training.recipe import Recipe

if TYPE_CHECKING:
    from perfatlas.verbs.train.inputs import TrainInputs

FP8_FORMATS: Final = ("fp8_static", "fp8_dynamic", "fp8_block", "mxfp8")
V_SHAPED: Final = ("zb_v",)


def recipe_of(inputs: TrainInputs) -> Recipe:
    """Return the recipe of a training step.

    Args:
        inputs: The fields.
    """
    modules = inputs.recompute_modules
    return Recipe(
        lora_rank=inputs.lora_rank or 0,
        lora_targets=inputs.lora_targets,
        recompute_modules=tuple(modules.split(",")) if modules else (),
        mtp_depth=inputs.mtp_depth,
        first_stage_layers=inputs.first_stage_layers or 0,
        last_stage_layers=inputs.last_stage_layers or 0,
        moment_format=inputs.moment_format or "",
        fp8_parameter_gather=inputs.fp8_parameter_gather,
        sharding_replicas=inputs.sharding_replicas,
        activation_offload=inputs.activation_offload or 0.0,
        optimizer_offload=inputs.optimizer_offload or 0.0,
        offload_bandwidth=inputs.offload_bandwidth or 0.0,
        packed_length=inputs.packed_length or 0,
    )


def check_recipe(inputs: TrainInputs, format_name: str, schedule: str, dp: int) -> None:
    """Refuse recipes that contradict each other, the model or the layout.

    Args:
        inputs: The fields.
        format_name: Number format of matrix products.
        schedule: Pipeline schedule.
        dp: Data-parallel size.

    Raises:
        InvalidSpecError: Two fields contradict each other, or a size does not divide.
        UnsupportedError: The model has no layer that can predict further tokens.
    """
    if inputs.fp8_parameter_gather and format_name not in FP8_FORMATS:
        raise InvalidSpecError(
            f"fp8_parameter_gather needs an FP8 format of matrix products; format = {format_name};"
            f" use {', '.join(FP8_FORMATS)}"
        )
    if inputs.optimizer_offload and inputs.offload_bandwidth is None:
        raise InvalidSpecError(
            "optimizer_offload needs offload_bandwidth, the rate at which the host reads and writes"
            " the states of a GPU: the memory bandwidth of a node over its GPUs (16 channels of"
            " DDR5-4800 over 8 GPUs: 77GB/s), or that of its NVMe"
        )
    if inputs.packed_length is not None and inputs.packed_length > inputs.sequence_length:
        raise InvalidSpecError(
            f"packed_length = {inputs.packed_length:,} must be at most sequence_length ="
            f" {inputs.sequence_length:,}"
        )
    if inputs.tensor_overlap and inputs.tp == 1:
        raise InvalidSpecError("tensor_overlap hides transfers of tensor parallelism; set tp > 1")
    _check_replicas(inputs, dp)
    _check_mtp(inputs)
    _check_stages(inputs, schedule)


def _check_replicas(inputs: TrainInputs, dp: int) -> None:
    """Refuse groups of shards that do not divide the data-parallel ranks."""
    replicas, ranks = inputs.sharding_replicas, dp * inputs.cp
    experts = ranks * inputs.tp // (inputs.ep * inputs.expert_tp)
    for count, what in ((ranks, "dp x cp"), (experts, "dp of experts")):
        if count % replicas:
            raise InvalidSpecError(
                f"sharding_replicas = {replicas:,} must divide the {count:,} ranks of {what}"
            )
    if replicas > 1 and inputs.zero == "0":
        raise InvalidSpecError(
            "sharding_replicas applies to shards, and zero = 0 has none; set zero = 1 or more"
        )


def _check_mtp(inputs: TrainInputs) -> None:
    """Refuse multi-token prediction of models whose last layers have no attention."""
    if not inputs.mtp_depth:
        return
    layers = resolve_model(inputs.model).architecture.layers
    attends = all(isinstance(one.mixer, GqaAttention | MlaAttention) for one in layers)
    if not attends or layers[-1].ffn is None:
        raise UnsupportedError(
            f"mtp_depth is not supported for {inputs.model}: its layers differ in kind, and the one"
            " that predicts further tokens is not known; leave mtp_depth out"
        )


def _check_stages(inputs: TrainInputs, schedule: str) -> None:
    """Refuse uneven stages that leave other ranks without layers, or chunks without equal parts."""
    given = {
        name: value
        for name in ("first_stage_layers", "last_stage_layers")
        if (value := getattr(inputs, name)) is not None
    }
    if not given:
        return
    names = " and ".join(given)
    if inputs.pp == 1 or schedule in V_SHAPED:
        why = "pp = 1" if inputs.pp == 1 else f"pipeline_schedule = {schedule}"
        raise InvalidSpecError(
            f"{names} needs a pipeline whose first and last rank hold different stages; {why}"
        )
    for name, value in given.items():
        if value % inputs.vpp:
            raise InvalidSpecError(f"{name} = {value} must be a multiple of vpp = {inputs.vpp}")
    layers = resolve_model(inputs.model).architecture.num_layers
    others = inputs.pp - len(given)
    rest = layers - sum(given.values())
    if rest < others * inputs.vpp or (others == 0 and rest):
        raise InvalidSpecError(
            f"{names} leave {rest} of {layers} layers to the {others} other ranks, which need"
            f" {'at least ' if others else ''}{others * inputs.vpp}"
        )
