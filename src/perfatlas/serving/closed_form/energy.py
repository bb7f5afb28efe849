"""Energy of requests and mean power of their GPUs, in closed form.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.energy import PowerColumns
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.serving.closed_form.step_totals import StepTotals
    from perfatlas.step import Candidates, PrefillChunks


class TokenEnergy(NamedTuple):
    """What determines the power of the GPUs of a deployment at any rate of output, each (C,).

    Args:
        prefill_j: Energy of all GPUs for a prompt over the output tokens of its request, without
            the power that GPUs draw between kernels [J].
        decode_j: Energy of all GPUs for the decode of an output token, likewise [J].
        on_w: Power of a GPU without kernels [W].
        cap_w: Power limit of a GPU [W].
        low: 5% quantile of measured over predicted power.
        high: 95% quantile of measured over predicted power.
    """

    prefill_j: FloatArray
    decode_j: FloatArray
    on_w: FloatArray
    cap_w: FloatArray
    low: FloatArray
    high: FloatArray

    @property
    def dynamic_j(self) -> FloatArray:
        """Energy of all GPUs for one output token and its share of the prompt (C,) [J]."""
        return self.prefill_j + self.decode_j

    def take(self, rows_C: IntArray) -> TokenEnergy:
        """Return the columns at the given positions.

        Args:
            rows_C: Positions.
        """
        return TokenEnergy(*(values[rows_C] for values in self))

    def columns(
        self, rates: tuple[FloatArray, FloatArray, FloatArray], osl: FloatArray
    ) -> dict[str, FloatArray]:
        """Return power and energies with their 90% intervals, each (C,).

        Args:
            rates: Output tokens per second and GPU (C,), and both ends of their interval, NaN for
                none.
            osl: Output tokens of a request (C,).

        Returns:
            `power_w` of one GPU, `energy_per_output_token_j` and `energy_per_request_j` of all.
        """
        rate, low_rate, high_rate = rates
        power_w = np.minimum(self.on_w + self.dynamic_j * rate, self.cap_w)
        ends_w = (
            self.low * np.minimum(self.on_w + self.dynamic_j * low_rate, self.cap_w),
            np.minimum(self.high * (self.on_w + self.dynamic_j * high_rate), self.cap_w),
        )
        token_j = power_w / rate
        most_j = self.cap_w / low_rate
        ends_j = (
            np.minimum(self.low * (self.dynamic_j + self.on_w / high_rate), token_j),
            np.maximum(
                np.minimum(self.high * (self.dynamic_j + self.on_w / low_rate), most_j), token_j
            ),
        )
        columns = {"power_w": power_w, "energy_per_output_token_j": token_j}
        columns["energy_per_request_j"] = token_j * osl
        for end, watts, joules in zip(("_low", "_high"), ends_w, ends_j, strict=True):
            columns[f"power_w{end}"] = watts
            columns[f"energy_per_output_token_j{end}"] = joules
            columns[f"energy_per_request_j{end}"] = joules * osl
        return columns


def energies_at(energy: TokenEnergy, rates: Mapping[str, Any], osl: float) -> dict[str, Any]:
    """Return power and energies of the first candidate at measured or simulated rates.

    Args:
        energy: Energy of output tokens.
        rates: Results with `output_tokens_per_s_per_gpu` and its interval, None for no end.
        osl: Output tokens of a request.

    Returns:
        Results by name, None for no end.
    """
    rate, low, high = (
        np.array([np.nan if value is None else value], np.float64)
        for value in (
            rates.get(f"output_tokens_per_s_per_gpu{end}") for end in ("", "_low", "_high")
        )
    )
    columns = energy.columns((rate, low, high), np.array([osl], np.float64))
    return {
        name: float(values[0]) if np.isfinite(values[0]) else None
        for name, values in columns.items()
    }


class Waves(NamedTuple):
    """Requests that share the steps of a replica, each (C,).

    Args:
        decoding: Sequences that one decode step advances.
        prompts: Prompts that its chunks prefill together.
        mixed: Share of the energy of a decode step that is part of a chunk which also decodes the
            running sequences; 0 where chunks do not.
    """

    decoding: FloatArray
    prompts: FloatArray
    mixed: FloatArray


def token_energy(
    question: Candidates,
    steps: tuple[StepTotals, StepTotals, StepTotals],
    chunks: PrefillChunks,
    waves: Waves,
) -> TokenEnergy:
    """Return the energy of output tokens from that of steps.

    A request is charged its prefill chunks, less the decodes that they run too, and its decode
    steps, each shared by the sequences of the step. The cap limits each kind of step on its own.

    Args:
        question: The candidates.
        steps: A full chunk, the last chunk and a decode step.
        chunks: Prefill chunks.
        waves: Requests that share steps.

    Limits: Every rank of a replica does the work of the one that is priced.
    """
    power = question.placement.power()
    chunk_j, last_j, decode_j = (step_energy_j(power, cost) for cost in steps)
    ranks = question.plan.gpus_per_replica / question.plan.pp
    load = question.load
    number = chunks.count + chunks.last_count
    prefill_j = chunks.count * chunk_j + chunks.last_count * last_j
    decoded_j = np.where(waves.mixed > 0.0, waves.mixed * number * decode_j, 0.0)
    own_j = np.maximum(prefill_j - decoded_j, 0.0) / waves.prompts
    decodes = np.maximum(load.osl - 1.0, 0.0) / question.tokens_per_step_to_end
    return TokenEnergy(
        ranks * own_j / load.osl,
        ranks * decodes * decode_j / waves.decoding / load.osl,
        power.on_w,
        power.cap_w,
        power.low,
        power.high,
    )


def step_energy_j(power: PowerColumns, cost: StepTotals) -> FloatArray:
    """Return the dynamic energy of a step on one rank under the cap (C,) [J].

    Args:
        power: Power of the devices.
        cost: The step.
    """
    return power.limited_j(cost.energy_j(), cost.total_s())


def pooled_energy(prefill: TokenEnergy, decode: TokenEnergy, share: FloatArray) -> TokenEnergy:
    """Return the energy of output tokens of two pools, with the mean power of their GPUs.

    Args:
        prefill: Energy of the prefill pool over the output tokens of whole requests.
        decode: Energy of the decode pool.
        share: GPUs of the prefill pool over those of both (C,).
    """
    means = (share * a + (1.0 - share) * b for a, b in zip(prefill[2:], decode[2:], strict=True))
    return TokenEnergy(prefill.prefill_j, decode.decode_j, *means)
