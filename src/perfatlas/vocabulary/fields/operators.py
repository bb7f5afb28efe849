"""Fields of one operator on one device, and of one collective."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from perfatlas.vocabulary.fields import conditions
from perfatlas.vocabulary.fields.numbers import Count, Number, Size, SizeOrZero
from perfatlas.vocabulary.fields.rows import Checked, Row, Text, group
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

    kernel_family: Annotated[
        EngineName | None,
        Row(
            "Engine that provides the kernels, such as vllm or sglang.",
            default="the fastest engine",
            elsewhere=("engine", "backend", "framework"),
        ),
    ] = None
    protocol: Annotated[
        Literal["cold"], Row("Measurement protocol: cold (caches empty at the start).")
    ] = "cold"


@group("Matrix product", 2)
class GemmShape:
    """A matrix product C[m, n] = A[m, k] W[k, n]."""

    m: Annotated[Size, Row("Rows of the activations: tokens.", elsewhere=("num_tokens", "tokens"))]
    n: Annotated[Size, Row("Columns of the weights: output features.", elsewhere=("out_features",))]
    k: Annotated[Size, Row("Inner dimension: input features.", elsewhere=("in_features",))]
    format: Format = "bf16"
    groups: Annotated[
        Size,
        Row(
            "Products of m rows each, with weights of their own: a grouped GEMM, such as that of"
            " the experts on a GPU.",
            elsewhere=("num_groups", "num_local_experts"),
        ),
    ] = 1


@group("Matrix product", 2)
class MeasuredProduct:
    """A matrix product C[m, n] = A[m, k] W[k, n]."""

    group_sizes: Annotated[
        Literal["equal", "random"],
        Row(
            "Rows of the groups: all m, or cut at random points with m in the mean. Each group"
            " fills whole tiles of rows.",
            needs=GROUPED,
        ),
    ] = "equal"
    grouped_kernel: Annotated[
        Literal["best_tile", "torch"],
        Row(
            "Kernel of a grouped product: the output tile is chosen for the shape, as libraries of"
            " single products and DeepGEMM do, or fixed as in torch._grouped_mm.",
            needs=GROUPED,
        ),
    ] = "best_tile"
    quantization: Annotated[
        Literal["excluded", "included"],
        Row(
            "Include the time to quantize the activations dynamically, in a kernel before the"
            " product.",
            needs=conditions.Equals("format", *QUANTIZED),
        ),
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

    kind: Annotated[
        Literal["gqa", "mla"],
        Row(
            "Grouped-query attention (also MHA and MQA) or multi-head latent attention.",
            elsewhere=("attention_type",),
            common=True,
        ),
    ] = "gqa"


@group("Attention", 2)
class AttentionSizes:
    """Attention of one layer."""

    batch: Annotated[
        Size,
        Row("Sequences in the batch.", elsewhere=("batch_size", "bs", "num_seqs"), common=True),
    ] = 1
    q_len: Annotated[
        Size | None,
        Row(
            "New tokens per sequence.",
            default="1 in decode, kv_len in prefill",
            elsewhere=("query_len", "q_seq_len"),
            common=True,
        ),
    ] = None
    kv_len: Annotated[
        Size,
        Row(
            "Keys per sequence, including the new tokens.",
            elsewhere=("context_len", "context_length", "seq_len", "kv_seq_len"),
            common=True,
        ),
    ]
    num_heads: Annotated[
        Size,
        Row(
            "Query heads on this GPU.",
            elsewhere=("num_attention_heads", "num_q_heads"),
            common=True,
        ),
    ]
    num_kv_heads: Annotated[
        Size | None,
        Row(
            "Key-value heads on this GPU, a divisor of num_heads.",
            default="num_heads",
            needs=conditions.NotEqual("kind", "mla"),
            elsewhere=("num_key_value_heads",),
            common=True,
        ),
    ] = None
    head_dim: Annotated[
        Size,
        Row(
            "Head dimension; for mla, of values and of the non-rotary part of keys.",
            elsewhere=("head_size", "v_head_dim", "qk_nope_head_dim"),
            common=True,
        ),
    ] = 128


@group("Attention", 2)
class AttentionShape:
    """Attention of one layer."""

    kv_lora_rank: LatentRank = 512
    rope_dim: RopeDim = 64
    format: Format = "bf16"
    kv_format: Annotated[
        FormatName,
        Row(
            "Number format of the KV cache.",
            elsewhere=("kv_cache_dtype", "kvcache_dtype"),
            common=True,
        ),
    ] = "bf16"
    window: Annotated[
        SizeOrZero,
        Row(
            "Maximum keys a query attends to: the sliding window (gqa) or the keys selected by"
            " sparse attention (mla); 0 for all.",
            elsewhere=("sliding_window", "window_size", "index_topk"),
            common=True,
        ),
    ] = 0
    mask: Mask = "causal"
    cache_append: Annotated[
        Literal["excluded", "included"] | None,
        Row(
            "Include the append of new keys and values to the KV cache, as an engine's call does;"
            " excluded: the attention kernel alone, as kernel benchmarks time it.",
            default="included in the forward pass",
            needs=conditions.AllOf(PREFILL_GQA, conditions.NotEqual("tier", "bound")),
        ),
    ] = None
    direction: Direction = "forward"


@group("Attention", 2)
class DesignedAttention:
    """Attention of one layer."""

    phase: Phase = "prefill"
    kv_lora_rank: LatentRank = 512
    rope_dim: RopeDim = 64
    format: Format = "bf16"
    mask: Annotated[
        Literal["causal", "none"],
        Row(
            "Mask of the keys: causal, or none, where every query sees every key (encoders).",
            needs=conditions.Equals("phase", "prefill"),
        ),
    ] = "causal"
    direction: Annotated[
        Literal["forward", "backward"],
        Row(
            "Forward or backward pass; the backward pass multiplies five matrices where the"
            " forward pass multiplies two.",
            needs=conditions.Equals("phase", "prefill"),
            elsewhere=("mode",),
        ),
    ] = "forward"


@group("Tile", 3)
class TileChoice:
    """Tile of a thread block."""

    tile_m: Annotated[
        Size | None,
        Row(
            "Rows of the tile: of queries, or of the output.",
            default="that of the best known kernel",
            needs=conditions.AnySet("tile_n", example="128"),
            elsewhere=("block_m", "BLOCK_M"),
        ),
    ] = None
    tile_n: Annotated[
        Size | None,
        Row(
            "Columns of the tile: keys of a block, or columns of the output.",
            default="that of the best known kernel",
            needs=conditions.AnySet("tile_m", example="128"),
            elsewhere=("block_n", "BLOCK_N"),
        ),
    ] = None
    tile_k: Annotated[
        Size | None,
        Row(
            "Depth of a block of the main loop; in attention, head_dim.",
            default="128 bytes, or head_dim",
            needs=conditions.AnySet("tile_m", example="128"),
            elsewhere=("block_k", "BLOCK_K"),
        ),
    ] = None
    stages: Annotated[
        Size | None,
        Row(
            "Buffers of the main loop in shared memory: pairs of operand tiles, or single tiles of"
            " keys or values.",
            default="as many as fit, up to 8",
            needs=conditions.AnySet("tile_m", example="128"),
            elsewhere=("num_stages",),
        ),
    ] = None
    warpgroups: Annotated[
        Size | None,
        Row(
            "Warpgroups that compute, each on its own rows of the tile.",
            default="one for the rows of an MMA instruction, up to 2",
            needs=conditions.AnySet("tile_m", example="128"),
        ),
    ] = None


@group("Convolution", 2)
class ConvShape:
    """A convolution of images, channels by height and width, with square or flat kernels."""

    batch: Annotated[Size, Row("Images.", common=True)]
    channels: Annotated[Size, Row("Channels of an input image.", elsewhere=("in_channels",))]
    height: Annotated[Size, Row("Height of an input image.")]
    width: Annotated[Size, Row("Width of an input image.")]
    filters: Annotated[Size, Row("Channels of an output image.", elsewhere=("out_channels",))]
    kernel: Annotated[Size, Row("Height of the kernel.", elsewhere=("kernel_size",))]
    kernel_width: Annotated[Size | None, Row("Width of the kernel.", default="kernel")] = None
    stride: Annotated[Size, Row("Distance of kernels, in both directions.")] = 1
    padding: Annotated[
        SizeOrZero | None,
        Row("Zeros on each side, in both directions.", default="half the kernel, rounded down"),
    ] = None
    groups: Annotated[
        Size,
        Row(
            "Groups of channels with filters of their own; as many as channels and filters is a"
            " depthwise convolution, which is limited by memory bandwidth.",
        ),
    ] = 1
    format: Format = "bf16"


@group("Rows", 3)
class RowShape:
    """Rows of an operator that is limited by memory bandwidth."""

    tokens: Annotated[
        Size,
        Row(
            "Rows: tokens of a step, rows of a softmax, samples of an embedding, or positions of"
            " all images of a norm.",
            elsewhere=("num_tokens", "m"),
        ),
    ]
    width: Annotated[
        Size,
        Row(
            "Elements per row: the hidden size, the channels of images, the keys of a softmax, the"
            " output width of an activation, query heads x head_dim of a rotary embedding, or the"
            " vocabulary of sampling.",
            elsewhere=("hidden", "hidden_size", "hidden_dim", "vocab_size", "channels"),
        ),
    ]


@group("Norm", 2)
class NormShape:
    """A norm, by what it reads and writes."""

    kind: Annotated[
        Literal["rms", "layer", "group", "batch"],
        Row(
            "Norm: RMSNorm, LayerNorm, GroupNorm, which reads its input once more for the"
            " statistics of groups, or BatchNorm in inference.",
            common=True,
        ),
    ] = "rms"
    residual: Annotated[
        Literal["excluded", "included"],
        Row(
            "Whether the residual is added to the input, and written, by the same kernel.",
            needs=conditions.Equals("kind", "rms", "layer"),
        ),
    ] = "included"
    batch: Annotated[
        Size,
        Row(
            "Images among which the tokens of a GroupNorm are divided.",
            needs=conditions.Equals("kind", "group"),
            common=True,
        ),
    ] = 1
    groups: Annotated[
        Size,
        Row(
            "Groups of channels of a GroupNorm, each of an image a thread block.",
            needs=conditions.Equals("kind", "group"),
            elsewhere=("num_groups",),
        ),
    ] = 32


@group("Embedding", 2)
class EmbeddingShape:
    """A lookup of rows of a table, which are in device memory."""

    ids: Annotated[Size, Row("Ids per sample, whose rows are summed (embedding bag).")] = 1
    rows: Annotated[
        Size | None,
        Row(
            "Rows of the table. The roofline reads each of them once at most; those that the L2"
            " cache does not hold are read again for each id.",
            default="no limit",
            elsewhere=("num_embeddings",),
        ),
    ] = None


@group("Elementwise operator", 2)
class ElementwiseShape:
    """An operator on each element of its rows."""

    op: Annotated[
        Literal["activation", "rope_and_cache", "quantize", "sampling"],
        Row(
            "Operator: gated activation, rotary embedding with the append to the KV cache, dynamic"
            " quantization, or sampling.",
            positional=True,
            elsewhere=("operation",),
        ),
    ]
    kv_width: Annotated[
        SizeOrZero,
        Row("Elements of keys and values per token: 2 x KV heads x head_dim.", needs=ROPE),
    ] = 0
    kv_format: Annotated[
        FormatName,
        Row(
            "Number format of the KV cache.",
            needs=conditions.AllOf(ROPE, conditions.NotEqual("kv_width", 0)),
            elsewhere=("kv_cache_dtype", "kvcache_dtype"),
            common=True,
        ),
    ] = "bf16"
    format: Annotated[
        FormatName,
        Row(
            "Number format that activations are quantized to.",
            needs=conditions.Equals("op", "quantize"),
            elsewhere=("dtype", "precision"),
            common=True,
        ),
    ] = "fp8_static"


@group("Experts", 2)
class MoeShape:
    """Routed experts of one layer."""

    tokens: Annotated[
        Size,
        Row(
            "Tokens before routing, over all ranks of the expert-parallel group.",
            elsewhere=("num_tokens",),
        ),
    ]
    hidden: Annotated[
        Size, Row("Hidden size of the model.", elsewhere=("hidden_size", "hidden_dim"))
    ]
    intermediate: Annotated[
        Size,
        Row(
            "Intermediate size of an expert before sharding, a multiple of moe_tp.",
            elsewhere=("intermediate_size", "moe_intermediate_size", "inter_size"),
        ),
    ]
    experts: Annotated[
        Size,
        Row(
            "Routed experts before sharding, a multiple of ep.",
            elsewhere=("num_experts", "n_routed_experts", "num_local_experts"),
        ),
    ]
    top_k: Annotated[
        Size, Row("Experts per token.", elsewhere=("topk", "num_experts_per_tok", "moe_top_k"))
    ]
    ep: Annotated[
        Count,
        Row("Expert-parallel size.", elsewhere=("expert_parallel_size", "ep_size", "moe_ep_size")),
    ] = 1
    moe_tp: Annotated[
        Count,
        Row(
            "Tensor-parallel size inside an expert.",
            elsewhere=("moe_tp_size", "expert_tensor_parallel_size"),
        ),
    ] = 1
    format: Format = "bf16"
    distribution: Annotated[
        Distribution,
        Row(
            "Routing of tokens to experts: uniform (random), balanced (equal loads) or"
            " power_law_1.2.",
            elsewhere=("expert_distribution",),
        ),
    ] = "uniform"


@group("Collective", 2)
class CollectiveShape:
    """One collective operation."""

    op: Annotated[
        Literal[
            "all_reduce",
            "all_gather",
            "reduce_scatter",
            "all_to_all",
            "dispatch",
            "combine",
            "send_recv",
        ],
        Row("Collective operation.", elsewhere=("operation", "collective_op")),
    ]
    bytes: Annotated[
        Annotated[float, Number(unit="bytes", at_least=1, at_most=1e15, binary_suffixes=True)],
        Row(
            "Message size as nccl-tests defines it, such as 65536, 64KiB or 1MB; K, M and G alone"
            " are powers of 1,024, as in nccl-tests: 64K is 65536.",
            elsewhere=("size", "size_bytes", "message_size", "nbytes"),
        ),
    ]
    format: Annotated[
        FormatName,
        Row(
            "Number format of the elements; in-network reduction does not support integers.",
            needs=REDUCTION,
            elsewhere=("dtype", "datatype"),
            common=True,
        ),
    ] = "bf16"
    gpus: Annotated[
        Count,
        Row("Participating GPUs.", elsewhere=("num_gpus", "n_gpus", "world_size", "ranks")),
    ]
    nodes: Annotated[
        Count | None,
        Row(
            "Nodes, each with the same number of GPUs.",
            default="the fewest that hold the GPUs",
            elsewhere=("num_nodes", "n_nodes", "nnodes"),
        ),
    ] = None


@group("Kernels", 4)
class CollectiveKernels:
    """Collective library, and the measured tables that correct it."""

    kernel_family: Annotated[
        Annotated[EngineName, Checked(_library)] | None,
        Row(
            "Library that provides the collective: nccl, or the all-reduce kernels of an engine"
            " such as vllm.",
            default="the fastest for all_reduce, nccl for other operations",
            needs=conditions.AnyOf(
                conditions.Equals("op", "all_reduce", "dispatch", "combine"),
                conditions.Equals("kernel_family", LIBRARY),
            ),
            elsewhere=("engine", "backend", "framework"),
        ),
    ] = None
    silicon_version: Annotated[
        Annotated[str, Text(64)] | None,
        Row(
            "Engine version of the measured tables of all-reduce kernels.",
            default="the version of the calibrations",
            needs=conditions.AllOf(
                conditions.Equals("tier", "measured"),
                conditions.Equals("op", "all_reduce"),
                conditions.WithMessage(
                    conditions.NotEqual("kernel_family", LIBRARY),
                    f"the tables of kernel_family = {LIBRARY} have their own versions",
                    "set kernel_family to an engine",
                ),
            ),
        ),
    ] = None
