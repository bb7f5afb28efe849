"""Decode whose layers alternate between attention and feed-forward networks on other machines.

Replicas of the attention machine share one worker of the feed-forward machine. A micro-batch passes
a layer in attention, transfer of its hidden states, feed-forward networks and transfer back, while
others are elsewhere.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.inference.composition import MIN_BOUND_SHARE
from perfatlas.inference.energy import TokenEnergy
from perfatlas.inference.intervals import fastest_s, slowest_s, step_tails
from perfatlas.inference.latencies import Latencies, static_latencies
from perfatlas.inference.pool_times import fabric_latency_s
from perfatlas.inference.results import energy_columns, interval_columns
from perfatlas.operators import ACTIVATION_BYTES
from perfatlas.step import decode_step

if TYPE_CHECKING:
    from perfatlas.inference.evaluation import Evaluation
    from perfatlas.operators import FloatArray
    from perfatlas.step import Candidates, StepCost

SPLIT_RULES: Final = (
    "attention-FFN disaggregation: hidden states cross one NIC per device twice per layer without"
    " contention; micro-batches overlap in decode, prompts do not; this composition was not"
    " compared with a measured deployment"
)


class SplitLoad(NamedTuple):
    """Replicas of split layers and what is in flight, each (C,)."""

    replicas: FloatArray  # Attention replicas that share the feed-forward worker
    micro_batches: FloatArray  # Parts of their batch in flight


class Part(NamedTuple):
    """Decode step of a micro-batch in one part of all layers, each (C,) [s]."""

    latencies: FloatArray  # Predicted time
    low: FloatArray  # Lower end of its interval
    high: FloatArray  # Upper end of its interval, NaN for a lower limit


def passed_s(
    attention_s: FloatArray, feed_forward_s: FloatArray, link_s: FloatArray, parts: FloatArray
) -> FloatArray:
    """Return the time in which all micro-batches pass all layers once (C,) [s].

    The first micro-batch passes both machines and both transfers; from then on the slowest of
    attention, feed-forward networks and one transfer sets the period.

    Args:
        attention_s: Attention of a micro-batch in all layers (C,) [s].
        feed_forward_s: Its feed-forward networks (C,) [s].
        link_s: Transfers in one direction (C,) [s].
        parts: Micro-batches (C,).

    Source: ping-pong pipeline of Zhu et al., MegaScale-Infer, 2025 (arXiv 2504.02263).

    Example:
        >>> import numpy as np
        >>> from perfatlas.inference.split_layers import passed_s
        >>> one = np.ones(1)
        >>> [float(passed_s(3 * one, 2 * one, 0.5 * one, m * one)[0]) for m in (1, 2, 3)]
        [6.0, 6.0, 9.0]
    """
    slowest_C = np.maximum(np.maximum(attention_s, feed_forward_s), link_s)
    return np.maximum(attention_s + feed_forward_s + 2.0 * link_s, parts * slowest_C)


def hidden_link_s(
    attention: tuple[Candidates, FloatArray], feed_forward: tuple[Candidates, FloatArray]
) -> FloatArray:
    """Return the time of one transfer of hidden states per layer, in all layers (C,) [s].

    Each machine sends over one NIC per device; of pipeline stages only one holds the layer.

    Args:
        attention: A replica of the attention machine, and its tokens (C,).
        feed_forward: The feed-forward machine, and the tokens of all replicas (C,).
    """
    slowest_C, latency_C = np.zeros(1), np.zeros(1)
    for question, tokens in (attention, feed_forward):
        nodes = [system.node for system in question.placement.systems]
        nic_S = np.array([node.nic_bandwidth * node.nics / node.devices for node in nodes])
        senders = question.plan.gpus_per_replica / question.plan.pp
        rate_C = nic_S[question.placement.index_C] * senders
        hidden = question.model.network.hidden_size * ACTIVATION_BYTES
        slowest_C = np.maximum(slowest_C, tokens * hidden / rate_C)
        latency_C = np.maximum(latency_C, fabric_latency_s(question))
    return feed_forward[0].model.network.num_layers * (slowest_C + latency_C)


@dataclass(frozen=True, kw_only=True)
class SplitLayers:
    """Results of both parts for the same candidates."""

    load: SplitLoad  # Replicas and micro-batches
    # Candidates and results of an attention replica with its whole batch
    attention: tuple[Candidates, Evaluation]
    # Candidates and results of the feed-forward worker with that of all replicas
    feed_forward: tuple[Candidates, Evaluation]

    @cached_property
    def steps(self) -> tuple[StepCost, StepCost]:
        """Decode steps of a micro-batch through one part of all layers, attention first."""
        first, second = (
            self._step(question) for question, _ in (self.attention, self.feed_forward)
        )
        return first, second

    def _step(self, question: Candidates) -> StepCost:
        load = question.load
        batch = load.sequences / question.plan.attention_dp / self.load.micro_batches
        return decode_step(question.context(), batch, load.isl + load.osl / 2.0)

    @cached_property
    def parts(self) -> tuple[Part, Part]:
        """Times of these steps."""
        questions = self.attention[0], self.feed_forward[0]
        first, second = (_part(*pair) for pair in zip(self.steps, questions, strict=True))
        return first, second

    def link_s(self, tokens: FloatArray) -> FloatArray:
        """Return the time of one transfer per layer, in all layers (C,) [s].

        Args:
            tokens: Tokens of an attention replica (C,).
        """
        return hidden_link_s(
            (self.attention[0], tokens), (self.feed_forward[0], self.load.replicas * tokens)
        )

    def latencies(self, quantile: str) -> Latencies:
        """Return the latencies of the batch, and the output tokens/s of all replicas.

        Args:
            quantile: "latencies", "low" or "high".
        """
        load = self.attention[0].load
        attention_s, feed_forward_s = (getattr(part, quantile) for part in self.parts)
        parts = self.load.micro_batches
        token_s = passed_s(attention_s, feed_forward_s, self.link_s(load.sequences / parts), parts)
        prompts_s = 2.0 * self.link_s(load.sequences * (load.isl - load.prefix))
        for _, evaluation in (self.attention, self.feed_forward):
            prompts_s = prompts_s + getattr(evaluation, quantile).ttft_s
        sequences = load.sequences * load.occupancy * self.load.replicas
        return static_latencies(prompts_s, token_s, sequences, load.osl)

    @cached_property
    def gpus(self) -> FloatArray:
        """The number of devices of both machines (C,)."""
        first, second = (
            pair[0].plan.gpus_per_replica for pair in (self.attention, self.feed_forward)
        )
        both: FloatArray = first * self.load.replicas + second
        return both

    def energy(self) -> TokenEnergy:
        """Return unknown energies: how much each machine draws while it waits is not modelled."""
        unknown_C = np.full_like(self.load.replicas, np.nan)
        return TokenEnergy(*(unknown_C for _ in TokenEnergy._fields))

    def notes(self) -> str:
        """Return a remark on the assumptions about both machines."""
        return SPLIT_RULES

    def columns(self) -> dict[str, FloatArray]:
        """Return the result columns of the deployment, each (C,)."""
        parts = tuple(self.latencies(quantile) for quantile in Part._fields)
        osl = self.attention[0].load.osl
        columns = interval_columns((parts[0], parts[1], parts[2]), self.gpus, osl)
        columns |= energy_columns(self.energy(), columns, osl)
        busy = {
            f"{name}_busy": self.load.micro_batches * part.latencies / parts[0].tpot_s
            for name, part in zip(("attention", "feed_forward"), self.parts, strict=True)
        }
        return columns | busy | {"gpus": self.gpus}


def _part(step: StepCost, question: Candidates) -> Part:
    """Return the time of a decode step of a part with its interval."""
    tails = step_tails(question)
    slow_s = np.where(step.bound_share() >= MIN_BOUND_SHARE, np.nan, slowest_s(step, tails))
    return Part(step.total_s(), fastest_s(step, tails), slow_s)
