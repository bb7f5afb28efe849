"""Steps that prefill a chunk and decode the running sequences: their times and energies.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.energy import PowerColumns
    from perfatlas.inference.distinct_steps import StepTotals
    from perfatlas.inference.running_load import RunningLoad
    from perfatlas.operators import FloatArray, IntArray


class AloneShares(NamedTuple):
    """Share of a decode step that a mixed step runs in addition to its chunk, each (C,).

    Linear layers process the tokens of both together; attention, scans and operators that only a
    decode step has are separate.
    """

    time: FloatArray  # Fraction of its GPU time
    energy: FloatArray  # Fraction of its dynamic energy

    def take(self, index_C: IntArray) -> AloneShares:
        """Return the shares at the given positions."""
        return AloneShares(self.time[index_C], self.energy[index_C])


@dataclass(frozen=True, kw_only=True)
class MixedStep:
    """Time and energy of a prefill chunk and of the decodes that share its step.

    The GPU runs the chunk, whose linear layers hold the tokens of both, and the rest of the decode
    step; the host prepares one step for all sequences. As every time is a sum or a maximum of
    these, no faster kernel makes a mixed step slower.
    """

    chunk: StepTotals  # The chunk, with the tokens of the decodes in its linear layers
    decode: StepTotals
    shared_C: NDArray[np.bool_]  # Whether both share a step (C,)
    # Shares of the decode step that are added to the chunk; 0 where they share no step
    alone: AloneShares
    decoding_s_C: FloatArray  # Host time of the decoding sequences (C,) [s]
    overlapped: bool  # Whether the GPU hides host time

    def total_s(self) -> FloatArray:
        """Return the time (C,) [s]."""
        return self._gpu_s() + self.exposed_host_s()

    def low_s(self) -> FloatArray:
        """Return the lower end of its interval (C,) [s]."""
        chunk_s = self.chunk.total_s() - self.chunk.low_s()
        return (
            self.total_s()
            - chunk_s
            - self.alone.time * (self.decode.total_s() - self.decode.low_s())
        )

    def high_s(self) -> FloatArray:
        """Return the upper end of its interval (C,) [s]."""
        chunk_s = self.chunk.high_s() - self.chunk.total_s()
        return (
            self.total_s()
            + chunk_s
            + self.alone.time * (self.decode.high_s() - self.decode.total_s())
        )

    def least_s(self) -> FloatArray:
        """Return the roofline time (C,) [s]."""
        chunk_s, decode_s = (
            np.maximum(step.least_s() - step.exposed_host_s(), 0.0)
            for step in (self.chunk, self.decode)
        )
        return chunk_s + self.alone.time * decode_s + self.exposed_host_s()

    def bound_share(self) -> FloatArray:
        """Return the fraction of the chunk priced at the roofline for lack of calibrations (C,)."""
        return self.chunk.bound_share()

    def own_energy_j(self, power: PowerColumns) -> FloatArray:
        """Return the dynamic energy of one rank beyond that of the decode step alone (C,) [J].

        The power limit acts on the mean of the whole step: a chunk that would exceed it alone has
        the time of the decodes too. Where they share no step, it is the energy of the chunk.
        """
        decode_j = power.limited_j(self.decode.energy_j(), self.decode.total_s())
        both_j = self.chunk.unlimited_energy_j()
        both_j = both_j + self.alone.energy * self.decode.unlimited_energy_j()
        mixed_j = power.limited_j(both_j, self.total_s())
        own_j: FloatArray = np.where(
            self.shared_C,
            np.maximum(mixed_j - decode_j, 0.0),
            power.limited_j(self.chunk.energy_j(), self.chunk.total_s()),
        )
        return own_j

    def laboratory_s(self) -> FloatArray:
        """Return its standard deviation by operators on other machines (C,) [s].

        Those of chunk and decodes add, as both run the same kernels.
        """
        return self.chunk.laboratory_s() + self.alone.time * self.decode.laboratory_s()

    def clock_width(self) -> FloatArray:
        """Return the half-width of ln(time) by the clock that a power limit leaves (C,)."""
        return self.chunk.clock_width()

    def energy_width_j(self) -> FloatArray:
        """Return the half-width of the energy of its chunk by the voltage curve (C,) [J]."""
        return self.chunk.energy_width_j()

    def _gpu_s(self) -> FloatArray:
        chunk_s, decode_s = (
            step.total_s() - step.exposed_host_s() for step in (self.chunk, self.decode)
        )
        return chunk_s + self.alone.time * decode_s

    def exposed_host_s(self) -> FloatArray:
        """Return the host time that the GPU does not hide (C,) [s]."""
        host_s_C = self.chunk.host_work_s() + self.decoding_s_C
        return np.maximum(host_s_C - self._gpu_s(), 0.0) if self.overlapped else host_s_C


def mixed_step(
    load: RunningLoad, chunk: StepTotals, decode: StepTotals, alone: AloneShares
) -> MixedStep | StepTotals:
    """Return a prefill chunk and the decodes that share its step; the chunk where none does."""
    shared_C: NDArray[np.bool_] = load.mixed()
    if not shared_C.any():
        return chunk
    host, sequence_s = load.question.profile.host, load.question.context().sequence_host_s()
    return MixedStep(
        chunk=chunk,
        decode=decode,
        shared_C=shared_C,
        alone=AloneShares(*(np.where(shared_C, share_C, 0.0) for share_C in alone)),
        decoding_s_C=np.where(shared_C, (load.batch - 1.0) * sequence_s, 0.0),
        overlapped=host.overlapped,
    )


def own_energy_j(step: MixedStep | StepTotals, power: PowerColumns) -> FloatArray:
    """Return what a prefill step spends beyond the decodes in it, under the limit (C,) [J]."""
    if isinstance(step, MixedStep):
        return step.own_energy_j(power)
    return power.limited_j(step.energy_j(), step.total_s())


class LoadSteps(NamedTuple):
    """The steps that a load runs."""

    chunk: MixedStep | StepTotals  # A full prefill chunk, with the decodes that share its step
    last: MixedStep | StepTotals  # The last chunk, likewise
    decode: StepTotals


def load_steps(
    load: RunningLoad, costs: tuple[StepTotals, StepTotals, StepTotals], alone: AloneShares
) -> LoadSteps:
    """Return the steps that a load runs."""
    chunk, last, decode = costs
    return LoadSteps(
        mixed_step(load, chunk, decode, alone), mixed_step(load, last, decode, alone), decode
    )
