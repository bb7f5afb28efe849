"""Energy of requests and mean power of their GPUs, in closed form.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.energy import power_interval
from perfatlas.inference.composition import prompts_in_stages
from perfatlas.inference.mixed_steps import own_energy_j

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.inference.distinct_steps import StepTotals
    from perfatlas.inference.mixed_steps import LoadSteps, MixedStep
    from perfatlas.inference.running_load import RunningLoad
    from perfatlas.operators import FloatArray, IntArray


def bubbles(loaded: RunningLoad, steps: LoadSteps) -> tuple[FloatArray, ...]:
    """Return the GPU time without a kernel of the prompts of a chunk, and of one decode step.

    The last two are the times in which kernels run for the prompts and for the step. Each (C,) [s]
    sums one GPU of every pipeline stage. A rank that waits in a collective runs a
    kernel. Without stages, all of it is exposed host time.

        decode: (stages x cycle - micro-batches x kernels) / micro-batches
        prompts: stages x time of the pipeline - kernels

    The cycle is the time in which every micro-batch decodes once. The time of the pipeline is that
    for which prompts delay the decodes beside them (`stage_prompts`).

    Source: derived, as the latencies of the same steps (`composition`).

    Limits: Time that runs take beyond their steps, for joining a batch or between requests of a
        client, is not a bubble.
    """
    plan, chunks = loaded.question.plan, loaded.chunks
    step_s, kernels_s = steps.decode.total_s(), _kernels_s(steps.decode)
    cycle_s = step_s * np.maximum(loaded.micro_batches * loaded.stage_share, 1.0)
    decode_s = plan.pp * cycle_s / loaded.micro_batches - kernels_s
    decode_share = loaded.concurrent_decode_share()
    beside_s, beside_kernels_s = (
        np.where(decode_share > 0.0, decode_share * each_s, 0.0) for each_s in (step_s, kernels_s)
    )
    first_s, last_s = (step.total_s() - beside_s for step in (steps.chunk, steps.last))
    added_s = chunks.count * first_s + chunks.last_count * last_s
    first_kernels_s, last_kernels_s = (
        _kernels_s(step) - beside_kernels_s for step in (steps.chunk, steps.last)
    )
    kernels_added_s = chunks.count * first_kernels_s + chunks.last_count * last_kernels_s
    passes_s = prompts_in_stages(loaded, added_s, first_s)
    return plan.pp * passes_s - kernels_added_s, decode_s, kernels_added_s, kernels_s


def _kernels_s(step: MixedStep | StepTotals) -> FloatArray:
    """Return the time in which a rank of each stage runs kernels (C,) [s]."""
    return step.total_s() - step.exposed_host_s()


OF_TOKEN: Final = (
    "prefill_j",
    "decode_j",
    "prefill_bubble_j",
    "decode_bubble_j",
    "prefill_kernels_j",
    "prefill_width_j",
    "decode_width_j",
)


class TokenEnergy(NamedTuple):
    """What determines the power of the GPUs of a deployment at any rate of output, each (C,)."""

    # Energy of all GPUs for a prompt over the output tokens of its request, without the power that
    # GPUs draw between kernels [J]
    prefill_j: FloatArray
    decode_j: FloatArray  # Energy of all GPUs for the decode of an output token, likewise [J]
    # What all GPUs draw in the steps of prompts while they run no kernel, over the output tokens
    # [J]
    prefill_bubble_j: FloatArray
    decode_bubble_j: FloatArray  # The same of decode steps [J]
    # What all GPUs would draw without kernels in the time in which they run kernels for prompts,
    # over the output tokens [J]
    prefill_kernels_j: FloatArray
    # Half-width of `prefill_j` by the interval of the voltage curve [J]
    prefill_width_j: FloatArray
    decode_width_j: FloatArray  # That of `decode_j` [J]
    on_w: FloatArray  # Power of a GPU without kernels [W]
    cap_w: FloatArray  # Power limit of a GPU [W]
    idle_w: FloatArray  # Idle power of a GPU, below which none falls [W]
    low: FloatArray  # 5% quantile of measured over predicted power
    high: FloatArray  # 95% quantile of measured over predicted power
    # Share of prompts in the GPU time of steps: what chunks take beyond the decodes in them; of two
    # pools, that of the GPUs of the prefill pool
    prompt_share: FloatArray

    @property
    def dynamic_j(self) -> FloatArray:
        """Energy of all GPUs for one output token and its share of the prompt (C,) [J]."""
        return self.prefill_j + self.decode_j

    def bubble_j(self, rate: FloatArray) -> FloatArray:
        """Return what GPUs draw within steps without a kernel, for one output token (C,) [J].

        A step with a prompt may hide host time that a decode step alone exposes, so that prompts
        alone can have less than none.

        Args:
            rate: Output tokens per second and GPU (C,); no more than all time is a bubble.
        """
        both_j = np.maximum(self.prefill_bubble_j + self.decode_bubble_j, 0.0)
        return np.minimum(both_j, self.on_w / rate)

    def take(self, rows_C: IntArray) -> TokenEnergy:
        """Return the columns at the given positions."""
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
            `power_w` of one GPU; of all GPUs, `energy_per_output_token_j`, its parts spent on
            prompts, on decodes, by boards beside kernels and in bubbles of steps, and
            `energy_per_request_j`.
        """
        rate, low_rate, high_rate = rates
        power_w = np.minimum(self.on_w + self.dynamic_j * rate, self.cap_w)
        low, high = self._interval(rate)
        # without a least rate, boards draw at least what they draw between kernels; quantiles under
        # load say nothing below idle power
        least_rate = np.where(np.isnan(low_rate) & np.isfinite(high_rate), 0.0, low_rate)
        least_w = np.minimum(self.idle_w, power_w)
        ends_w = (
            np.maximum(
                low * np.minimum(self.on_w + self.dynamic_j * least_rate, self.cap_w), least_w
            ),
            np.minimum(high * (self.on_w + self.dynamic_j * high_rate), self.cap_w),
        )
        token_j = power_w / rate
        most_j = self.cap_w / low_rate
        ends_j = (
            np.minimum(
                np.maximum(low * (self.dynamic_j + self.on_w / high_rate), least_w / high_rate),
                token_j,
            ),
            np.maximum(np.minimum(high * (self.dynamic_j + self.on_w / low_rate), most_j), token_j),
        )
        columns = {"power_w": power_w, "energy_per_output_token_j": token_j}
        columns["energy_per_request_j"] = token_j * osl
        spent_w, room_w = self.dynamic_j * rate, self.cap_w - self.on_w
        capped = np.divide(room_w, spent_w, out=np.ones_like(spent_w), where=spent_w > room_w)
        columns["prefill_energy_per_output_token_j"] = capped * self.prefill_j
        columns["decode_energy_per_output_token_j"] = capped * self.decode_j
        bubble_j = self.bubble_j(rate)
        columns["awake_energy_per_output_token_j"] = self.on_w / rate - bubble_j
        columns["bubble_energy_per_output_token_j"] = bubble_j
        for end, watts, joules in zip(("_low", "_high"), ends_w, ends_j, strict=True):
            columns[f"power_w{end}"] = watts
            columns[f"energy_per_output_token_j{end}"] = joules
            columns[f"energy_per_request_j{end}"] = joules * osl
        return columns

    def _interval(self, rate: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return both ends of the interval of power over its value (C,).

        Args:
            rate: Output tokens per second and GPU (C,).
        """
        width_j = self.prefill_width_j + self.decode_width_j
        width = width_j / (self.dynamic_j + self.on_w / rate)
        return power_interval(self.low, self.high, width)


def energies_at(energy: TokenEnergy, rates: Mapping[str, Any], osl: float) -> dict[str, Any]:
    """Return power and energies of the first candidate at measured or simulated rates.

    Args:
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


def token_energy(loaded: RunningLoad, steps: LoadSteps, rank_energy: FloatArray) -> TokenEnergy:
    """Return the energy of output tokens from that of steps.

    A request is charged what its prefill chunks spend beyond the decodes that run in them, and its
    decode steps, each shared by the sequences of the step. The cap limits each kind of step on its
    own.

    Args:
        rank_energy: Share of the energy of a chunk that only attention-DP ranks with a prompt
            spend (C,).

    Limits: Every rank of a replica does the work of the one that is priced; attention-DP ranks
        without a prompt, only that of the experts.
    """
    question, chunks = loaded.question, loaded.chunks
    power, load = question.placement.power(), question.load
    own_j = chunks.count * own_energy_j(steps.chunk, power)
    own_j = own_j + chunks.last_count * own_energy_j(steps.last, power)
    decode_j = power.limited_j(steps.decode.energy_j(), steps.decode.total_s())
    width_j = chunks.count * steps.chunk.energy_width_j()
    width_j = width_j + chunks.last_count * steps.last.energy_width_j()
    ranks = question.plan.gpus_per_replica / question.plan.pp
    decodes = np.maximum(load.osl - 1.0, 0.0) / question.tokens_per_step_to_end
    own_j = own_j * (1.0 - rank_energy * (1.0 - loaded.working_share()))
    prompts = loaded.prompts * loaded.busy_ranks
    decoding = loaded.served / loaded.micro_batches
    prompts_s, decode_s, kernels_s, decode_kernels_s = bubbles(loaded, steps)
    prompt_s = np.maximum(prompts_s + kernels_s, 0.0) / prompts
    token_s = decodes * (decode_s + decode_kernels_s) / decoding
    return TokenEnergy(
        ranks * own_j / prompts / load.osl,
        ranks * decodes * decode_j / decoding / load.osl,
        power.on_w * ranks * prompts_s / prompts / load.osl,
        power.on_w * ranks * decodes * decode_s / decoding / load.osl,
        power.on_w * ranks * kernels_s / prompts / load.osl,
        ranks * width_j / prompts / load.osl,
        ranks * decodes * steps.decode.energy_width_j() / decoding / load.osl,
        power.on_w,
        power.cap_w,
        power.idle_w,
        power.low,
        power.high,
        prompt_s / (prompt_s + token_s),
    )


def pooled_energy(prefill: TokenEnergy, decode: TokenEnergy, share: FloatArray) -> TokenEnergy:
    """Return the energy of output tokens of two pools, with the mean power of their GPUs.

    Args:
        share: GPUs of the prefill pool over those of both (C,).
    """
    means = (
        share * a + (1.0 - share) * b
        for a, b in zip(prefill[len(OF_TOKEN) : -1], decode[len(OF_TOKEN) : -1], strict=True)
    )
    joules = prefill.prefill_j, decode.decode_j, prefill.prefill_bubble_j, decode.decode_bubble_j
    widths = prefill.prefill_width_j, decode.decode_width_j
    columns = (*joules, prefill.prefill_kernels_j, *widths, *means, share)
    return TokenEnergy(*columns)
