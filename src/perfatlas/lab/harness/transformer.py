"""Small transformers in PyTorch with random weights: what runs, and of which operators it is made.

Shape legend: B sequences, S tokens of each, H hidden size.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

HEAD_DIM: Final = 64
VOCABULARY: Final = 8192
EPSILON: Final = 1e-6
ROPE_BASE: Final = 10000.0


class Piece(NamedTuple):
    """An operator of a step, with its sizes."""

    kind: str  # gemm, prefill_attention, decode_attention, or a stream
    # m, n, k of a product; batch, q_len, kv_len, heads, kv_heads of an attention; rows and width of
    # a stream
    sizes: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of a transformer."""

    hidden: int  # Hidden size, a multiple of the head's
    intermediate: int  # Width of the feed-forward network
    layers: int  # Layers
    kv_heads: int  # Key-value heads

    @property
    def heads(self) -> int:
        """Query heads."""
        return self.hidden // HEAD_DIM

    @property
    def qkv(self) -> int:
        """Output features of the projection to queries, keys and values."""
        return (self.heads + 2 * self.kv_heads) * HEAD_DIM

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights that a step reads, in fp32."""
        layer = self.hidden * (self.qkv + self.hidden + 3 * self.intermediate)
        return 4 * (self.layers * layer + self.hidden * VOCABULARY)


class Streams:
    """Operators between the products, as the transformer calls them."""

    def __init__(self) -> None:
        """Import PyTorch."""
        import torch

        self.torch: Any = torch
        self.functions: Any = torch.nn.functional

    def norm(self, rows: Tensor, weight: Tensor) -> Tensor:
        """Return the RMS norm of rows."""
        return self.functions.rms_norm(rows, (rows.shape[-1],), weight, EPSILON)

    def gate(self, rows: Tensor) -> Tensor:
        """Return silu of the first half of each row times the second half."""
        gate, up = rows.chunk(2, -1)
        return self.functions.silu(gate) * up

    def rope(self, heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """Return heads (B, heads, S, width) rotated by their positions."""
        first, second = heads.chunk(2, -1)
        return self.torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)

    def attend(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Return causal attention, of one query over all keys in decode."""
        return self.functions.scaled_dot_product_attention(
            query,
            keys,
            values,
            is_causal=query.shape[2] > 1,
            enable_gqa=query.shape[1] != keys.shape[1],
        )


class Transformer:
    """A decoder of pre-norm layers with rotary positions, grouped queries and gated networks."""

    def __init__(self, sizes: Sizes, batch: int, positions: int) -> None:
        """Make random weights and caches."""
        import torch

        self.torch: Any = torch
        self.sizes, self.ops = sizes, Streams()
        hidden, wide = sizes.hidden, sizes.intermediate

        def weight(n: int, k: int) -> Tensor:
            return torch.randn(n, k) * k**-0.5

        self.layers = [
            {
                "qkv": weight(sizes.qkv, hidden),
                "output": weight(hidden, hidden),
                "up": weight(2 * wide, hidden),
                "down": weight(hidden, wide),
                "norms": torch.ones(2, hidden),
                "caches": torch.randn(2, batch, sizes.kv_heads, positions, HEAD_DIM),
            }
            for _ in range(sizes.layers)
        ]
        self.embedding = weight(VOCABULARY, hidden)
        self.head = weight(VOCABULARY, hidden)
        self.last_norm = torch.ones(hidden)
        angle = torch.outer(
            torch.arange(positions), ROPE_BASE ** -torch.linspace(0.0, 1.0, HEAD_DIM // 2)
        )
        self.turns = angle.cos(), angle.sin()
        self.tokens = torch.randint(VOCABULARY, (batch, positions))

    def step(self, q_len: int) -> Tensor:
        """Return the logits of the last token after the last q_len of all positions.

        Args:
            q_len: New tokens of each sequence: all positions in prefill, 1 in decode.
        """
        start = self.tokens.shape[1] - q_len
        rows = self.embedding[self.tokens[:, start:]]
        turns = [turn[start:] for turn in self.turns]
        for layer in self.layers:
            rows = self._layer(layer, rows, turns, start)
        last = self.ops.norm(rows[:, -1], self.last_norm)
        return self.ops.functions.linear(last, self.head)

    def _layer(
        self, layer: dict[str, Tensor], rows: Tensor, turns: list[Tensor], start: int
    ) -> Tensor:
        ops, sizes, linear = self.ops, self.sizes, self.ops.functions.linear
        batch, q_len, hidden = rows.shape
        mixed = linear(ops.norm(rows, layer["norms"][0]), layer["qkv"])
        heads = mixed.view(batch, q_len, -1, HEAD_DIM).transpose(1, 2)
        turned = ops.rope(heads[:, : sizes.heads + sizes.kv_heads], *turns)
        keys, values = layer["caches"]
        keys[:, :, start:] = turned[:, sizes.heads :]
        values[:, :, start:] = heads[:, sizes.heads + sizes.kv_heads :]
        attended = ops.attend(turned[:, : sizes.heads], keys, values)
        attended = attended.transpose(1, 2).reshape(batch, q_len, hidden)
        rows = rows + linear(attended, layer["output"])
        wide = ops.gate(linear(ops.norm(rows, layer["norms"][1]), layer["up"]))
        return rows + linear(wide, layer["down"])


def step_pieces(sizes: Sizes, batch: int, q_len: int, kv_len: int) -> Counter[Piece]:
    """Return the operators of a step of `Transformer` and how often each runs."""
    rows, hidden, wide = batch * q_len, sizes.hidden, sizes.intermediate
    mixed = (sizes.heads + sizes.kv_heads) * HEAD_DIM
    attention = "decode_attention" if q_len == 1 else "prefill_attention"
    layer = [
        *(Piece("norm", (rows, hidden)), Piece("norm", (rows, hidden))),
        *(Piece("add", (rows, hidden)), Piece("add", (rows, hidden))),
        Piece("gemm", (rows, sizes.qkv, hidden)),
        Piece("rope", (rows, mixed)),
        *[Piece("append", (rows, sizes.kv_heads * HEAD_DIM))] * 2,
        Piece(attention, (batch, q_len, kv_len, sizes.heads, sizes.kv_heads)),
        Piece("merge", (rows, hidden)),
        Piece("gemm", (rows, hidden, hidden)),
        Piece("gemm", (rows, 2 * wide, hidden)),
        Piece("gate", (rows, wide)),
        Piece("gemm", (rows, hidden, wide)),
    ]
    pieces = Counter({piece: sizes.layers * count for piece, count in Counter(layer).items()})
    pieces[Piece("embedding", (rows, hidden))] += 1
    pieces[Piece("norm", (batch, hidden))] += 1
    pieces[Piece("gemm", (batch, VOCABULARY, hidden))] += 1
    return pieces


class PieceCalls:
    """Executions of single pieces: weights and caches from memory, activations from caches."""

    def __init__(self, cold_bytes: float) -> None:
        """Make the data that weights and caches are views of."""
        self.ops = Streams()
        self.torch: Any = self.ops.torch
        self.pool = self.torch.randn(int(cold_bytes) // 4) * 0.03

    def calls(self, piece: Piece) -> list[Callable[[], object]]:
        """Return executions on data that they take in turn."""
        if piece.kind == "gemm":
            return self._products(*piece.sizes)
        if piece.kind == "decode_attention":
            return self._decodes(*piece.sizes)
        return [self._warm(piece)]

    def _products(self, m: int, n: int, k: int) -> list[Callable[[], object]]:
        linear, rows = self.ops.functions.linear, self.torch.randn(m, k)
        copies = max(1, len(self.pool) // (n * k))
        weights = self.pool[: copies * n * k].view(copies, n, k).unbind()
        return [partial(linear, rows, weight) for weight in weights]

    def _decodes(self, *sizes: int) -> list[Callable[[], object]]:
        batch, q_len, kv_len, heads, kv_heads = sizes
        query = self.torch.randn(batch, q_len, heads, HEAD_DIM).transpose(1, 2)
        each = 2 * batch * kv_heads * kv_len * HEAD_DIM
        copies = max(1, len(self.pool) // each)
        caches = self.pool[: copies * each].view(copies, 2, batch, kv_heads, kv_len, HEAD_DIM)
        return [partial(self.ops.attend, query, *cache) for cache in caches.unbind()]

    def _warm(self, piece: Piece) -> Callable[[], object]:
        if piece.kind == "prefill_attention":
            batch, q_len, kv_len, heads, kv_heads = piece.sizes
            query = self.torch.randn(batch, q_len, heads, HEAD_DIM).transpose(1, 2)
            keys, values = self.torch.randn(2, batch, kv_heads, kv_len, HEAD_DIM)
            return lambda: self.ops.attend(query, keys, values)
        return STREAMS[piece.kind](self.ops, *piece.sizes)


def _norm(ops: Streams, rows: int, width: int) -> Callable[[], object]:
    data, weight = ops.torch.randn(rows, width), ops.torch.ones(width)
    return lambda: ops.norm(data, weight)


def _gate(ops: Streams, rows: int, width: int) -> Callable[[], object]:
    data = ops.torch.randn(rows, 2 * width)
    return lambda: ops.gate(data)


def _rope(ops: Streams, rows: int, width: int) -> Callable[[], object]:
    heads = ops.torch.randn(1, rows, width // HEAD_DIM, HEAD_DIM).transpose(1, 2)
    cosine, sine = ops.torch.randn(2, rows, HEAD_DIM // 2)
    return lambda: ops.rope(heads, cosine, sine)


def _append(ops: Streams, rows: int, width: int) -> Callable[[], object]:
    heads = ops.torch.randn(1, rows, width // HEAD_DIM, HEAD_DIM).transpose(1, 2)
    cache = ops.torch.randn(1, width // HEAD_DIM, rows, HEAD_DIM)

    def append() -> None:
        cache[:, :, 0:] = heads

    return append


def _merge(ops: Streams, rows: int, width: int) -> Callable[[], object]:
    heads = ops.torch.randn(1, width // HEAD_DIM, rows, HEAD_DIM)
    return lambda: heads.transpose(1, 2).reshape(1, rows, width)


def _embedding(ops: Streams, rows: int, width: int) -> Callable[[], object]:
    table = ops.torch.randn(VOCABULARY, width)
    tokens = ops.torch.randint(VOCABULARY, (1, rows))
    return lambda: table[tokens]


def _add(ops: Streams, rows: int, width: int) -> Callable[[], object]:
    left, right = ops.torch.randn(2, rows, width)
    return lambda: left + right


STREAMS: Final = {
    "norm": _norm,
    "gate": _gate,
    "rope": _rope,
    "append": _append,
    "merge": _merge,
    "embedding": _embedding,
    "add": _add,
}
