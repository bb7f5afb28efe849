"""Steps that prefill a chunk and decode the running sequences.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray
    from perfatlas.serving.closed_form.running_load import RunningLoad
    from perfatlas.serving.closed_form.step_totals import StepTotals


@dataclass(frozen=True, kw_only=True)
class MixedStep:
    """Time of a prefill chunk and, where they share a step, of the decodes that run with it.

    The GPU runs the chunk, whose linear layers hold the tokens of both, and the rest of the decode
    step; the host prepares one step for all sequences. As every time is a sum or a maximum of
    these, no faster kernel makes a mixed step slower.

    Args:
        chunk: The chunk, with the tokens of the decodes in its linear layers.
        decode: The decode step.
        alone_C: Fraction of the GPU time of the decode step that is added to the chunk (C,); 0
            where they share no step.
        decoding_s_C: Host time of the decoding sequences (C,) [s].
        overlapped: Whether the GPU hides host time.
    """

    chunk: StepTotals
    decode: StepTotals
    alone_C: FloatArray
    decoding_s_C: FloatArray
    overlapped: bool

    def total_s(self) -> FloatArray:
        """Return the time (C,) [s]."""
        return self._gpu_s() + self._exposed_host_s()

    def low_s(self) -> FloatArray:
        """Return the lower end of its interval (C,) [s]."""
        chunk_s = self.chunk.total_s() - self.chunk.low_s()
        return (
            self.total_s() - chunk_s - self.alone_C * (self.decode.total_s() - self.decode.low_s())
        )

    def high_s(self) -> FloatArray:
        """Return the upper end of its interval (C,) [s]."""
        chunk_s = self.chunk.high_s() - self.chunk.total_s()
        return (
            self.total_s() + chunk_s + self.alone_C * (self.decode.high_s() - self.decode.total_s())
        )

    def least_s(self) -> FloatArray:
        """Return the roofline time (C,) [s]."""
        chunk_s, decode_s = (
            step.least_s() - step.exposed_host_s() for step in (self.chunk, self.decode)
        )
        return chunk_s + self.alone_C * decode_s + self._exposed_host_s()

    def laboratory_s(self) -> FloatArray:
        """Return its standard deviation by operators on other machines (C,) [s].

        Those of chunk and decodes add, as both run the same kernels.
        """
        return self.chunk.laboratory_s() + self.alone_C * self.decode.laboratory_s()

    def _gpu_s(self) -> FloatArray:
        chunk_s, decode_s = (
            step.total_s() - step.exposed_host_s() for step in (self.chunk, self.decode)
        )
        return chunk_s + self.alone_C * decode_s

    def _exposed_host_s(self) -> FloatArray:
        host_s_C = self.chunk.host_work_s() + self.decoding_s_C
        return np.maximum(host_s_C - self._gpu_s(), 0.0) if self.overlapped else host_s_C


def mixed_step(
    load: RunningLoad, chunk: StepTotals, decode: StepTotals, alone_C: FloatArray
) -> MixedStep | StepTotals:
    """Return a prefill chunk and the decodes that share its step; the chunk where none does.

    Args:
        load: What runs at the same time.
        chunk: The chunk, with the tokens of the decodes in its linear layers.
        decode: A decode step.
        alone_C: Fraction of the GPU time of the decode step outside those linear layers (C,).
    """
    shared_C: NDArray[np.bool_] = load.mixed()
    if not shared_C.any():
        return chunk
    host = load.question.profile.host
    return MixedStep(
        chunk=chunk,
        decode=decode,
        alone_C=np.where(shared_C, alone_C, 0.0),
        decoding_s_C=np.where(shared_C, (load.batch - 1.0) * host.per_sequence_s, 0.0),
        overlapped=host.overlapped,
    )
