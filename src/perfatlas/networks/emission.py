"""Shared basis for emitting operators: formats, tokens, and the builder.

Shape legend: C candidates. Only here are scalar dimensions expanded to columns (C,).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.formats import get_format
from perfatlas.networks.elementwise import norm_bytes
from perfatlas.operators import ACTIVATION_BYTES, Gemm, Operator, Streaming

if TYPE_CHECKING:
    from perfatlas.formats import StoredModule
    from perfatlas.operators import FloatArray, Phase, Shard

# All engines profiled here keep activations between operators in 16 bits.


@dataclass(frozen=True, kw_only=True)
class ModelFormats:
    """Number formats of one deployment, as names of `formats`."""

    gemm: str  # Dense linear layers: projections, feed-forward, shared experts
    moe: str  # Routed experts
    kv: str  # Key-value cache
    attention: str  # Products inside softmax attention
    # LM head, router, embedding and absorbed MLA weights, which stay unquantized
    head: str = "bf16"
    # What the checkpoint stores module by module; operators that are not named have the formats
    # above
    modules: tuple[StoredModule, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all formats."""
        stored = (module.format for module in self.modules if module.format)
        return (self.gemm, self.moe, self.kv, self.attention, self.head, *stored)

    def module(self, operator: str, mixer: str = "") -> StoredModule | None:
        """Return how the checkpoint stores the weights of an operator, None if as `gemm` or `moe`.

        Args:
            mixer: Class of the mixer of its layer.
        """
        scopes = ("", mixer)
        named = (m for m in self.modules if m.operator == operator and m.mixer in scopes)
        return next(named, None)


@dataclass(frozen=True, kw_only=True)
class StepTokens:
    """The tokens that one attention-DP rank processes in one step."""

    batch: FloatArray  # Sequences (C,)
    q_len: FloatArray  # New tokens per sequence; 1 in decode (C,)
    kv_len: FloatArray  # Keys per sequence, including cached prefix and new tokens (C,)
    # Ranks that will divide the heads (C,); None means 1. Fewer key-value heads or Mamba groups
    # than ranks are replicated, so that the division is exact.
    head_ranks: FloatArray | None = None
    # Rows of the LM head (C,); None means one per sequence, as in serving engines
    logits_rows: FloatArray | None = None
    # Decode tokens of other sequences in the same step (C,); None means 0. They share the linear
    # layers; their attention and scans are priced as a decode step.
    decodes: FloatArray | None = None
    # Images that are encoded in the step (C,), of less than one in so many steps; None for none
    images: FloatArray | None = None

    @property
    def new_tokens(self) -> FloatArray:
        """Tokens of the prefill sequences (C,)."""
        return self.batch * self.q_len

    @property
    def all(self) -> FloatArray:
        """All tokens in the linear layers (C,)."""
        return self.new_tokens + (0.0 if self.decodes is None else self.decodes)


@dataclass(frozen=True, kw_only=True)
class Emission:
    """Builder of the operators of one kind of layer: shared columns and format rules."""

    phase: Phase  # Prefill or decode
    tokens: StepTokens
    formats: ModelFormats  # The formats of the deployment
    hidden: int  # Hidden size
    layers: int  # Executions of these operators
    projection_format: str  # Format of the mixer's projections
    mixer: str = ""  # Class of the mixer
    # Constant columns by value, shared between operators and read-only
    constants: dict[float, FloatArray] = field(default_factory=dict)

    @cached_property
    def rows(self) -> FloatArray:
        """Tokens of the step (C,)."""
        return self.tokens.all

    @cached_property
    def count(self) -> FloatArray:
        """Executions of each operator (C,)."""
        return self.column(self.layers)

    def column(self, value: float | FloatArray) -> FloatArray:
        """Return a constant column (C,); equal values share one array."""
        if isinstance(value, np.ndarray):
            return value
        if value not in self.constants:
            self.constants[value] = np.full(self.tokens.batch.shape, float(value))
        return self.constants[value]

    def repeated(self, heads: int) -> FloatArray:
        """Return the number of heads after replication to at least one per rank (C,)."""
        if self.tokens.head_ranks is None:
            return self.column(heads)
        return np.maximum(float(heads), self.tokens.head_ranks)

    def gemm(
        self,
        name: str,
        n: float | FloatArray,
        k: float,
        shard: Shard,
        *,
        format_name: str | None = None,
        rows: FloatArray | None = None,
    ) -> tuple[Operator, ...]:
        """Return a linear layer, preceded by the quantization of its input if needed.

        Args:
            name: Name of the GEMM; the quantization is named `<name>_quantize`.
            format_name: Number format unless the checkpoint states one; None: `formats.gemm`.
            rows: Rows (C,); None means the tokens of the step.
        """
        number_format = get_format(format_name or self.formats.gemm)
        weight_bytes = number_format.weight_bytes
        if (stored := self.formats.module(name, self.mixer)) is not None:
            number_format = get_format(stored.format or self.formats.head)
            weight_bytes = stored.bytes_per_element(k)
        rows_C = self.rows if rows is None else rows
        product = Gemm(
            name=name,
            phase=self.phase,
            count=self.count,
            shard=shard,
            m=rows_C,
            n=self.column(n),
            k=self.column(k),
            format=number_format.name,
            weight_bytes_per_element=weight_bytes,
            input_bytes_per_element=number_format.activation_bytes,
        )
        if number_format.quantize == "none":
            return (product,)
        quantize = self.streaming(
            f"{name}_quantize",
            "quantize",
            (k * ACTIVATION_BYTES, k * number_format.activation_bytes),
            # A row-sharded GEMM consumes an input whose width is already divided.
            shard="width" if shard in ("row", "row_partial") else "replicated",
            rows=rows_C,
        )
        return quantize, product

    def streaming(
        self,
        name: str,
        stream: str,
        row_bytes: tuple[float | FloatArray, float | FloatArray],
        *,
        shard: Shard = "replicated",
        cold: float | FloatArray = 0.0,
        rows: FloatArray | None = None,
    ) -> Streaming:
        """Return a bandwidth-limited operator.

        Args:
            cold: Bytes read from device memory per execution [bytes].
            rows: Rows (C,); None means the tokens of the step.
        """
        rows_C = self.rows if rows is None else rows
        return Streaming(
            name=name,
            phase=self.phase,
            count=self.count,
            shard=shard,
            stream=stream,
            tokens=rows_C,
            read_bytes=rows_C * row_bytes[0],
            write_bytes=rows_C * row_bytes[1],
            cold_read_bytes=self.column(cold),
        )

    def norm(self, name: str, *, residual: bool = True) -> Streaming:
        """Return a norm over the hidden size; with a residual it also adds and stores it."""
        row = norm_bytes(self.hidden, residual=residual)
        return self.streaming(name, "norm", (row.read, row.write), cold=row.cold)
