"""Fields of one operator on one device, and of one collective."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from perfatlas.vocabulary.fields import conditions
from perfatlas.vocabulary.fields.numbers import Count, Number, Size, SizeOrZero
from perfatlas.vocabulary.fields.rows import Checked, InputFile, Row, Text, group
from perfatlas.vocabulary.fields.scenario import Distribution
from perfatlas.vocabulary.fields.subject import EngineName, FormatName

# formats whose measured rows include the quantization of the activation
QUANTIZED: Final = ("fp8_dynamic", "fp8_block", "nvfp4")
GQA: Final = conditions.Equals("kind", "gqa")
PREFILL_GQA: Final = conditions.AllOf(conditions.Equals("phase", "prefill"), GQA)
MLA: Final = conditions.Equals("kind", "mla")
REDUCTION: Final = conditions.Equals("op", "all_reduce", "reduce_scatter")
ROPE: Final = conditions.Equals("op", "rope_and_cache")
GROUPED: Final = conditions.AllOf(
    conditions.NotEqual("groups", 1), conditions.NotEqual("tier", "bound")
)
ROUTED: Final = conditions.Equals("fabric_routing", "ecmp", "adaptive")
LIBRARY: Final = "nccl"


def _library(name: str) -> str:
    """Return the name of the library in lower case, other names as they are."""
    return LIBRARY if name.casefold() == LIBRARY else name


Format = Annotated[
    FormatName,
    Row(
        "Number format of the arithmetic; fp8 means fp8_static. Unset, a device without bf16"
        " tensor cores uses fp16.",
        elsewhere=("dtype", "precision"),
        common=True,
    ),
]


@group("Kernels", 4)
class KernelChoice:
    """Kernel library and measurement protocol."""

    kernel_family: EngineName | None = None
    protocol: Literal["cold"] = "cold"


@group("Matrix product", 2)
class GemmShape:
    """A matrix product C[m, n] = A[m, k] W[k, n]."""

    m: Size
    n: Size
    k: Size
    format: Annotated[
        Format,
        Row(
            "Number format of the arithmetic; fp8 means fp8_static. `kernel gemm` also takes fp64"
            " and fp32, which BLAS libraries multiply.",
            elsewhere=("dtype", "precision"),
            common=True,
        ),
    ] = "bf16"
    groups: Size = 1


@group("Matrix product", 2)
class MeasuredProduct:
    """A matrix product C[m, n] = A[m, k] W[k, n]."""

    group_sizes: Annotated[Literal["equal", "random"], GROUPED] = "equal"
    grouped_kernel: Annotated[Literal["best_tile", "torch"], GROUPED] = "best_tile"
    quantization: Annotated[
        Literal["excluded", "included"], conditions.Equals("format", *QUANTIZED)
    ] = "excluded"


Phase = Annotated[
    Literal["prefill", "decode"],
    Row("Prefill (many new tokens per sequence) or decode (one).", common=True),
]
Mask = Annotated[
    Literal["causal", "none"],
    Row(
        "Mask of the keys: causal, or none, where every query sees every key (encoders).",
        needs=PREFILL_GQA,
    ),
]
LatentRank = Annotated[Size, Row("Rank of the latent KV cache.", needs=MLA)]
RopeDim = Annotated[
    Size, Row("Rotary dimensions per head.", needs=MLA, elsewhere=("qk_rope_head_dim",))
]
Direction = Annotated[
    Literal["forward", "backward", "forward_backward"],
    Row(
        "Forward pass, backward pass, or both; the backward pass multiplies five matrices where"
        " the forward pass multiplies two.",
        needs=PREFILL_GQA,
        elsewhere=("mode",),
    ),
]


@group("Attention", 2)
class AttentionPhase:
    """Attention of one layer."""

    phase: Phase = "decode"


@group("Attention", 2)
class AttentionKind:
    """Attention of one layer."""

    kind: Literal["gqa", "mla"] = "gqa"


@group("Attention", 2)
class AttentionSizes:
    """Attention of one layer."""

    batch: Size = 1
    q_len: Size | None = None
    kv_len: Size
    num_heads: Size
    num_kv_heads: Annotated[Size | None, conditions.NotEqual("kind", "mla")] = None
    head_dim: Size = 128


@group("Attention", 2)
class AttentionShape:
    """Attention of one layer."""

    kv_lora_rank: LatentRank = 512
    rope_dim: RopeDim = 64
    format: Format = "bf16"
    kv_format: FormatName = "bf16"
    window: SizeOrZero = 0
    mask: Mask = "causal"
    cache_append: Annotated[
        Literal["excluded", "included"] | None,
        conditions.AllOf(PREFILL_GQA, conditions.NotEqual("tier", "bound")),
    ] = None
    direction: Direction = "forward"


@group("Attention", 2)
class DesignedAttention:
    """Attention of one layer."""

    phase: Phase = "prefill"
    kv_lora_rank: LatentRank = 512
    rope_dim: RopeDim = 64
    format: Format = "bf16"
    mask: Annotated[Literal["causal", "none"], conditions.Equals("phase", "prefill")] = "causal"
    direction: Annotated[Literal["forward", "backward"], conditions.Equals("phase", "prefill")] = (
        "forward"
    )


@group("Tile", 3)
class TileChoice:
    """Tile of a thread block."""

    tile_m: Annotated[Size | None, conditions.AnySet("tile_n", example="128")] = None
    tile_n: Annotated[Size | None, conditions.AnySet("tile_m", example="128")] = None
    tile_k: Annotated[Size | None, conditions.AnySet("tile_m", example="128")] = None
    stages: Annotated[Size | None, conditions.AnySet("tile_m", example="128")] = None
    warpgroups: Annotated[Size | None, conditions.AnySet("tile_m", example="128")] = None


@group("Measurement", 4)
class TuneBudget:
    """Measurement of designs on the GPU of this machine."""

    budget_s: Annotated[float, Number(unit="s", above=0.0, at_most=1e6)] | None = None


@group("Sum over ranks", 2)
class ReducedRows:
    """Rows that are added over the GPUs of a node, then normalized."""

    gpus: Annotated[int, Number(at_least=2, at_most=576)]


@group("Step", 2)
class TunedStep:
    """A prefill step and a decode step of a model."""

    batch: Size = 1
    isl: Size = 1024
    tp: Count = 1
    format: Format = "bf16"


@group("Convolution", 2)
class ConvShape:
    """A convolution of images, channels by height and width, with square or flat kernels."""

    batch: Size
    channels: Size
    height: Size
    width: Size
    filters: Size
    kernel: Size
    kernel_width: Size | None = None
    stride: Size = 1
    padding: SizeOrZero | None = None
    groups: Size = 1
    format: Format = "bf16"


@group("Rows", 3)
class RowShape:
    """Rows of an operator that is limited by memory bandwidth."""

    tokens: Size
    width: Size


@group("Norm", 2)
class NormShape:
    """A norm, by what it reads and writes."""

    kind: Literal["rms", "layer", "group", "batch"] = "rms"
    residual: Annotated[
        Literal["excluded", "included"], conditions.Equals("kind", "rms", "layer")
    ] = "included"
    batch: Annotated[Size, conditions.Equals("kind", "group")] = 1
    groups: Annotated[Size, conditions.Equals("kind", "group")] = 32


@group("Embedding", 2)
class EmbeddingShape:
    """A lookup of rows of a table, which are in device memory."""

    ids: Size = 1
    rows: Size | None = None


@group("Elementwise operator", 2)
class ElementwiseShape:
    """An operator on each element of its rows."""

    op: Literal["activation", "rope_and_cache", "quantize", "sampling"]
    kv_width: Annotated[SizeOrZero, ROPE] = 0
    kv_format: Annotated[FormatName, conditions.AllOf(ROPE, conditions.NotEqual("kv_width", 0))] = (
        "bf16"
    )
    format: Annotated[FormatName, conditions.Equals("op", "quantize")] = "fp8_static"


@group("Experts", 2)
class MoeShape:
    """Routed experts of one layer."""

    tokens: Size
    hidden: Size
    intermediate: Size
    experts: Size
    top_k: Size
    ep: Count = 1
    moe_tp: Count = 1
    format: Format = "bf16"
    distribution: Distribution = "uniform"


@group("Collective", 2)
class CollectiveShape:
    """One collective operation."""

    op: Literal[
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "all_to_all",
        "dispatch",
        "combine",
        "send_recv",
    ]
    bytes: Annotated[float, Number(unit="bytes", at_least=1, at_most=1e15, binary_suffixes=True)]
    format: Annotated[FormatName, REDUCTION] = "bf16"
    gpus: Count
    nodes: Count | None = None


@group("Network", 3)
class CollectiveRoutes:
    """Routes of flows between nodes, and what else is on their links."""

    fabric_routing: Literal["ecmp", "adaptive"] | None = None
    queue_pairs: Annotated[
        Annotated[int, Number(at_least=1, at_most=64)], conditions.Equals("fabric_routing", "ecmp")
    ] = 1
    concurrent_jobs: Annotated[Annotated[int, Number(at_least=1, at_most=64)], ROUTED] = 1
    job_placement: Annotated[
        Literal["packed", "scattered"],
        conditions.WithMessage(
            conditions.NotEqual("concurrent_jobs", 1), "concurrent_jobs = 1", "set concurrent_jobs"
        ),
    ] = "packed"
    failed_links: Annotated[SizeOrZero, ROUTED] = 0
    link_failure: Annotated[
        Literal["down", "flapping"],
        conditions.WithMessage(
            conditions.NotEqual("failed_links", 0), "failed_links = 0", "set failed_links"
        ),
    ] = "down"
    seed: Annotated[
        Annotated[int, Number(at_least=0, at_most=2**31)],
        Row("Seed of random draws.", elsewhere=("random_seed", "rng_seed"), needs=ROUTED),
    ] = 0
    algorithm_file: Annotated[
        Annotated[str, Text(), InputFile()] | None,
        conditions.AllOf(
            ROUTED,
            conditions.Equals("tier", "auto", "bound"),
            conditions.Equals("concurrent_jobs", 1),
            conditions.Equals("link_failure", "down"),
            conditions.NotSet("kernel_family", "names a library, whose algorithms are not those"),
        ),
    ] = None


@group("Kernels", 4)
class CollectiveKernels:
    """Collective library, and the measured tables that correct it."""

    kernel_family: Annotated[
        Annotated[EngineName, Checked(_library)] | None,
        conditions.AnyOf(
            conditions.Equals("op", "all_reduce", "dispatch", "combine"),
            conditions.Equals("kernel_family", LIBRARY),
        ),
    ] = None
    silicon_version: Annotated[
        Annotated[str, Text(64)] | None,
        conditions.AllOf(
            conditions.Equals("tier", "measured"),
            conditions.Equals("op", "all_reduce"),
            conditions.WithMessage(
                conditions.NotEqual("kernel_family", LIBRARY),
                f"the tables of kernel_family = {LIBRARY} have their own versions",
                "set kernel_family to an engine",
            ),
        ),
    ] = None
