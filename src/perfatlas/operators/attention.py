"""Attention operators, and the query-key pairs under a mask.

Shape legend: C candidates. A column is float64 of shape (C,), with integer values for counts.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Self

import numpy as np

from perfatlas.formats import get_format
from perfatlas.operators.copies import with_fields
from perfatlas.operators.operator import ACTIVATION_BYTES, Group, Operator
from perfatlas.operators.streaming import Streaming
from perfatlas.operators.work import FloatArray, Phase, Work

if TYPE_CHECKING:
    from perfatlas.operators.operator import Ranks, WorkClass

# The backward pass of flash attention multiplies five matrices per tile where the forward pass
# multiplies two: it recomputes the scores.
# Source: FlashAttention-2 (arXiv 2307.08691), section 3.1.2.
ATTENTION_BACKWARD: Final = 2.5
COPIES: Final = 2.0  # of a tensor that an all-to-all exchanges: before and after it
STATISTICS_BYTES: Final = 4.0  # of the softmax in flash attention, fp32 per query and head
PARTIAL_BYTES: Final = 4.0  # of an output over some of the keys, fp32
FOLLOWING: Final = "elementwise_after_elementwise"  # what some engines fuse
STATISTICS_KERNELS: Final = 5.0  # of two rows of statistics: those of a merge, and their sum


@dataclass(frozen=True, kw_only=True)
class KeyReader(Operator):
    """An operator whose queries read keys of their sequence.

    The last q_len of kv_len tokens are queries.
    """

    work_class: ClassVar[WorkClass] = "attention"
    per_sequence: ClassVar[bool] = True
    reads_keys: ClassVar[bool] = True
    backward_passes: ClassVar[float] = ATTENTION_BACKWARD

    batch: FloatArray  # Sequences (C,)
    q_len: FloatArray  # Queries per sequence; 1 in decode (C,)
    kv_len: FloatArray  # Keys per sequence, including the cached prefix and the queries (C,)

    def key_limit(self) -> FloatArray:
        """Return the maximum keys of a query, 0 for all (C,)."""
        return np.zeros_like(self.q_len)

    def divided(self, ranks: Ranks) -> Self:
        """Return the queries of one rank, with a balanced part of the causal work."""
        if ranks.cp is None:
            return self
        q_len, kv_len = _balanced(self.q_len, self.kv_len, self.key_limit(), ranks.cp)
        return with_fields(self, q_len=q_len, kv_len=kv_len)

    def verifying(self, batch: FloatArray, queries: int) -> Self:
        """Return it in a decode step that verifies several tokens per sequence.

        Every query reads its own keys.

        Args:
            batch: Sequences (C,).
        """
        return with_fields(self, batch=batch * queries)


@dataclass(frozen=True, kw_only=True)
class _HeadReader(KeyReader):
    """Query heads, which a tensor-parallel group divides."""

    num_heads: FloatArray  # Query or score heads on the rank (C,)

    def divided(self, ranks: Ranks) -> Self:
        """Return the heads of one rank over its queries."""
        local = super().divided(ranks)
        if not self.tensor_parallel:
            return local
        return with_fields(local, num_heads=self.num_heads / ranks.tp)

    def verifying(self, batch: FloatArray, queries: int) -> Self:
        """Return it in a decode step that verifies several tokens per sequence.

        All queries read the same keys, as if they were heads.
        """
        return with_fields(self, batch=batch, num_heads=self.num_heads * queries)


@dataclass(frozen=True, kw_only=True)
class _Softmax(_HeadReader):
    """Softmax over the scores of queries and keys."""

    def context_elements(self) -> FloatArray:
        """Return the keys and values that a rank sends to the others of its sequence (C,)."""
        return self.batch * self.q_len * self.key_row()

    @abstractmethod
    def key_row(self) -> FloatArray:
        """Return elements of keys and values per token on the rank (C,)."""

    @abstractmethod
    def query_width(self) -> FloatArray:
        """Return the width of a query head (C,)."""

    @abstractmethod
    def partial_widths(self) -> tuple[FloatArray, FloatArray]:
        """Return the widths of a query head and of its output over some of the keys, each (C,)."""

    def striped_over(self, ranks: Ranks) -> FloatArray | None:
        """Return the ranks over which cached keys are striped (C,); None where none are."""
        return ranks.dcp

    def divided(self, ranks: Ranks) -> Self:
        """Return the part of one rank; in decode, all heads of its stripe group on its keys."""
        local, striped_C = super().divided(ranks), self.striped_over(ranks)
        if striped_C is None or self.phase != Phase.DECODE:
            return local
        heads_C, keys_C = local.num_heads * striped_C, np.maximum(local.kv_len / striped_C, 1.0)
        return with_fields(local, num_heads=heads_C, kv_len=keys_C)

    def collectives(self, ranks: Ranks) -> tuple[tuple[Operator, ...], tuple[Operator, ...]]:
        """Return the collectives around it, under decode context parallelism those of partial sums.

        In decode all heads of the group attend to the keys of each rank: queries are gathered
        before, and the outputs are merged by the log-sum-exp of each rank and reduce-scattered.
        Prompts do the same for the cached tokens before a chunk (see `LatentAttention`).

        Source: vllm-project/vllm, v1/attention/ops/common.py, cp_lse_ag_out_rs, and v1/attention/
            backends/flash_attn.py, _forward_with_dcp; SGLang documentation, "Decode Context
            Parallelism", backend ag_rs.
        Limits: Outputs are reduced in 16 bits, which SGLang does in fp32. All-to-all backends and
            replicated query projections, with fewer collectives, are not modeled; neither is the
            smaller read of the keys of a prompt that each rank holds.
        """
        before, after = super().collectives(ranks)
        if (striped_C := self.striped_over(ranks)) is None:
            return before, after
        group = Group(ranks=striped_C, stride=np.ones_like(striped_C))
        decodes = self.phase == Phase.DECODE
        cached = self if decodes else self.with_cached_context()
        heads_C = self.num_heads * (1.0 if decodes else striped_C)
        rows_C = self.batch * self.q_len * heads_C
        query_C, output_C = (rows_C * width * ACTIVATION_BYTES for width in self.partial_widths())
        label = "" if decodes else "context_"
        merge = Streaming(
            name=f"{self.name}_{label}merge",
            phase=self.phase,
            count=np.where(striped_C > 1.0, cached.count, 0.0),
            stream="elementwise",
            tokens=rows_C,
            read_bytes=output_C + rows_C * striped_C * STATISTICS_BYTES,
            write_bytes=output_C,
            cold_read_bytes=0.0 * output_C,
        )
        queries, statistics, outputs = (
            cached.collective(op, size_C, group, label=f"{label}{of}_{op}")
            for of, op, size_C in (
                ("query", "all_gather", query_C),
                ("lse", "all_gather", rows_C * striped_C * STATISTICS_BYTES),
                ("output", "reduce_scatter", output_C),
            )
        )
        return (*before, queries), (statistics, merge, outputs, *after)

    def with_cached_context(self) -> Self:
        """Return it, with count 0 where no tokens are cached before its queries."""
        return with_fields(self, count=np.where(self.kv_len > self.q_len, self.count, 0.0))

    def saved_inputs(self) -> FloatArray:
        """Return queries, keys and values; the output is kept by the next product (C,) [bytes]."""
        row = self.num_heads * self.query_width() + self.key_row()
        return self.batch * self.q_len * row * ACTIVATION_BYTES

    def softmax_rows(self) -> FloatArray:
        """Return the queries of all heads (C,)."""
        return self.batch * self.q_len * self.num_heads

    def scores(self) -> FloatArray:
        """Return the scores, masked ones too (C,)."""
        return self.softmax_rows() * self.kv_len


@dataclass(frozen=True, kw_only=True)
class Attention(_Softmax):
    """Softmax attention with H query and KV key-value heads (MHA, GQA, MQA).

    A window of 0 means none.
    """

    kind: ClassVar[str] = "attention"

    num_kv_heads: FloatArray  # Key-value heads on the rank, at least 1 (C,)
    head_dim: FloatArray  # Width of a query and key head (C,)
    value_head_dim: FloatArray  # Width of a value head (C,)
    window: FloatArray  # Sliding window in tokens, 0 for none (C,)
    format: str = "bf16"  # Format of the products
    kv_format: str = "bf16"  # Format of the cache
    kv_bytes_per_element: float = 2.0  # Bytes of a cached element
    causal: bool = True  # Whether a query sees only the keys up to its own; else it sees all
    # Whether the time of a prefill includes the append of new keys and values to the cache, as in
    # an engine's call
    cache_append: bool = True
    # Whether context-parallel ranks divide its heads over the whole sequence, which an all-to-all
    # before and after it exchanges (Ulysses); else its queries
    exchanges_heads: bool = False
    # Blocks of keys that rotate among ranks, of which each execution reads one (C,); None: no ring
    key_blocks: FloatArray | None = None

    def key_limit(self) -> FloatArray:
        """Return the window, 0 for none (C,)."""
        return self.window

    def striped_over(self, ranks: Ranks) -> FloatArray | None:
        """Return the ranks over which cached keys are striped, 1 for those of a window (C,)."""
        return None if ranks.dcp is None else np.where(self.window > 0, 1.0, ranks.dcp)

    def partial_widths(self) -> tuple[FloatArray, FloatArray]:
        """Return the widths of a query head and of its output, each (C,)."""
        return self.head_dim, self.value_head_dim

    def divided(self, ranks: Ranks) -> Self:
        """Return the heads of one rank over its queries, with at least one key-value head."""
        if self.exchanges_heads and ranks.cp is not None:
            ways = _ulysses(ranks.cp, ranks)
            heads, kv_heads = self.num_heads / ways, self.num_kv_heads / ways
            changes = {} if ranks.ring is None else _in_ring(self, ranks.ring)
            if ranks.guidance is not None:
                changes["batch"] = self.batch / ranks.guidance
            return with_fields(self, num_heads=heads, num_kv_heads=kv_heads, **changes)
        local = super().divided(ranks)
        if not self.tensor_parallel:
            return local
        return with_fields(local, num_kv_heads=np.maximum(self.num_kv_heads / ranks.tp, 1.0))

    def collectives(self, ranks: Ranks) -> tuple[tuple[Operator, ...], tuple[Operator, ...]]:
        """Return the exchange of keys, or of heads: before it and, of its output, after it.

        An all-to-all each moves queries, keys, values and output. Its tensors are copied into the
        order of ranks before it and of tokens after it. Keys and values of a cross-attention do
        not travel: every rank computes its heads of them. With a ring, neighbors exchange heads,
        and peers of their groups rotate keys.

        Source: Ulysses, Jacobs et al. 2023 (arXiv 2309.14509, section 3.1); with a ring, Fang and
            Zhao 2024 (arXiv 2405.07719, section 3); feifeibear/long-context-attention, yunchang/
            comm/all_to_all.py, all_to_all_4D, and globals.py, set_seq_parallel_pg.
        Limits: A batch of one sequence needs no copy after the exchange of queries, keys, values.
        """
        if not self.exchanges_heads or ranks.cp is None:
            return super().collectives(ranks)
        blocks, inner = self.key_blocks, ranks.tp * ranks.attention_dp
        ways = _ulysses(ranks.cp, ranks)
        once = self if blocks is None else with_fields(self, count=self.count / blocks)
        widths = {"query": self.num_heads * self.head_dim}
        if blocks is not None or (ranks.ring is None and np.array_equal(self.kv_len, self.q_len)):
            widths["key"] = self.num_kv_heads * self.head_dim
            widths["value"] = self.num_kv_heads * self.value_head_dim
        group = Group(ranks=ways, stride=inner)
        before = [
            operator
            for of, width_C in widths.items()
            for operator in _exchange(once, of, width_C, group)
        ]
        after = _exchange(once, "output", self.num_heads * self.value_head_dim, group)
        if blocks is None:
            return tuple(before), after
        rotation, *merging = _rotation(once, Group(ranks=blocks, stride=inner * ways))
        return (*before, rotation), (*merging, *after)

    def key_row(self) -> FloatArray:
        """Return elements of keys and values per token on the rank (C,)."""
        return self.num_kv_heads * (self.head_dim + self.value_head_dim)

    def query_width(self) -> FloatArray:
        """Return the width of a query head (C,)."""
        return self.head_dim

    def kept_outputs(self) -> FloatArray:
        """Return queries, values, outputs and statistics of the softmax (C,) [bytes]."""
        heads = self.num_heads * (self.head_dim + self.value_head_dim)
        row = (heads + self.num_kv_heads * self.value_head_dim) * ACTIVATION_BYTES
        return self.batch * self.q_len * (row + self.num_heads * STATISTICS_BYTES)

    def visible_pairs(self) -> FloatArray:
        """Return unmasked query-key pairs per sequence and head (C,)."""
        if not self.causal:
            return self.q_len * self.kv_len
        return visible_pairs(self.q_len, self.kv_len, self.window)

    def cached_tokens(self) -> FloatArray:
        """Return keys that the kernel must read per sequence (C,)."""
        limit = np.where(self.window > 0, self.window + self.q_len - 1.0, np.inf)
        return np.minimum(self.kv_len, limit)

    def work(self) -> Work:
        """Return minimum FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""
        pairs = self.batch * self.num_heads * self.visible_pairs()
        width = self.head_dim + self.value_head_dim
        kv_elements = self.batch * self.num_kv_heads * width
        fresh = kv_elements * self.q_len * self.kv_bytes_per_element
        cached = kv_elements * np.maximum(self.cached_tokens() - self.q_len, 0.0)
        return Work(
            flop=2.0 * pairs * width,
            cold_bytes=cached * self.kv_bytes_per_element,
            activation_bytes=self.batch * self.q_len * self.num_heads * width * 2.0 + fresh,
        )


def _ulysses(context_C: FloatArray, ranks: Ranks) -> FloatArray:
    """Return the ranks that exchange heads (C,)."""
    for others in (ranks.ring, ranks.guidance):
        context_C = context_C if others is None else context_C / others
    return context_C


def _in_ring(attention: Attention, ring: FloatArray) -> dict[str, FloatArray]:
    """Return the columns of one rank of a ring: its queries, over one block of keys at a time.

    Keys of a cross-attention do not rotate.

    Args:
        ring: Its ranks (C,).
    """
    queries = {"q_len": attention.q_len / ring}
    if not np.array_equal(attention.kv_len, attention.q_len):
        return queries
    count, kv_len = attention.count * ring, attention.kv_len / ring
    return {**queries, "count": count, "kv_len": kv_len, "key_blocks": ring}


def _exchange(
    attention: Attention, of: str, width_C: FloatArray, group: Group
) -> tuple[Operator, Operator]:
    """Return the all-to-all of a tensor over the ranks of a sequence, and its copies."""
    moved_C = attention.batch * attention.q_len * width_C * ACTIVATION_BYTES
    sent = attention.collective("all_to_all", moved_C, group, label=f"{of}_all_to_all")
    copies = Streaming(
        name=f"{attention.name}_{of}_copy",
        phase=attention.phase,
        count=COPIES * sent.count,
        stream="strided",
        tokens=attention.batch * attention.q_len * attention.num_heads,
        read_bytes=moved_C,
        write_bytes=moved_C,
        cold_read_bytes=0.0 * moved_C,
    )
    return sent, copies


def _rotation(attention: Attention, ring: Group) -> tuple[Operator, ...]:
    """Return the transfers of a ring, and the kernels that merge its partial outputs.

    The next block of keys and values is sent while attention reads the last one. Its output o is
    cast to fp32, and out - sigmoid(lse_o - lse) (out - o) replaces the output, where lse is the
    log of the sums of exponentials; the last output is cast back. Engines that fuse elementwise
    operators run the first kernel of a merge alone.

    Source: feifeibear/long-context-attention, yunchang/ring/ring_flash_attn.py,
        ring_flash_attn_forward: send_recv and commit before the kernel, wait after it;
        pytorch torch/distributed/tensor/experimental/_attention.py, _SDPAMerger, which xDiT runs
        (xfuser/model_executor/layers/usp.py).
    Limits: A merge is not beside the next transfer. PyTorch's own ring gathers all keys and values
        beside the first block.
    """
    blocks, rows_C = ring.ranks, attention.softmax_rows()
    elements_C = attention.batch * attention.q_len * attention.num_heads * attention.value_head_dim
    partial_C, statistics_C = elements_C * PARTIAL_BYTES, rows_C * STATISTICS_BYTES
    first = Streaming(  # the difference of two partial outputs
        name=f"{attention.name}_merge",
        phase=attention.phase,
        count=attention.count * (blocks - 1.0),
        stream="elementwise",
        tokens=rows_C,
        read_bytes=2.0 * partial_C,
        write_bytes=partial_C,
        cold_read_bytes=0.0 * partial_C,
    )
    scaled = with_fields(  # it is scaled and subtracted
        first,
        name=f"{first.name}_scaled",
        count=2.0 * first.count,
        stream=FOLLOWING,
        read_bytes=1.5 * partial_C,
    )
    statistics = with_fields(
        scaled,
        name=f"{first.name}_statistics",
        count=STATISTICS_KERNELS * first.count,
        read_bytes=2.0 * statistics_C,
        write_bytes=statistics_C,
    )
    cast_C = (partial_C + elements_C * ACTIVATION_BYTES) / 2.0
    casts = with_fields(
        first,
        name=f"{attention.name}_cast",
        count=np.where(blocks > 1.0, attention.count * (blocks + 1.0), 0.0),
        stream="cast",
        read_bytes=cast_C,
        write_bytes=cast_C,
    )
    merging = casts, first, scaled, statistics
    sent_C = attention.context_elements() * ACTIVATION_BYTES
    sent = attention.collective("send_recv", sent_C, ring, label="ring")
    return with_fields(sent, count=first.count, window=attention.name), *merging


@dataclass(frozen=True, kw_only=True)
class LatentAttention(_Softmax):
    """Multi-head latent attention (MLA): all heads share one compressed cache row.

    Prefill expands keys and values per head; decode attends in the latent space (absorbed).
    """

    kind: ClassVar[str] = "latent_attention"
    input_module: ClassVar[str] = "mla_up_proj"

    kv_lora_rank: FloatArray  # Latent width (C,)
    rope_dim: FloatArray  # Decoupled rotary width (C,)
    nope_dim: FloatArray  # Non-rotary width of an expanded key head (C,)
    value_head_dim: FloatArray  # Width of an expanded value head (C,)
    selected: FloatArray  # Maximum keys per query (sparse attention), 0 for all (C,)
    format: str = "bf16"  # Format of the products
    kv_format: str = "bf16"
    kv_bytes_per_element: float = 2.0  # Bytes of a cached element

    def pair_width(self) -> FloatArray:
        """Return multiply-adds per query-key pair and head (C,)."""
        absorbed = 2.0 * self.kv_lora_rank + self.rope_dim
        expanded = self.nope_dim + self.rope_dim + self.value_head_dim
        return absorbed if self.phase == Phase.DECODE else expanded

    def key_limit(self) -> FloatArray:
        """Return the selected keys, 0 for all (C,)."""
        return self.selected

    def partial_widths(self) -> tuple[FloatArray, FloatArray]:
        """Return the widths of an absorbed query head and of its latent output, each (C,)."""
        return self.kv_lora_rank + self.rope_dim, self.kv_lora_rank

    def divided(self, ranks: Ranks) -> Self:
        """Return the part of one rank, which holds its share of the selected keys."""
        local = super().divided(ranks)
        if ranks.dcp is None or self.phase != Phase.DECODE:
            return local
        selected_C = np.where(self.selected > 0, np.maximum(self.selected / ranks.dcp, 1.0), 0.0)
        return with_fields(local, selected=selected_C)

    def collectives(self, ranks: Ranks) -> tuple[tuple[Operator, ...], tuple[Operator, ...]]:
        """Return the collectives around it; prompts gather the latent rows cached before a chunk.

        Source: vllm-project/vllm, model_executor/layers/attention/mla_attention.py,
            _context_parallel_compute_prefill_context: rows are gathered in 16 bits, then expanded.
        """
        if ranks.dcp is None or self.phase == Phase.DECODE:
            return super().collectives(ranks)
        before, after = KeyReader.collectives(self, ranks)
        rows_C = self.batch * np.maximum(self.kv_len - self.q_len, 0.0) * self.key_row()
        group = Group(ranks=ranks.dcp, stride=np.ones_like(ranks.dcp))
        gathered = self.with_cached_context().collective(
            "all_gather", rows_C * ACTIVATION_BYTES, group, label="context_all_gather"
        )
        return (*before, gathered), after

    def verifying(self, batch: FloatArray, queries: int) -> Self:
        """Return it in a decode step that verifies several tokens per sequence.

        With key selection, every query reads its own keys; else all read the same.
        """
        if queries > 1 and np.any(self.selected > 0):
            return KeyReader.verifying(self, batch, queries)
        return super().verifying(batch, queries)

    def key_row(self) -> FloatArray:
        """Return elements per token that ranks exchange: the latent row, in training all heads.

        In training, keys and values are expanded before they are exchanged.
        """
        if self.phase == Phase.PREFILL:
            return self.kv_lora_rank + self.rope_dim
        return self.num_heads * (self.query_width() + self.value_head_dim)

    def query_width(self) -> FloatArray:
        """Return the width of an expanded query head (C,)."""
        return self.nope_dim + self.rope_dim

    def visible_pairs(self) -> FloatArray:
        """Return query-key pairs of one sequence and head (C,)."""
        return visible_pairs(self.q_len, self.kv_len, self.selected)

    def work(self) -> Work:
        """Return minimum FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""
        pairs = self.batch * self.num_heads * self.visible_pairs()
        row = (self.kv_lora_rank + self.rope_dim) * self.kv_bytes_per_element
        touched = np.where(
            self.selected > 0, np.minimum(self.kv_len, self.selected * self.q_len), self.kv_len
        )
        width = self.pair_width()
        return Work(
            flop=2.0 * pairs * width,
            cold_bytes=self.batch * np.maximum(touched - self.q_len, 0.0) * row,
            activation_bytes=self.batch * self.q_len * (self.num_heads * width * 2.0 + row),
        )


@dataclass(frozen=True, kw_only=True)
class KeyScores(_HeadReader):
    """Index scores of sparse attention: every query against every visible key."""

    kind: ClassVar[str] = "key_scores"

    head_dim: FloatArray  # Width of a score head (C,)
    key_bytes: float  # Bytes per cached key with its scale [bytes]
    score_bytes: float  # Bytes per score written [bytes]
    format: str  # Format of the products

    def work(self) -> Work:
        """Return minimum FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""
        pairs = self.batch * visible_pairs(self.q_len, self.kv_len, np.zeros_like(self.q_len))
        width = self.num_heads * self.head_dim
        queries = self.batch * self.q_len * width * get_format(self.format).activation_bytes
        return Work(
            flop=2.0 * pairs * width,
            cold_bytes=self.batch * self.kv_len * self.key_bytes,
            activation_bytes=queries + pairs * self.score_bytes,
        )


@dataclass(frozen=True, kw_only=True)
class KeySelection(KeyReader):
    """Top-k selection of the keys of each query in sparse attention."""

    kind: ClassVar[str] = "key_selection"

    selected: FloatArray  # Keys kept per query (C,)
    score_bytes: float  # Bytes per score read [bytes]
    index_bytes: float  # Bytes per selected index written [bytes]

    def work(self) -> Work:
        """Return minimum FLOP [FLOP] and bytes [bytes] of one execution, each (C,)."""
        zero = np.zeros_like(self.q_len)
        # A query with no more visible keys than it keeps needs no scores.
        choosing = np.clip(self.kv_len - self.selected, 0.0, self.q_len)
        scores = self.batch * visible_pairs(choosing, self.kv_len, zero)
        chosen = self.batch * self.q_len * self.selected
        return Work(
            flop=zero,
            cold_bytes=zero,
            activation_bytes=scores * self.score_bytes + chosen * self.index_bytes,
        )


def visible_pairs(q_len: FloatArray, kv_len: FloatArray, limit: FloatArray) -> FloatArray:
    """Return query-key pairs per sequence under a causal mask and a key limit (C,).

    The i-th of q queries (i = 1..q) sees kv - q + i keys, at most `limit` if limit > 0.

    Args:
        q_len: Queries (C,).
        kv_len: Keys, including the queries (C,).
        limit: Window or selection in keys, 0 for none (C,).

    Example:
        >>> import numpy as np
        >>> from perfatlas.operators import visible_pairs
        >>> float(visible_pairs(np.array([4.0]), np.array([4.0]), np.array([0.0]))[0])
        10.0
    """
    cap = np.where(limit > 0, limit, np.inf)
    first = kv_len - q_len + 1.0
    growing = np.clip(cap - first, 0.0, q_len)  # queries whose key count is still below the cap
    growing = np.where(np.isfinite(growing), growing, q_len)
    below = growing * first + growing * (growing - 1.0) / 2.0
    capped = q_len - growing
    return below + np.where(capped > 0, capped * np.minimum(cap, kv_len), 0.0)


def _balanced(
    q_len: FloatArray, kv_len: FloatArray, limit: FloatArray, parts: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return (queries, keys) of one of `parts` ranks with balanced causal work, each (C,).

    A rank has q = Q/parts queries. The keys are set so that its visible pairs are exactly those of
    the sequence divided by `parts`. Without a limit that is K - (Q - q)/2: with two ranks and no
    prefix, half the queries see three quarters of the keys.
    """
    pairs = visible_pairs(q_len, kv_len, limit) / parts
    queries = q_len / parts
    cap = np.where(limit > 0, limit, np.inf)
    growing = pairs / queries - (queries - 1.0) / 2.0  # keys of the first query, none capped
    # With a limit, pairs = q cap - m(m + 1)/2 if the first m queries are below the cap.
    finite = np.where(limit > 0, limit, 0.0)
    deficit = np.maximum(queries * finite - pairs, 0.0)
    below = (np.sqrt(1.0 + 8.0 * deficit) - 1.0) / 2.0
    capped = (limit > 0) & (below <= queries)
    first = np.where(capped, np.minimum(finite - below, cap), growing)
    whole = parts == 1.0
    keys = np.where(whole, kv_len, first + queries - 1.0)
    return np.where(whole, q_len, queries), keys
