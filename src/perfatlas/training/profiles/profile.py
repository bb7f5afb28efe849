"""The profile of a training engine, and its reader."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import (
    Array,
    Duration,
    Field,
    Flag,
    Named,
    Number,
    Record,
    Text,
    Whole,
    read_fields,
)
from perfatlas.networks import resolve_model
from perfatlas.quantities import InvalidSpecError
from perfatlas.vocabulary.fields import RECOMPUTE_MODULES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.networks import Network


# the embedding and the head count as layers when stages are cut, and can fill a stage alone
# Source: Megatron-LM, `account_for_embedding_in_pipeline_split` and `..._loss_...`
END_LAYERS: Final = 2


@dataclass(frozen=True, kw_only=True)
class ModelRecipe:
    """What the recipes of an engine set for some models."""

    models: tuple[str, ...]  # The models, with all others of the same architecture
    source: str  # Where the recipes are
    # Chunks of layers per stage, by the pipeline stages
    vpp: Mapping[str, int] = field(default_factory=dict, hash=False)
    gradient_format: str = ""  # Format of accumulated gradients, "" for the engine's

    def covers(self, network: Network) -> bool:
        """Return whether the recipes are those of a model."""
        return any(resolve_model(name).network == network for name in self.models)


RECIPES: Final[Array[ModelRecipe]] = Array(
    of=Record[Any](
        fields={
            "models": Field(Array(of=Text(empty=False)), required=True),
            "ref": Field(Text(longest=1000), required=True, into="source"),
            "vpp": Field(Named(of=Whole(least=1))),
            "gradient_format": Field(Text(choices=("fp32", "bf16"))),
        },
        build=ModelRecipe,
    )
)


@dataclass(frozen=True, kw_only=True)
class TrainingEngine:
    """Properties of a training engine at one release."""

    id: str  # Name and version, as in "megatron@26.04"
    name: str
    date: str  # Month of the release
    kernel_family: str  # Kernel family of the calibrations, "" for the fastest of all
    # Whether gathers and scatters of tensor parallelism run in tiles beside the products they
    # belong to
    tiled_tensor_overlap: bool
    pipeline_send_overlap: bool  # Whether the interleaved schedule sends beside computation
    # Whether data-parallel collectives run beside the backward and forward passes
    gradient_overlap: bool
    # How often ZeRO-2 and ZeRO-3 reduce gradients, and ZeRO-3 gathers weights, without a pipeline:
    # in every micro_batch or once per step
    reduction: str
    reduction_in_pipelines: str  # The same with a pipeline
    # What data-parallel ranks shard unless told otherwise: 0 nothing, 1 optimizer states, 2 also
    # gradients, 3 also weights
    zero: int
    schedules: tuple[str, ...]  # Pipeline schedules that it runs, which `search training` tries
    # Layers of a chunk of an interleaved pipeline unless told otherwise; 0 does not interleave
    layers_per_chunk: int
    # Parallel sizes beside dp that may be above 1: of tp, pp, cp and ep
    parallelism: tuple[str, ...]
    gradient_buckets: int  # Pieces into which the gradients of a stage are cut
    communication_sms: int  # SMs that a collective takes from the kernels beside it
    dispatcher_sms: int  # SMs that the kernels take that send tokens to experts and back
    dispatcher: str  # How tokens travel to experts: "alltoall" or "deepep"
    # Number format in which tokens are sent to experts; they come back in 16 bits
    dispatch_format: str
    fused_attention: bool  # Whether attention runs as one kernel that does not store its scores
    dropout: bool  # Whether the outputs of attention and feed-forward networks are dropped out
    gradient_format: str  # Default format of accumulated gradients
    moment_format: str  # Default format of the optimizer's moments
    # Where fp32 master weights are: "separate", beside 16-bit weights; "stored", as the weights
    # themselves, which are cast when they are gathered; or "none", where the optimizer updates
    # 16-bit weights
    master_weights: str
    # What selective recomputation keeps: all but the scores of "attention", the outputs of
    # attention and of every second product ("operators"), or the outputs of products and attention
    # outside of the modules ("projections")
    selective_recompute: str
    # Modules that selective recomputation runs again, unless it is that of "operators", by the
    # names of Megatron-LM
    recompute_modules: tuple[str, ...]
    # Whether the backward pass reads the quantized inputs of products, instead of 16-bit ones
    quantized_activations: bool
    logit_copies: float  # fp32 tensors of the size of the logits at the peak of the loss
    logit_copies_parallel: float  # The same where tensor-parallel ranks divide the vocabulary
    reserved_memory: float  # Memory that the allocator holds over that of tensors in use
    # Memory outside the framework's allocator: device context, communicators [bytes]
    context_bytes: float
    host_s_per_step: float  # Host time that no kernel hides, per step [s]
    # Host time of the forward and the backward pass of a MoE layer without CUDA graphs [s]
    host_s_per_moe_layer: float
    efficiency_compute: float  # Speed of compute kernels relative to their calibrations
    # Speed of collectives inside a step relative to their calibrations
    efficiency_communication: float
    efficiency_experts: float  # Further factor on the speed of the products of routed experts
    # Further factor on the speed of the kernels that sort, activate and quantize the rows of routed
    # experts
    efficiency_routed_rows: float
    speed_dense: float  # Further factor of this release on the speed of kernels in dense models
    speed_moe: float  # The same in MoE models
    # Speed of the engine's attention on Hopper, relative to that of the calibrations, which is
    # FlashAttention-3's
    attention_speed_hopper: float
    # The same of attention with sinks, which fused kernels of the engine may lack
    attention_speed_hopper_sinks: float
    # Speed of products in fp8 on Blackwell relative to that of the calibrations, over the same of
    # bf16
    blackwell_speed_fp8: float
    blackwell_speed_mxfp8: float  # The same in mxfp8, which the calibrations of fp8 price
    blackwell_speed_nvfp4: float  # The same in nvfp4
    # Standard deviation of a rank's step time over its mean; the step waits for the slowest rank
    jitter: float
    jitter_distribution: str  # Distribution of a rank's step time, of `sampling.DISTRIBUTIONS`
    error_low: float  # Lower end of ln(measured/predicted) of dense models that are not fitted
    error_high: float  # Upper end of the same
    error_low_moe: float  # As error_low, of MoE models
    error_high_moe: float  # As error_high, of MoE models
    drift_dense: float  # Factor by which later releases ran dense models faster at equal layouts
    drift_moe: float  # The same of MoE models
    # Architectures of devices with runs of dense models among the fitted ones
    fitted_dense: tuple[str, ...]
    fitted_moe: tuple[str, ...]  # The same of MoE models
    source: str  # Where the settings come from
    fit: str  # Where the fitted numbers come from
    largest_fitted_gpus: int = 0  # GPUs of the largest fitted job, 0 where scale widens nothing
    # What the upper end of ln(measured/predicted) gains per octave of GPUs beyond it
    error_per_octave: float = 0.0
    # Host time of the forward and the backward pass of a layer without routed experts and CUDA
    # graphs [s]
    host_s_per_dense_layer: float = 0.0
    # What takes times of its own: each "rank", or each scale-up "domain" whose ranks one program
    # schedules
    jitter_unit: str = "rank"
    # Whether a step is one compiled program: weights are gathered for a product at a time, and all
    # that is not kept shares memory. How well is unknown: the memory of such engines is an upper
    # estimate.
    planned_memory: bool = False
    # Kinds of machines that it runs on, as `device.kind`; empty for all
    kinds: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()  # Vendors of the devices; empty for all
    # Number formats of matrix products that the release runs; empty for all
    formats: tuple[str, ...] = ()
    experts: bool = True  # Whether it runs MoE models
    most_zero: int = 3  # The highest `zero` that it runs
    recipes: tuple[ModelRecipe, ...] = ()  # What its documented recipes set for models
    # Engine of `estimate` whose kernels, fusions and host time those of graphs of operators are; ""
    # where it trains language models alone
    graph_engine: str = ""

    def trains(self, network: Network) -> bool:
        """Return whether it trains a network: graphs of operators, or language models."""
        if not self.graph_engine:
            return not network.item
        from perfatlas.engines import resolve_engine  # others train without engines of inference

        runs = resolve_engine(self.graph_engine).runs
        return runs in ("all", "graphs" if network.item else "language_models")

    def recipe_of(self, network: Network) -> ModelRecipe | None:
        """Return the documented recipe of a model, None without one."""
        return next((recipe for recipe in self.recipes if recipe.covers(network)), None)

    def default_gradient_format(self, network: Network) -> str:
        """Return the format of accumulated gradients of the model's recipe, else the engine's."""
        recipe = self.recipe_of(network)
        return (recipe.gradient_format if recipe else "") or self.gradient_format

    def default_chunks(self, network: Network, pp: int, micro_batches: float) -> int:
        """Return the chunks of layers per stage that recipes set, 1 without interleaving.

        They are those of the model's recipe with as many stages, else chunks of `layers_per_chunk`
        layers. Interleaving needs a multiple of pp micro-batches.

        Args:
            pp: Pipeline stages.
        """
        if pp == 1 or self.layers_per_chunk == 0 or micro_batches % pp:
            return 1
        recipe = self.recipe_of(network)
        chunks = recipe.vpp.get(str(pp)) if recipe else None
        return chunks or max((network.num_layers + END_LAYERS) // (pp * self.layers_per_chunk), 1)

    def errors(self, architecture: str, *, moe: bool) -> tuple[float, float]:
        """Return the ends of ln(measured/predicted) on the devices of an architecture.

        Where no run of the kind of model is among the fitted ones, both ends are wider by the drift
        of releases: kernels and recipes of a generation change as much while they mature.

        Args:
            architecture: Architecture of the device, such as "hopper".
            moe: Of MoE models, else of dense ones.
        """
        low, high = self.error_low, self.error_high
        if moe:
            low, high = self.error_low_moe, self.error_high_moe
        wider = math.log(self.widening(architecture, moe=moe))
        return low - wider, high + wider

    def widening(self, architecture: str, *, moe: bool) -> float:
        """Return the factor on both ends of the interval, 1 with fitted runs on the architecture.

        Args:
            architecture: Architecture of the device, such as "hopper".
            moe: Of MoE models, else of dense ones.
        """
        fitted, drift = self.fitted_dense, self.drift_dense
        if moe:
            fitted, drift = self.fitted_moe, self.drift_moe
        return 1.0 if architecture in fitted else drift


def lower_limit_of(engine: TrainingEngine) -> TrainingEngine:
    """Return an engine with the overlaps of another one and no losses of its own.

    Its steps are lower limits: kernels and collectives run as fast as they are priced, collectives
    take no SMs, and the host and slower ranks cost nothing.
    """
    return replace(
        engine,
        communication_sms=0,
        dispatcher_sms=0,
        host_s_per_step=0.0,
        host_s_per_dense_layer=0.0,
        host_s_per_moe_layer=0.0,
        speed_dense=1.0,
        speed_moe=1.0,
        efficiency_compute=1.0,
        efficiency_communication=1.0,
        efficiency_experts=1.0,
        efficiency_routed_rows=1.0,
        attention_speed_hopper=1.0,
        attention_speed_hopper_sinks=1.0,
        blackwell_speed_fp8=1.0,
        blackwell_speed_mxfp8=1.0,
        blackwell_speed_nvfp4=1.0,
        jitter=0.0,
        error_low=0.0,
        error_high=0.0,
        error_low_moe=0.0,
        error_high_moe=0.0,
    )


def unseen_release(engine: TrainingEngine, version: str) -> TrainingEngine:
    """Return a later release, whose interval also covers what releases change at equal layouts.

    Args:
        engine: The newest release whose runs are known.
    """
    fit = f"no runs of {engine.name}@{version} were measured: numbers of {engine.id}, wider by the"
    return replace(
        engine,
        id=f"{engine.name}@{version}",
        error_low=engine.error_low - math.log(engine.drift_dense),
        error_low_moe=engine.error_low_moe - math.log(engine.drift_moe),
        fit=f"{fit} drift of releases; {engine.fit}",
    )


def older_release(engine: TrainingEngine, version: str, years: float) -> TrainingEngine:
    """Return a release before a known one, whose interval reaches slower steps by its age.

    Source: the drift of releases at equal layouts, once per year of age: the explored half of the
        dense runs in `validation/data/outside_runs_5.toml`. Of MoE models: assumption.
    """
    wider = years * math.log(engine.drift_dense), years * math.log(engine.drift_moe)
    fit = f"no runs of {engine.name}@{version} were measured: numbers of {engine.id}, wider by the"
    return replace(
        engine,
        id=f"{engine.name}@{version}",
        error_high=engine.error_high + wider[0],
        error_high_moe=engine.error_high_moe + wider[1],
        fit=f"{fit} drift of releases in {years:.1f} years; {engine.fit}",
    )


_SCHEDULES: Final = ("gpipe", "1f1b", "interleaved", "zb_h1", "zb_v", "dualpipe")


PARALLEL_SIZES: Final = ("tp", "pp", "cp", "ep")


_SHARE: Final = Number(least=0.0, most=1.0)


_FACTOR: Final = Number(least=0.05, most=5.0)


_LONG_TEXT: Final = Text(longest=1000)


_FIELDS: Final[dict[str, Field[Any]]] = {
    name: Field(reader, required=True, into=into)
    for name, reader, into in (
        ("name", Text(empty=False), ""),
        ("kernel_family", Text(), ""),
        ("tiled_tensor_overlap", Flag(), ""),
        ("pipeline_send_overlap", Flag(), ""),
        ("gradient_overlap", Flag(), ""),
        ("reduction", Text(choices=("micro_batch", "step")), ""),
        ("reduction_in_pipelines", Text(choices=("micro_batch", "step")), ""),
        ("zero", Whole(least=0, most=3), ""),
        ("schedules", Array(of=Text(choices=_SCHEDULES)), ""),
        ("layers_per_chunk", Whole(least=0), ""),
        ("parallelism", Array(of=Text(choices=PARALLEL_SIZES)), ""),
        ("gradient_buckets", Whole(least=1), ""),
        ("communication_sms", Whole(least=0, most=1024), ""),
        ("dispatcher_sms", Whole(least=0, most=1024), ""),
        ("dispatcher", Text(choices=("alltoall", "deepep")), ""),
        ("dispatch_format", Text(choices=("bf16", "fp8_block")), ""),
        ("fused_attention", Flag(), ""),
        ("dropout", Flag(), ""),
        ("gradient_format", Text(choices=("fp32", "bf16")), ""),
        ("moment_format", Text(choices=("fp32", "bf16", "fp8")), ""),
        ("master_weights", Text(choices=("separate", "stored", "none")), ""),
        ("selective_recompute", Text(choices=("attention", "operators", "projections")), ""),
        ("recompute_modules", Array(of=Text(choices=RECOMPUTE_MODULES)), ""),
        ("quantized_activations", Flag(), ""),
        ("logit_copies", Number(least=1.0, most=10.0), ""),
        ("logit_copies_parallel", Number(least=1.0, most=10.0), ""),
        ("reserved_memory", Number(least=1.0, most=3.0), ""),
        ("context", Number(dimension="bytes", unit="B", least=0.0), "context_bytes"),
        ("host_per_step", Duration(), "host_s_per_step"),
        ("host_per_moe_layer", Duration(), "host_s_per_moe_layer"),
        ("efficiency_compute", _FACTOR, ""),
        ("efficiency_communication", _FACTOR, ""),
        ("efficiency_experts", _FACTOR, ""),
        ("efficiency_routed_rows", _FACTOR, ""),
        ("attention_speed_hopper", _FACTOR, ""),
        ("attention_speed_hopper_sinks", _FACTOR, ""),
        ("blackwell_speed_fp8", _FACTOR, ""),
        ("blackwell_speed_mxfp8", _FACTOR, ""),
        ("blackwell_speed_nvfp4", _FACTOR, ""),
        ("jitter", _SHARE, ""),
        ("jitter_distribution", Text(choices=("normal", "exponential", "uniform")), ""),
        ("error_low", Number(least=-5.0, most=0.0), ""),
        ("error_high", Number(least=0.0, most=5.0), ""),
        ("error_low_moe", Number(least=-5.0, most=0.0), ""),
        ("error_high_moe", Number(least=0.0, most=5.0), ""),
        ("drift_dense", Number(least=1.0, most=5.0), ""),
        ("drift_moe", Number(least=1.0, most=5.0), ""),
        ("fitted_dense", Array(of=Text(empty=False)), ""),
        ("fitted_moe", Array(of=Text(empty=False)), ""),
        ("ref", _LONG_TEXT, "source"),
        ("fit", _LONG_TEXT, ""),
    )
}


_FIELDS["recipe"] = Field(RECIPES, into="recipes")


_FIELDS["host_per_dense_layer"] = Field(Duration(), into="host_s_per_dense_layer")


_FIELDS["largest_fitted_gpus"] = Field(Whole(least=1))


_FIELDS["error_per_octave"] = Field(Number(least=0.0, most=1.0))


_FIELDS["jitter_unit"] = Field(Text(choices=("rank", "domain")))


_FIELDS["planned_memory"] = Field(Flag())


_FIELDS["kinds"] = Field(Array(of=Text(empty=False)))


_FIELDS["vendors"] = Field(Array(of=Text(empty=False)))


_RELEASE: Final[dict[str, Field[Any]]] = {
    "date": Field(Text(empty=False), required=True),
    "speed_dense": Field(_FACTOR, required=True),
    "speed_moe": Field(_FACTOR, required=True),
    "fit": Field(_LONG_TEXT, required=True, into="release_fit"),
    "formats": Field(Array(of=Text(empty=False))),
    "experts": Field(Flag()),
    "most_zero": Field(Whole(least=0, most=3)),
    "graph_engine": Field(Text(empty=False)),
    **{
        name: Field(_FIELDS[name].reader)
        for name in (
            "logit_copies",
            "fused_attention",
            "dropout",
            "tiled_tensor_overlap",
            "layers_per_chunk",
        )
    },
}


def training_engines_of(name: str, table: Mapping[str, object]) -> dict[str, TrainingEngine]:
    """Return the profiles of all releases that a file describes, by id.

    Args:
        table: The file, as `tomllib` reads it: the fields that all releases share, and `release`,
            a table of releases by version.
    """
    shared = {key: value for key, value in table.items() if key != "release"}
    releases = table.get("release")
    if not isinstance(releases, dict) or not releases:
        raise InvalidSpecError(f"training engine {name}: release is a table of versions")
    defaults = read_fields(shared, _FIELDS, f"training engine {name}")
    engines = {}
    for version, entries in releases.items():
        engine_id = f"{name}@{version}"
        read = read_fields(entries, _RELEASE, f"training engine {engine_id}")
        release = {field: value for field, value in read.items() if value is not None}
        fit = "; ".join(text for text in (defaults["fit"], release.pop("release_fit")) if text)
        engines[engine_id] = TrainingEngine(id=engine_id, **{**defaults, **release, "fit": fit})
    return engines
