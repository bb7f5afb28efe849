"""Rules of training steps: what contradicts the model, the engine, the system or the layout.

Shape legend: C candidates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.energy import board_energy
from perfatlas.hardware import resolve_system
from perfatlas.networks import resolve_model
from perfatlas.quantities import Rule, UnsupportedError, counted
from perfatlas.scenario.training_steps import recipe
from perfatlas.training import profiles

if TYPE_CHECKING:
    from perfatlas.hardware import Device
    from perfatlas.networks import Network
    from perfatlas.scenario.fields import BoolArray, InputFields
    from perfatlas.training.layouts import Layouts

DIVIDES: Final = ("tp", "pp", "cp", "ep", "expert_tp", "vpp")
TABLE_DIVIDES: Final = ("ep", "expert_tp")
# fields that nothing of a graph reads
OF_LANGUAGE_MODELS: Final = (
    *("sequence_length", "packed_length", "mtp_depth", "lora_rank", "lora_targets"),
    *("recompute_modules", "fused_weight_gradient", "fp8_parameter_gather"),
    *("pipeline_schedule", "first_stage_layers", "last_stage_layers", "stage_layers"),
    *("sequence_parallel", "tensor_overlap", "cp_communication", "activation_offload"),
)
GRAPH_FORMAT: Final = "bf16"
# modules that layers of some models do not have
SOME_LAYERS: Final = ("core_attn", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts")
ENDS: Final = ("first_stage_layers", "last_stage_layers")
LINKS: Final = ("site_bandwidth", "site_round_trip_s")


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A training step or a search for one, with its layouts; messages call it t."""

    inputs: InputFields  # Fields that the layouts share
    layouts: Layouts  # (C,)
    engine: profiles.TrainingEngine

    network = cached_property(lambda t: resolve_model(t["model"]).network)
    device = cached_property(lambda t: resolve_system(t["system"]).device)
    format = cached_property(lambda t: recipe.training_format(t["format"]))  # of matrix products
    schedule = cached_property(lambda t: recipe.schedule_of(t.inputs))
    # Groups of ranks that each hold all shards, and the field that sets them
    replicas = cached_property(lambda t: max(t["sharding_replicas"], t["sites"]))
    replicated = cached_property(
        lambda t: "sharding_replicas" if t["sharding_replicas"] > 1 else "sites"
    )
    # Layers of each stage, of the ends, and of the other ranks, whose number follows
    stages = cached_property(lambda t: recipe.stages_of(t["stage_layers"] or ""))
    ends = cached_property(lambda t: {name: t[name] for name in ENDS if t[name] is not None})
    rest = cached_property(lambda t: t.network.num_layers - sum(t.ends.values()))
    others = cached_property(lambda t: t["pp"] - len(t.ends))

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - values of every type
        """Return a field."""
        return self.inputs.values[name]

    @property
    def size(self) -> int:
        """Number of layouts."""
        return self.layouts.size

    def row(self, row: int) -> dict[str, Any]:
        """Return the sizes of a layout, the fields that are given, and this."""
        given = {name: value for name, value in self.inputs.values.items() if value is not None}
        return self.layouts.row(row) | given | {"t": self}


def runs_on(engine: profiles.TrainingEngine, device: Device) -> bool:
    """Return whether an engine runs on a device."""
    kinds, vendors = engine.kinds or (device.kind,), engine.vendors or (device.vendor,)
    return device.kind in kinds and device.vendor in vendors


def engines_on(network: Network, device: Device) -> tuple[str, ...]:
    """Return the engines that train a network on a device, first those made for its kind."""
    found = [
        engine
        for engine in profiles.training_engines().values()
        if engine.trains(network) and runs_on(engine, device)
    ]
    found.sort(key=lambda engine: not engine.kinds)
    return tuple(dict.fromkeys(engine.name for engine in found))


def _other_network(t: Trained, _: int) -> str:
    kinds = ("language models", "graph of operators", "graphs of operators", "language model")
    trains, model = kinds[:2] if t.network.item else kinds[2:]
    engines = profiles.training_engines().values()
    others = dict.fromkeys(engine.name for engine in engines if engine.trains(t.network))
    return (
        f"{t.engine.name} trains {trains}, and {resolve_model(t['model']).name} is a {model}; set"
        f" engine = {', '.join(others)}"
    )


def _other_device(t: Trained, _: int) -> str:
    why = f"{t.engine.name} does not run on {t.device.name}, a device of kind {t.device.kind}"
    if t.device.kind in t.engine.kinds:
        vendors = ", ".join(t.engine.vendors)
        why = f"{t.engine.name} runs on devices of {vendors}, and {t.device.name}"
        why += f" is of {t.device.vendor}"
    return f"{why}; set engine = {', '.join(engines_on(t.network, t.device))}"


def _missing_modules(t: Trained) -> list[str]:
    """Return recomputed modules that no layer of the model has."""
    held = {name for layer in t.network.layers for name in layer.modules}
    given = (t["recompute_modules"] or "").split(",")
    return [name for name in given if name in SOME_LAYERS and name not in held]


TRAINS: Final = Rule[Trained](
    lambda t: not t.engine.trains(t.network), _other_network, error=UnsupportedError
)
GRAPHS: Final[tuple[Rule[Trained], ...]] = (
    *(
        Rule(
            partial(
                lambda name, t: (
                    (t[name] or 1) > 1 and not (t.network.tables and name in TABLE_DIVIDES)
                ),
                name,
            ),
            f"{name} = {{{name}}}: graphs of operators are not divided over GPUs",
            f"leave {name} out: gpus or dp set copies, and zero shards their weights",
            UnsupportedError,
        )
        for name in DIVIDES
    ),
    *(
        Rule(
            partial(
                lambda name, t: (
                    name in t.inputs.fields_set and t[name] not in (None, False, "none", 0)
                ),
                name,
            ),
            f"{name} applies to language models, and {{model}} is a graph of operators",
            f"leave {name} out",
        )
        for name in OF_LANGUAGE_MODELS
    ),
    TRAINS,
    Rule(
        lambda t: t["recompute"] == "selective",
        "recompute = selective keeps what language models name",
        "graphs of operators compute whole blocks again: set recompute = full",
        UnsupportedError,
    ),
    Rule(
        lambda t: t["format"] != GRAPH_FORMAT,
        f"format = {{format}}: graphs of operators are trained in {GRAPH_FORMAT} with weights in 32"
        " bits",
        "leave format out",
        UnsupportedError,
    ),
    Rule(
        lambda t: t["optimizer"] == "muon",
        "optimizer = muon is priced for language models",
        "use adamw or sgd",
        UnsupportedError,
    ),
)
# what engines run of each layout
ENGINE_LAYOUTS: Final[tuple[Rule[Trained], ...]] = (
    *(
        Rule(
            partial(
                lambda name, t: name not in t.engine.parallelism and getattr(t.layouts, name) > 1,
                name,
            ),
            f"{name} = {{{name}:,}} is not supported by engine = {{t.engine.id}}",
            "leave it out, or use another engine, such as megatron or torchtitan",
            UnsupportedError,
        )
        for name in profiles.PARALLEL_SIZES
    ),
    Rule(
        lambda t: t.layouts.zero > t.engine.most_zero,
        "zero = {zero} is not supported by engine = {t.engine.id}, which shards up to zero ="
        " {t.engine.most_zero}",
        "use a later release, such as engine = {t.engine.name}",
        UnsupportedError,
    ),
)
RECIPES: Final[tuple[Rule[Trained], ...]] = (
    TRAINS,
    Rule(
        lambda t: t["power_cap_w"] is not None and math.isnan(board_energy(t.device).on_w),
        lambda t, _: f"power_cap_w: {board_energy(t.device).notes[0]}; omit it",
        error=UnsupportedError,
    ),
    Rule(
        lambda t: t["power_cap_w"] is not None and t["tier"] == "bound",
        "power_cap_w lowers a clock that is predicted, and tier = bound has lower limits of times",
        "omit power_cap_w, or use tier = auto",
    ),
    Rule(
        lambda t: t["tier"] == "measured",
        "tier = measured is not supported by train: gradients have no measured rows",
        "use auto",
        UnsupportedError,
    ),
    Rule(
        lambda t: t.format == "mxfp8" and "fp4" not in t.device.peak_flop_per_s,
        "format = mxfp8 needs tensor cores that scale blocks of 32 elements, and {system} has none",
        "use format = bf16, or fp8 where it is supported",
        UnsupportedError,
    ),
    Rule(lambda t: not runs_on(t.engine, t.device), _other_device, error=UnsupportedError),
    Rule(
        lambda t: t.format not in (t.engine.formats or (t.format,)),
        lambda t, _: (
            f"format = {t.format} is not supported by engine = {t.engine.id}, which runs"
            f" {', '.join(t.engine.formats)}; use a later release, such as engine = {t.engine.name}"
        ),
        error=UnsupportedError,
    ),
    *ENGINE_LAYOUTS,
    Rule(
        lambda t: (
            not t.engine.fused_attention
            and any(layer.qkv_widths is None for layer in t.network.layers)
        ),
        "engine = {t.engine.id} stores the scores of attention in memory, which is supported for"
        " multi-head and grouped-query attention in all layers, and {model} has others",
        "use a release with fused attention, such as engine = {t.engine.name}",
        UnsupportedError,
    ),
    Rule(
        lambda t: t.network.has_experts and not t.engine.experts,
        "engine = {t.engine.id} is supported for dense models only, and {model} has experts",
        "use a later release, such as engine = {t.engine.name}",
        UnsupportedError,
    ),
    Rule(
        lambda t: bool(t["packed_length"]) and not t.engine.fused_attention,
        "packed_length = {packed_length:,} needs fused attention that skips other documents: engine"
        " = {t.engine.id} computes the scores of whole sequences",
        "leave it out or use a later release",
        UnsupportedError,
    ),
    Rule(
        lambda t: t["fp8_parameter_gather"] and t.format not in recipe.FP8_FORMATS,
        "fp8_parameter_gather needs an FP8 format of matrix products; format = {t.format}",
        f"use {', '.join(recipe.FP8_FORMATS)}",
    ),
    Rule(
        lambda t: bool(t["optimizer_offload"]) and t["offload_bandwidth"] is None,
        "optimizer_offload needs offload_bandwidth, the rate at which the host reads and writes the"
        " states of a GPU: the memory bandwidth of a node over its GPUs (16 channels of DDR5-4800"
        " over 8 GPUs: 77GB/s), or that of its NVMe",
    ),
    Rule(
        lambda t: (t["packed_length"] or 0) > t["sequence_length"],
        "packed_length = {packed_length:,} must be at most sequence_length = {sequence_length:,}",
    ),
    Rule(
        lambda t: t["sites"] > 1 and any(t[name] is None for name in LINKS),
        lambda t, _: (
            f"sites = {t['sites']} needs {' and '.join(name for name in LINKS if t[name] is None)}"
            " of the links between them, such as site_bandwidth = 100GB/s and site_round_trip_s ="
            " 10ms"
        ),
    ),
    Rule(
        lambda t: t["sharding_replicas"] > 1 and t["sharding_replicas"] % t["sites"] > 0,
        "sharding_replicas = {sharding_replicas:,} must be a multiple of sites = {sites}: shards"
        " stay inside a site",
    ),
    Rule(
        lambda t: bool(_missing_modules(t)),
        lambda t, _: (
            f"recompute_modules = {t['recompute_modules']}: {t['model']} has no"
            f" {_missing_modules(t)[0]}; leave it out"
        ),
    ),
    Rule(
        lambda t: (
            t["mtp_depth"] > 0
            and (
                any("core_attn" not in layer.modules for layer in t.network.layers)
                or t.network.layers[-1].modules.isdisjoint(("mlp", "moe"))
            )
        ),
        "mtp_depth is not supported for {model}: its layers differ in kind, and the one that"
        " predicts further tokens is not known",
        "leave mtp_depth out",
        UnsupportedError,
    ),
)
# what a recipe asks of each layout
LAYOUTS: Final[tuple[Rule[Trained], ...]] = (
    Rule(
        lambda t: (t["tensor_overlap"] is True) & (t.layouts.tp == 1),
        "tensor_overlap hides transfers of tensor parallelism",
        "set tp > 1",
    ),
    Rule(
        lambda t: (t["cp_communication"] != "ring") & (t.layouts.cp == 1),
        "cp_communication = {cp_communication} applies to context-parallel ranks",
        "set cp > 1",
    ),
    Rule(
        lambda t: (not t.engine.fused_attention) & (t.layouts.cp > 1),
        "cp = {cp:g} needs fused attention, which engine = {engine} does not run",
        "set cp = 1 or use a later release",
        UnsupportedError,
    ),
    Rule(
        lambda t: np.mod(t.layouts.dp, t["sites"]) != 0,
        "sites = {sites:,} must divide dp = {dp:,.0f}: other parallelism stays in a site",
    ),
    Rule(
        lambda t: np.mod(t.layouts.dp * t.layouts.cp, t.replicas) != 0,
        "{t.replicated} = {t.replicas:,} must divide the {copies:,.0f} ranks of dp x cp",
    ),
    Rule(
        lambda t: np.mod(np.floor(t.layouts.expert_dp), t.replicas) != 0,
        "{t.replicated} = {t.replicas:,} must divide the {expert_dp:,.0f} ranks of dp of experts",
    ),
    Rule(
        lambda t: (t.replicas > 1) & (t.layouts.zero == 0),
        "{t.replicated} applies to shards, and zero = 0 has none",
        "set zero = 1 or more",
    ),
)
# pairs of passes, and uneven stages
SINGLE: Final[tuple[Rule[Trained], ...]] = (
    Rule(
        lambda t: t["expert_overlap"] and t["ep"] * t["expert_tp"] == 1,
        "expert_overlap hides transfers between experts' ranks",
        "set ep > 1",
    ),
    Rule(
        lambda t: t["expert_overlap"] and t.schedule == "dualpipe",
        "pipeline_schedule = dualpipe overlaps experts",
        "omit expert_overlap",
    ),
    Rule(
        lambda t: t["expert_overlap"] and t["pp"] > 1 and t.schedule != "interleaved",
        "expert_overlap with pp = {pp} needs an interleaved schedule, not {t.schedule}",
        "set vpp > 1",
    ),
    *LAYOUTS,
    Rule(
        lambda t: bool(t.ends) and (t["pp"] == 1 or t.schedule == "zb_v"),
        lambda t, _: (
            f"{' and '.join(t.ends)} needs a pipeline whose first and last rank hold different"
            f" stages; {'pp = 1' if t['pp'] == 1 else f'pipeline_schedule = {t.schedule}'}"
        ),
    ),
    *(
        Rule(
            partial(lambda name, t: t.ends.get(name, 0) % t["vpp"] > 0, name),
            f"{name} = {{{name}}} must be a multiple of vpp = {{vpp}}",
        )
        for name in ENDS
    ),
    Rule(
        lambda t: t.rest < 0,
        lambda t, _: (
            f"{' and '.join(t.ends)} hold {' + '.join(f'{n:,}' for n in t.ends.values())} layers,"
            f" and the model has {t.network.num_layers}"
        ),
    ),
    Rule(
        lambda t: bool(t.ends) and (t.rest < t.others * t["vpp"] or t.others == 0 < t.rest),
        lambda t, _: (
            f"{' and '.join(t.ends)} leave {t.rest} of {t.network.num_layers} layers to"
            f" {counted(t.others, 'other rank')}, which need {'at least ' if t.others else ''}"
            f"{t.others * t['vpp']}"
        ),
    ),
    Rule(
        lambda t: bool(t.stages) and bool(t.ends),
        "stage_layers has the layers of all stages",
        "leave out first_stage_layers and last_stage_layers",
    ),
    Rule(
        lambda t: bool(t.stages) and len(t.stages) != t["pp"] * t["vpp"],
        lambda t, _: (
            f"stage_layers = {t['stage_layers']} has {counted(len(t.stages), 'stage')}, and pp x"
            f" vpp = {t['pp']} x {t['vpp']} = {t['pp'] * t['vpp']}"
        ),
    ),
    Rule(
        lambda t: bool(t.stages) and sum(t.stages) != t.network.num_layers,
        lambda t, _: (
            f"stage_layers = {t['stage_layers']} holds {sum(t.stages):,} layers, and {t['model']}"
            f" has {t.network.num_layers}"
        ),
    ),
)


def refused_by_recipe(inputs: InputFields, layouts: Layouts) -> BoolArray:
    """Return the layouts that an engine does not run or a recipe refuses (C,)."""
    engine = profiles.resolve_training_engine(inputs.values["engine"])
    trained = Trained(inputs=inputs, layouts=layouts, engine=engine)
    rules = (*ENGINE_LAYOUTS, *LAYOUTS)
    refused_C: BoolArray = np.logical_or.reduce([rule.refused(trained) for rule in rules])
    return refused_C
