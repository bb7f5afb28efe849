"""The recipe of a training step, from its fields.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.networks import resolve_model
from perfatlas.quantities import InvalidSpecError, UnsupportedError, counted
from perfatlas.training.profiles import PARALLEL_SIZES, resolve_training_engine
from perfatlas.training.recipe import Recipe

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.scenario.fields import InputFields
    from perfatlas.scenario.training_steps.inputs import TrainInputs
    from perfatlas.training.layouts import Layouts

# JPEG images of ImageNet that one core decodes, without augmentation [images/s]: the slowest, the
# median and the fastest of Arm Neoverse N1, AMD EPYC 9B14 (621), Arm Neoverse V2, Intel Xeon 8581C
# (712) and AMD EPYC 9B45.
# Source: torchvision in arXiv 2605.08731v2 (CC BY 4.0): one thread, images in memory.
DECODED_PER_S: Final = (440.0, 643.0, 864.0)
FP8_FORMATS: Final = ("fp8_static", "fp8_dynamic", "fp8_block", "mxfp8")
V_SHAPED: Final = ("zb_v",)
# modules that layers of some models do not have
_SOME_LAYERS: Final = ("core_attn", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts")


def recipe_of(inputs: TrainInputs) -> Recipe:
    """Return the recipe of a training step."""
    modules = inputs.recompute_modules
    return Recipe(
        lora_rank=inputs.lora_rank or 0,
        lora_targets=inputs.lora_targets,
        recompute_modules=tuple(modules.split(",")) if modules else (),
        mtp_depth=inputs.mtp_depth,
        first_stage_layers=inputs.first_stage_layers or 0,
        last_stage_layers=inputs.last_stage_layers or 0,
        stage_layers=stages_of(inputs.stage_layers or ""),
        moment_format=inputs.moment_format or "",
        fp8_parameter_gather=inputs.fp8_parameter_gather,
        fused_weight_gradient=inputs.fused_weight_gradient,
        sharding_replicas=max(inputs.sharding_replicas, inputs.sites),
        sites=inputs.sites,
        site_bandwidth=inputs.site_bandwidth or 0.0,
        site_round_trip_s=inputs.site_round_trip_s or 0.0,
        activation_offload=inputs.activation_offload or 0.0,
        optimizer_offload=inputs.optimizer_offload or 0.0,
        offload_bandwidth=inputs.offload_bandwidth or 0.0,
        input_rates=_input_rates(inputs),
        cp_communication=inputs.cp_communication,
        packed_length=inputs.packed_length or 0,
    )


def _input_rates(inputs: TrainInputs) -> tuple[float, float, float]:
    """Return what the cores of a GPU decode: least, likely and most [items/s]."""
    if inputs.input_cores is None:
        return Recipe.input_rates
    network = resolve_model(inputs.model).network
    if inputs.input_rate is None and (network.item != "image" or network.denoising):
        raise InvalidSpecError(
            f"input_cores = {inputs.input_cores}: how fast a core prepares the items of"
            f" {inputs.model} is not known; set input_rate, the items per second of one core"
        )
    rates = DECODED_PER_S if inputs.input_rate is None else (inputs.input_rate,) * 3
    least, likely, most = (inputs.input_cores * rate for rate in rates)
    return least, likely, most


def stages_of(text: str) -> tuple[int, ...]:
    """Return the layers of each stage.

    Args:
        text: Layers separated by commas, with repetitions: 4x15,1.
    """
    found: list[int] = []
    for part in text.split(",") if text else ():
        layers, _, times = part.partition("x")
        found += [int(layers)] * int(times or 1)
    return tuple(found)


def check_recipe(inputs: TrainInputs, format_name: str) -> None:
    """Refuse recipes that contradict themselves or the model."""
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
    _check_sites(inputs)
    _check_modules(inputs)
    _check_mtp(inputs)


def check_recipe_layout(inputs: TrainInputs, schedule: str, dp: int) -> None:
    """Refuse recipes that contradict the layout."""
    if inputs.tensor_overlap and inputs.tp == 1:
        raise InvalidSpecError("tensor_overlap hides transfers of tensor parallelism; set tp > 1")
    if inputs.cp_communication != "ring" and inputs.cp == 1:
        raise InvalidSpecError(
            f"cp_communication = {inputs.cp_communication} applies to context-parallel ranks; set"
            " cp > 1"
        )
    if inputs.cp > 1 and not resolve_training_engine(inputs.engine).fused_attention:
        raise UnsupportedError(
            f"cp = {inputs.cp} needs fused attention, which engine = {inputs.engine} does not run;"
            " set cp = 1 or use a later release"
        )
    _check_replicas(inputs, dp)
    _check_stages(inputs, schedule)
    _check_every_stage(inputs)


def refused_by_recipe(inputs: InputFields, layouts: Layouts) -> NDArray[np.bool_]:
    """Return the layouts that `check_recipe_layout` refuses (C,), apart from uneven stages.

    Args:
        layouts: The layouts (C,).
    """
    given = vars(inputs)
    replicas = float(max(given["sharding_replicas"], given["sites"]))
    refused_C: NDArray[np.bool_] = np.mod(layouts.dp * layouts.cp, replicas) != 0
    refused_C |= np.mod(layouts.expert_dp, replicas) != 0
    refused_C |= np.mod(layouts.dp, given["sites"]) != 0
    if replicas > 1:
        refused_C |= layouts.zero == 0
    if given["tensor_overlap"]:
        refused_C |= layouts.tp == 1
    engine = resolve_training_engine(given["engine"])
    refused_C |= layouts.zero > engine.most_zero
    for name in set(PARALLEL_SIZES) - set(engine.parallelism):
        refused_C |= getattr(layouts, name) > 1
    if not engine.fused_attention:
        refused_C |= layouts.cp > 1
    if given["cp_communication"] != "ring":
        refused_C |= layouts.cp == 1
    return refused_C


def _check_modules(inputs: TrainInputs) -> None:
    """Refuse recomputed modules that the model does not have."""
    given = inputs.recompute_modules.split(",") if inputs.recompute_modules else []
    layers = resolve_model(inputs.model).network.layers
    held = {name for layer in layers for name in layer.modules}
    for name in given:
        if name in _SOME_LAYERS and name not in held:
            raise InvalidSpecError(
                f"recompute_modules = {inputs.recompute_modules}: {inputs.model} has no {name};"
                " leave it out"
            )


def _check_sites(inputs: TrainInputs) -> None:
    """Refuse sites without links, or whose shards leave them."""
    if inputs.sites == 1:
        return
    missing = [
        name for name in ("site_bandwidth", "site_round_trip_s") if getattr(inputs, name) is None
    ]
    if missing:
        raise InvalidSpecError(
            f"sites = {inputs.sites} needs {' and '.join(missing)} of the links between them, such"
            " as site_bandwidth = 100GB/s and site_round_trip_s = 10ms"
        )
    if inputs.sharding_replicas % inputs.sites and inputs.sharding_replicas > 1:
        raise InvalidSpecError(
            f"sharding_replicas = {inputs.sharding_replicas:,} must be a multiple of sites ="
            f" {inputs.sites}: shards stay inside a site"
        )


def _check_replicas(inputs: TrainInputs, dp: int) -> None:
    """Refuse groups of shards that do not divide the data-parallel ranks."""
    if dp % inputs.sites:
        raise InvalidSpecError(
            f"sites = {inputs.sites:,} must divide dp = {dp:,}: other parallelism stays in a site"
        )
    replicas, ranks = max(inputs.sharding_replicas, inputs.sites), dp * inputs.cp
    name = "sharding_replicas" if inputs.sharding_replicas > 1 else "sites"
    experts = ranks * inputs.tp // (inputs.ep * inputs.expert_tp)
    for count, what in ((ranks, "dp x cp"), (experts, "dp of experts")):
        if count % replicas:
            raise InvalidSpecError(
                f"{name} = {replicas:,} must divide the {count:,} ranks of {what}"
            )
    if replicas > 1 and inputs.zero == "0":
        raise InvalidSpecError(
            f"{name} applies to shards, and zero = 0 has none; set zero = 1 or more"
        )


def _check_mtp(inputs: TrainInputs) -> None:
    """Refuse multi-token prediction of models whose last layers have no attention."""
    if not inputs.mtp_depth:
        return
    layers = resolve_model(inputs.model).network.layers
    attends = all("core_attn" in layer.modules for layer in layers)
    if not attends or layers[-1].modules.isdisjoint(("mlp", "moe")):
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
    chunks = inputs.vpp or 1
    for name, value in given.items():
        if value % chunks:
            raise InvalidSpecError(f"{name} = {value} must be a multiple of vpp = {chunks}")
    layers = resolve_model(inputs.model).network.num_layers
    others = inputs.pp - len(given)
    rest = layers - sum(given.values())
    if rest < 0:
        held = " + ".join(f"{value:,}" for value in given.values())
        raise InvalidSpecError(f"{names} hold {held} layers, and the model has {layers}")
    if rest < others * chunks or (others == 0 and rest):
        raise InvalidSpecError(
            f"{names} leave {rest} of {layers} layers to {counted(others, 'other rank')}, which"
            f" need {'at least ' if others else ''}{others * chunks}"
        )


def _check_every_stage(inputs: TrainInputs) -> None:
    """Refuse layers of stages that are not those of the model and the pipeline."""
    if inputs.stage_layers is None:
        return
    if inputs.first_stage_layers or inputs.last_stage_layers:
        raise InvalidSpecError(
            "stage_layers has the layers of all stages; leave out first_stage_layers and"
            " last_stage_layers"
        )
    given = stages_of(inputs.stage_layers)
    layers = resolve_model(inputs.model).network.num_layers
    chunks = inputs.vpp or 1
    if len(given) != inputs.pp * chunks:
        raise InvalidSpecError(
            f"stage_layers = {inputs.stage_layers} has {counted(len(given), 'stage')}, and pp x vpp"
            f" = {inputs.pp} x {chunks} = {inputs.pp * chunks}"
        )
    if sum(given) != layers:
        raise InvalidSpecError(
            f"stage_layers = {inputs.stage_layers} holds {sum(given):,} layers, and"
            f" {inputs.model} has {layers}"
        )
