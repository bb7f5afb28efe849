"""Questions of `train` about graphs of operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.networks import resolve_model
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.scenario.fields import system_engine
from perfatlas.scenario.training_steps.inputs import TrainInputs
from perfatlas.training.profiles import resolve_training_engine, training_engines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.networks import Network
    from perfatlas.training.profiles import TrainingEngine

DIVIDES: Final = ("tp", "pp", "cp", "ep", "expert_tp", "vpp")
TABLE_DIVIDES: Final = ("ep", "expert_tp")
# fields that nothing of a graph reads
OF_LANGUAGE_MODELS: Final = (
    *("sequence_length", "packed_length", "mtp_depth", "lora_rank", "lora_targets"),
    *("recompute_modules", "fused_weight_gradient", "fp8_parameter_gather"),
    *("pipeline_schedule", "first_stage_layers", "last_stage_layers", "stage_layers"),
    *("sequence_parallel", "tensor_overlap", "cp_communication", "activation_offload"),
)
FORMAT: Final = "bf16"


def read_graph_training(fields: Mapping[str, Any]) -> TrainInputs:
    """Return the training step of a graph of operators.

    Args:
        fields: The fields as given; None means "not given".
    """
    inputs = TrainInputs.read(
        {
            **fields,
            "engine": fields.get("engine") or system_engine(fields["model"], fields.get("system")),
        }
    )
    tables = resolve_model(inputs.model).network.tables
    for name in (one for one in DIVIDES if not (tables and one in TABLE_DIVIDES)):
        ways = getattr(inputs, name) or 1
        if ways > 1:
            raise UnsupportedError(
                f"{name} = {ways}: graphs of operators are not divided over GPUs; leave {name} out:"
                " gpus or dp set copies, and zero shards their weights"
            )
    for name in OF_LANGUAGE_MODELS:
        given = getattr(inputs, name)
        if name in inputs.fields_set and given not in (None, False, "none", 0):
            raise InvalidSpecError(
                f"{name} applies to language models, and {inputs.model} is a graph of operators;"
                f" leave {name} out"
            )
    check_engine(inputs)
    if inputs.recompute == "selective":
        raise UnsupportedError(
            "recompute = selective keeps what language models name; graphs of operators compute"
            " whole blocks again: set recompute = full"
        )
    if inputs.format != FORMAT:
        raise UnsupportedError(
            f"format = {inputs.format}: graphs of operators are trained in {FORMAT} with weights in"
            " 32 bits; leave format out"
        )
    if inputs.optimizer == "muon":
        raise UnsupportedError("optimizer = muon is priced for language models; use adamw or sgd")
    return inputs.changed(sequence_length=1)


def check_engine(inputs: TrainInputs) -> None:
    """Refuse an engine that trains other networks: language models, or graphs of operators."""
    model = resolve_model(inputs.model)
    engine = resolve_training_engine(inputs.engine)
    if engine.trains(model.network):
        return
    others = (
        training_engine.name
        for training_engine in training_engines().values()
        if training_engine.trains(model.network)
    )
    graph = bool(model.network.item)
    raise UnsupportedError(
        f"{engine.name} trains {'language models' if graph else 'graphs of operators'}, and"
        f" {model.name} is a {'graph of operators' if graph else 'language model'}; set engine ="
        f" {', '.join(dict.fromkeys(others))}"
    )


def trained_network(name: str, engine: TrainingEngine) -> Network:
    """Return what a training step runs of a network, with the fusions of the engine."""
    network = resolve_model(name).network
    if not network.item:
        return network.trained()
    from perfatlas.engines import resolve_engine  # language models train without them
    from perfatlas.step import fused_kinds

    return network.trained(fused_kinds(resolve_engine(engine.graph_engine), trains=True))
