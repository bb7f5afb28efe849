"""What the emission of operators starts from: formats, tokens, and the builder they share.

Shape legend: C candidates. A scalar dimension becomes a column (C,) here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.formats import get_format
from perfatlas.operators import Gemm, Operator, Streaming

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray, Phase, Shard

# Activations between operators are 16-bit in every engine profiled here.
ACTIVATION_BYTES: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class ModelFormats:
    """Number formats of one deployment, as names of `formats`.

    Args:
        gemm: Dense linear layers: projections, feed-forward, shared experts.
        moe: Routed experts.
        kv: Key-value cache.
        attention: Products inside softmax attention.
        head: LM head, router, embedding and absorbed MLA weights, which stay unquantized.
    """

    gemm: str
    moe: str
    kv: str
    attention: str
    head: str = "bf16"


@dataclass(frozen=True, kw_only=True)
class StepTokens:
    """The tokens one attention-DP rank processes in one step.

    Args:
        batch: Sequences (C,).
        q_len: New tokens per sequence; 1 in decode (C,).
        kv_len: Keys per sequence, cached prefix and new tokens included (C,).
        head_ranks: Ranks that will divide the heads (C,), 1 each if None. Key-value heads and
            Mamba groups fewer than that are repeated, so that a plain division by it is exact.
        logits_rows: Rows of the LM head (C,); one per sequence if None, as serving engines do.
        decodes: Decode tokens of other sequences in the same step (C,), 0 if None. They pass the
            linear layers with the tokens above; their attention and scans are a decode step's.
    """

    batch: FloatArray
    q_len: FloatArray
    kv_len: FloatArray
    head_ranks: FloatArray | None = None
    logits_rows: FloatArray | None = None
    decodes: FloatArray | None = None

    @property
    def own(self) -> FloatArray:
        """Tokens of the sequences themselves (C,)."""
        return self.batch * self.q_len

    @property
    def all(self) -> FloatArray:
        """Tokens that pass the linear layers (C,)."""
        return self.own if self.decodes is None else self.own + self.decodes


@dataclass(frozen=True, kw_only=True)
class Emission:
    """The builder of one layer kind's operators: shared columns and the format rules.

    Args:
        phase: Prefill or decode.
        tokens: The tokens of the step.
        formats: The formats of the deployment.
        hidden: Model width.
        layers: Executions of the operators built here.
        projection_format: Format of the mixer's projections.
        constants: Columns made so far by value; operators share them and never write to them.
    """

    phase: Phase
    tokens: StepTokens
    formats: ModelFormats
    hidden: int
    layers: int
    projection_format: str
    constants: dict[float, FloatArray] = field(default_factory=dict)

    @cached_property
    def rows(self) -> FloatArray:
        """Tokens of the step (C,)."""
        return self.tokens.all

    @cached_property
    def count(self) -> FloatArray:
        """Executions of every operator built here (C,)."""
        return self.column(self.layers)

    def column(self, value: float | FloatArray) -> FloatArray:
        """Return a column of one value (C,), the same array for the same value."""
        if isinstance(value, np.ndarray):
            return value
        known = self.constants.get(value)
        if known is None:
            known = self.constants[value] = np.full(self.tokens.batch.shape, float(value))
        return known

    def repeated(self, heads: int) -> FloatArray:
        """Return heads as stored when every rank of `head_ranks` holds at least one (C,)."""
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
        """Return a linear layer, after the quantization of its input where the format needs one.

        Args:
            name: Name of the GEMM; the quantization is named `<name>_quantize`.
            n: Output features.
            k: Contraction length.
            shard: How tensor parallelism divides it.
            format_name: Format, `formats.gemm` if None.
            rows: Rows (C,), the tokens of the step if None.
        """
        number_format = get_format(format_name or self.formats.gemm)
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
            weight_bytes_per_element=number_format.weight_bytes,
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
            name: Name of the operator.
            stream: Its class, as engines name it in their fusion lists.
            row_bytes: Activations read and written per row [bytes].
            shard: How tensor parallelism divides it.
            cold: Bytes from device memory per execution [bytes].
            rows: Rows (C,), the tokens of the step if None.
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
        """Return a norm over the model width; with a residual it also adds and stores it."""
        streams = 2.0 if residual else 1.0
        width_bytes = self.hidden * ACTIVATION_BYTES
        return self.streaming(
            name,
            "norm",
            (streams * width_bytes, streams * width_bytes),
            cold=width_bytes,
        )
