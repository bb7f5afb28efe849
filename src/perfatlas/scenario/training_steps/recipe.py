"""The fields of a training step, and its recipe."""

from __future__ import annotations

from typing import Final

from perfatlas.formats import get_format
from perfatlas.networks import resolve_model
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.scenario.fields import InputFields
from perfatlas.training.recipe import Recipe
from perfatlas.training.step import TRAINED_FORMATS
from perfatlas.vocabulary import fields

# JPEG images of ImageNet that one core decodes, without augmentation [images/s]: the slowest, the
# median and the fastest of Arm Neoverse N1, AMD EPYC 9B14 (621), Arm Neoverse V2, Intel Xeon 8581C
# (712) and AMD EPYC 9B45.
# Source: torchvision in arXiv 2605.08731v2 (CC BY 4.0): one thread, images in memory.
DECODED_PER_S: Final = (440.0, 643.0, 864.0)
FP8_FORMATS: Final = ("fp8_static", "fp8_dynamic", "fp8_block", "mxfp8")
# current scaling per tensor, the default recipe of Megatron-Bridge and of torchtitan's float8
FP8_DEFAULT: Final = "fp8_dynamic"


# groups in reverse order: Python collects annotations from the last base on
class TrainInputs(
    InputFields,
    fields.PowerTrace,
    fields.TrainingPower,
    fields.TrainingCheckpoints,
    fields.TrainingRecipe,
    fields.TrainingFormats,
    fields.UnevenStages,
    fields.TrainingLayout,
    fields.TrainingBatch,
    fields.ClockChoice,
    fields.TierChoice,
    fields.TrainingEngineChoice,
    fields.SystemChoice,
    fields.ModelChoice,
):
    """A training step."""


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


def schedule_of(inputs: InputFields) -> str:
    """Return the pipeline schedule, given or derived from the chunks."""
    given, chunks = inputs.values["pipeline_schedule"], inputs.values["vpp"] or 1
    return str(given or ("interleaved" if chunks > 1 else "1f1b"))


def training_format(text: str) -> str:
    """Return the name of a number format of training."""
    name = get_format(FP8_DEFAULT if text.strip().casefold() == "fp8" else text).name
    if name not in TRAINED_FORMATS:
        raise UnsupportedError(
            f"format = {name} is not supported by train; use {', '.join(TRAINED_FORMATS)}"
        )
    return name
