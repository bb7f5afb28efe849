"""Fields of a training step: engine, layout, batches, formats and memory."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from perfatlas.vocabulary.fields.conditions import Fact, Noted, NotEqual
from perfatlas.vocabulary.fields.numbers import Count, Size
from perfatlas.vocabulary.fields.rows import Catalog, Row, Text, Written, group
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

    engine: Annotated[
        TrainingEngineName,
        Row(
            "Training engine: megatron, torchtitan, automodel, fsdp, hai_llm (DeepSeek's), maxtext"
            " (TPUs), generic (none of these: a wider interval) or ideal (no host time), optionally"
            " with a version, as in megatron@26.04. Graphs of operators: inductor (torch.compile,"
            " the default on GPUs), xla (the default on TPUs), pytorch (eager),"
            " pytorch_channels_last or ideal.",
            elsewhere=("backend", "framework", "stack"),
            common=True,
        ),
    ] = "megatron"


@group("Batch", 2)
class TrainingBatch:
    """Sequences of a step, or items of a graph of operators."""

    sequence_length: Annotated[
        Size,
        Row(
            "Tokens per sequence.",
            elsewhere=("seq", "seq_len", "seq_length", "max_seq_len"),
            common=True,
        ),
    ] = 4096
    global_batch: Annotated[
        Count,
        Row(
            "Sequences, or items of a graph of operators, per step over all GPUs.",
            elsewhere=("global_batch_size", "gbs"),
            common=True,
        ),
    ]
    micro_batch: Annotated[
        Count,
        Row(
            "Sequences, or items of a graph of operators, per forward pass of a rank.",
            default="1; of a graph global_batch / dp, without accumulation of gradients",
            elsewhere=("micro_batch_size", "mbs", "local_batch_size"),
            common=True,
        ),
    ] = 1


@group("Layout", 3)
class TrainingLayout:
    """Parallelism over GPUs."""

    gpus: Annotated[
        Count | None,
        Row(
            "Total GPUs: tp x pp x cp x dp.",
            default="the product",
            elsewhere=("num_gpus", "n_gpus", "world_size", "total_gpus"),
            common=True,
        ),
    ] = None
    tp: Annotated[
        Count,
        Row(
            "Tensor-parallel size.",
            elsewhere=("tensor_parallel_size", "tp_size", "tensor_model_parallel_size"),
            common=True,
        ),
    ] = 1
    pp: Annotated[
        Count,
        Row(
            "Pipeline-parallel size.",
            elsewhere=("pipeline_parallel_size", "pp_size", "pipeline_model_parallel_size"),
            common=True,
        ),
    ] = 1
    cp: Annotated[
        Count,
        Row("Context-parallel size.", elsewhere=("context_parallel_size", "cp_size"), common=True),
    ] = 1
    dp: Annotated[
        Count | None,
        Row(
            "Data-parallel size.",
            default="gpus / (tp x pp x cp); 1 if gpus is not set",
            elsewhere=("data_parallel_size", "dp_size", "data_parallel_shard_degree"),
            common=True,
        ),
    ] = None
    ep: Annotated[
        Count,
        Row(
            "Expert-parallel size, of embedding tables groups with whole ones; ep x expert_tp"
            " divides tp x cp x dp, and is dp of tables.",
            needs=Fact("experts or tables"),
            elsewhere=("expert_parallel_size", "ep_size", "expert_model_parallel_size"),
            common=True,
        ),
    ] = 1
    expert_tp: Annotated[
        Count,
        Row(
            "Tensor-parallel size inside an expert; ranks that divide rows of embedding tables.",
            needs=Fact("experts or tables"),
            elsewhere=("expert_tensor_parallel_size", "etp", "moe_tp"),
        ),
    ] = 1
    vpp: Annotated[
        Count | None,
        Row(
            "Chunks of layers per stage of an interleaved pipeline.",
            default="those of the engine's recipes for the model; 1 without any",
            elsewhere=("virtual_pipeline_model_parallel_size", "vp"),
            common=True,
        ),
    ] = None
    pipeline_schedule: Annotated[
        PipelineSchedule | None,
        Row(
            "Order of forward and backward passes.",
            default="interleaved if vpp > 1, else 1f1b",
            common=True,
        ),
    ] = None
    expert_overlap: Annotated[
        bool,
        Row(
            "Run forward passes beside backward passes of other micro-batches, so that computation"
            " hides the transfers of tokens to experts; dualpipe always does.",
            needs=Fact("experts"),
            elsewhere=("overlap_moe_expert_parallel_comm", "moe_a2a_overlap"),
        ),
    ] = False
    dispatcher: Annotated[
        Literal["alltoall", "deepep"] | None,
        Row(
            "How tokens travel to experts: alltoall (a copy per expert) or deepep (one per node,"
            " which forwards it; also HybridEP).",
            default="the engine's",
            needs=Fact("experts"),
            elsewhere=("moe_token_dispatcher_type", "moe_flex_dispatcher_backend"),
        ),
    ] = None
    cuda_graphs: Annotated[
        Literal["none", "attention", "full"],
        Row(
            "What runs as CUDA graphs: none, attention with the router (attention), or the whole"
            " step (full). Steps of small MoE layers wait for the host without them.",
            needs=Fact("experts"),
            elsewhere=("cuda_graph_impl", "cuda_graph_scope"),
        ),
    ] = "none"
    fused_experts: Annotated[
        bool,
        Row(
            "Products of experts also activate and quantize what they write, without kernels of"
            " their own.",
            needs=Fact("experts"),
            elsewhere=("cutedsl_fused_grouped_mlp",),
        ),
    ] = False
    sequence_parallel: Annotated[
        bool | None,
        Row(
            "Divide the tokens of norms and residuals over the tensor-parallel ranks.",
            default="true if tp > 1",
            needs=Noted(NotEqual("tp", 1)),
        ),
    ] = None
    zero: Annotated[
        Annotated[Zero, Written(_digit)] | None,
        Row(
            "What data-parallel ranks shard: 0 nothing, 1 optimizer states, 2 also gradients, 3 (or"
            " fsdp2) also weights.",
            default="the engine's: 3 of fsdp, torchtitan, automodel and generic, 0 of those of"
            " graphs, else 1",
            elsewhere=("zero_stage", "use_distributed_optimizer"),
            common=True,
        ),
    ] = None
    expert_distribution: Annotated[
        Distribution,
        Row(
            "Routing of tokens to experts: uniform (random), balanced (equal loads) or"
            " power_law_1.2.",
            needs=Fact("experts"),
        ),
    ] = "uniform"


@group("Formats and memory", 4)
class TrainingFormats:
    """Number formats, recomputation and optimizer."""

    format: Annotated[
        FormatName,
        Row(
            "Number format of matrix products: bf16, fp8 (fp8_dynamic: current scaling), fp8_static"
            " (delayed scaling), fp8_block, mxfp8 or nvfp4.",
            elsewhere=("dtype", "precision", "fp8_recipe"),
            common=True,
        ),
    ] = "bf16"
    recompute: Annotated[
        Literal["none", "selective", "full"],
        Row(
            "Activations that the backward pass recomputes: none, those of attention (selective),"
            " or those of whole layers (full).",
            elsewhere=("recompute_granularity", "activation_checkpoint", "activation_recompute"),
            common=True,
        ),
    ] = "none"
    optimizer: Annotated[
        Literal["adamw", "sgd", "muon"],
        Row(
            "Optimizer; muon updates the embedding and the head with AdamW.",
        ),
    ] = "adamw"
    gradient_format: Annotated[
        Literal["fp32", "bf16"] | None,
        Row(
            "Number format in which gradients are accumulated and reduced.",
            default="that of the engine's recipes for the model, else the engine's",
            elsewhere=("grad_reduce_dtype", "accumulate_allreduce_grads_in_fp32"),
        ),
    ] = None
