"""Fields of a training step: engine, layout, batches, formats and memory."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from perfatlas.vocabulary.fields.conditions import Fact, Noted, NotEqual
from perfatlas.vocabulary.fields.numbers import Count, Size
from perfatlas.vocabulary.fields.rows import Catalog, Text, Written, group
from perfatlas.vocabulary.fields.scenario import Distribution
from perfatlas.vocabulary.fields.subject import FormatName

PipelineSchedule = Literal["gpipe", "1f1b", "interleaved", "zb_h1", "zb_v", "dualpipe"]
Zero = Literal["0", "1", "2", "3", "fsdp2"]


def _digit(value: object) -> object:
    """Return a whole number as text, any other value unchanged."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


TRAINING_ENGINES: Final = (
    "perfatlas.training.profiles:training_engine_names",
    "perfatlas.training.profiles:training_engine_ids",
)
TrainingEngineName = Annotated[str, Text(), Catalog("training_engines", TRAINING_ENGINES)]


@group("Scenario", 1)
class TrainingEngineChoice:
    """The training engine."""

    engine: TrainingEngineName = "megatron"


@group("Batch", 2)
class TrainingBatch:
    """Sequences of a step, or items of a graph of operators."""

    sequence_length: Size = 4096
    global_batch: Count
    micro_batch: Count = 1


@group("Layout", 3)
class TrainingLayout:
    """Parallelism over GPUs."""

    gpus: Count | None = None
    tp: Count = 1
    pp: Count = 1
    cp: Count = 1
    dp: Count | None = None
    ep: Annotated[Count, Fact("experts or tables")] = 1
    expert_tp: Annotated[Count, Fact("experts or tables")] = 1
    vpp: Count | None = None
    pipeline_schedule: PipelineSchedule | None = None
    expert_overlap: Annotated[bool, Fact("experts")] = False
    dispatcher: Annotated[Literal["alltoall", "deepep"] | None, Fact("experts")] = None
    cuda_graphs: Annotated[Literal["none", "attention", "full"], Fact("experts")] = "none"
    fused_experts: Annotated[bool, Fact("experts")] = False
    sequence_parallel: Annotated[bool | None, Noted(NotEqual("tp", 1))] = None
    zero: Annotated[Zero, Written(_digit)] | None = None
    expert_distribution: Annotated[Distribution, Fact("experts")] = "uniform"


@group("Formats and memory", 4)
class TrainingFormats:
    """Number formats, recomputation and optimizer."""

    format: FormatName = "bf16"
    recompute: Literal["none", "selective", "full"] = "none"
    optimizer: Literal["adamw", "sgd", "muon"] = "adamw"
    gradient_format: Literal["fp32", "bf16"] | None = None
