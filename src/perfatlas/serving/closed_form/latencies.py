"""From step costs to what a user of the service sees, in closed form.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray

TINY: Final = float(np.finfo(np.float64).tiny)  # keeps 0 over 0 at 0


class Latencies(NamedTuple):
    """Latencies of a request and the throughput they imply, each (C,).

    Those of a service are a client's, those of a static batch the engine's.
    """

    ttft_s: FloatArray
    tpot_s: FloatArray
    request_latency_s: FloatArray
    output_tokens_per_s: FloatArray  # of one replica


class Prompt(NamedTuple):
    """How long engines are at a prompt, and at the whole request, each (C,) [s]."""

    engine_s: FloatArray
    request_s: FloatArray


def static_latencies(
    prefill_s: FloatArray, decode_s: FloatArray, sequences: FloatArray, osl: FloatArray
) -> Latencies:
    """Return the latencies of one static batch that starts and ends together.

    Args:
        prefill_s: Time to prefill the whole batch (C,) [s].
        decode_s: Time per output token after the first (C,) [s].
        sequences: Sequences of a replica (C,).
        osl: Output tokens (C,).

    Limits: no arrivals, no queue, no client: times are the engine's, from the start of the batch.
        Every request has the mean lengths.

    Example:
        >>> import numpy as np
        >>> from perfatlas.serving.closed_form import static_latencies
        >>> one = np.ones(1)
        >>> float(static_latencies(0.5 * one, 0.01 * one, 4 * one, 101 * one).request_latency_s[0])
        1.5
    """
    latency = prefill_s + decode_s * (osl - 1.0)
    return Latencies(prefill_s, decode_s, latency, sequences * osl / latency)


class Joining(NamedTuple):
    """How a request finds the engine that it comes to.

    Args:
        step_s: The step that others decode in (C,) [s].
        others: Other requests of the replica, whose ranks step together (C,).
        ahead: Steps that are decided before the one that runs has ended (C,): 1 where the host
            works ahead of the GPU.
        away_s: From the end of one request to the next of the same client (C,) [s].
    """

    step_s: FloatArray
    others: FloatArray
    ahead: FloatArray
    away_s: FloatArray


def joining_s(joining: Joining, request_s: FloatArray) -> FloatArray:
    """Return how long a request waits for the steps that run when it comes (C,) [s].

    Each of the others is at the engine for request / (request + away) of the time, and a step runs
    where any of them is. The newcomer waits for half of it and for those that are decided already.
    Where clients are never away it comes as a step ends, and waits for what is decided alone.

    Args:
        joining: What it finds.
        request_s: Of a request at the engine (C,) [s].

    Limits: Requests come at any time of a step and independent of each other. Where all are alike
        and nothing jitters, a loop settles to one phase, up to half a step off.

    Source: derived.

    Example:
        >>> import numpy as np
        >>> from perfatlas.serving.closed_form import Joining, joining_s
        >>> one = np.ones(1)
        >>> found = Joining(step_s=0.01 * one, others=one, ahead=one, away_s=0.25 * one)
        >>> float(joining_s(found, 0.75 * one)[0])  # three quarters of one step and a half
        0.01125
    """
    away_C = joining.away_s / (request_s + joining.away_s + TINY)
    runs_C = 1.0 - away_C ** np.maximum(joining.others, 0.0)
    left_C = np.where(joining.away_s > 0.0, 0.5, 0.0)
    wait_C: FloatArray = runs_C * (left_C + joining.ahead) * joining.step_s
    return wait_C


class ClientSide(NamedTuple):
    """What a client sees later than the engine, each (C,) [s].

    Args:
        request_s: From sending a request to its place in the queue, its prompt tokenized; requests
            come apart, so that none waits for another there.
        token_s: From the step that gives a token to the client, where no other is sent.
        stream_s: What the front end takes to send a token, divided by the share of its sequences
            that a rank has.
        response_s: From the last token to the end of the response, when the client goes on.
    """

    request_s: FloatArray
    token_s: FloatArray
    stream_s: FloatArray
    response_s: FloatArray

    @property
    def late_s(self) -> FloatArray:
        """How much later than the engine counts it a client alone has its first token (C,) [s]."""
        late_C: FloatArray = self.request_s + self.token_s
        return late_C

    @property
    def turnaround_s(self) -> FloatArray:
        """From the last token of the engine to the request that it causes in the queue (C,) [s]."""
        away_C: FloatArray = self.late_s + self.response_s
        return away_C


def at_client(
    latencies: Latencies, client: ClientSide, sequences: FloatArray, osl: FloatArray
) -> Latencies:
    """Return latencies of a closed loop as its clients see them.

    The tokens of a step are sent one after the other, and a client gets the middle one. Where a
    front end takes longer to send them than the step lasts, it sets the rate: one over its time
    per token, and the latency that Little's law leaves.

    Args:
        latencies: At the engine, of a rank.
        client: What a client sees later than the engine.
        sequences: Requests in flight on the rank (C,).
        osl: Output tokens (C,).

    Limits: at rates below its own, what a front end is late by is that of one step.

    Source: derived, as `serving.front`.

    Example:
        >>> import numpy as np
        >>> from perfatlas.serving.closed_form import ClientSide, Latencies, at_client
        >>> one = np.ones(1)
        >>> engine = Latencies(0.1 * one, 0.01 * one, 1.09 * one, 8 * 100 / 1.09 * one)
        >>> client = ClientSide(0 * one, 2e-3 * one, 2e-3 * one, 0 * one)
        >>> seen = at_client(engine, client, 8 * one, 100 * one)
        >>> float(seen.output_tokens_per_s[0])  # one over 2 ms; the engine gives 734
        500.0
    """
    engine_s = latencies.request_latency_s
    behind_s = client.stream_s * np.maximum(sequences - 1.0, 0.0) / 2.0
    first_s = latencies.ttft_s + client.late_s + behind_s
    engines = latencies.output_tokens_per_s * engine_s / (engine_s + client.turnaround_s + behind_s)
    rate = np.minimum(engines, 1.0 / np.maximum(client.stream_s, TINY))
    latency_s = np.maximum(
        engine_s + client.late_s + behind_s, sequences * osl / rate - client.response_s
    )
    gaps = np.maximum(osl - 1.0, 1.0)
    tpot_s = np.where(rate < engines, (latency_s - first_s) / gaps, latencies.tpot_s)
    return Latencies(first_s, np.maximum(tpot_s, latencies.tpot_s), latency_s, rate)


def aggregated_latencies(
    own_prefill_s: FloatArray,
    prefill_cost_s: FloatArray,
    decode_s: FloatArray,
    sequences: FloatArray,
    osl: FloatArray,
    joining: Joining,
) -> Latencies:
    """Return the latencies of continuous batching at a fixed number of requests in flight.

    In the time one request generates its osl tokens, each of the other B - 1 requests in flight is
    replaced once, so every output token carries 1/osl of what their prefills add. Where a prompt
    shares its step with the decodes of the others, that is t_mixed - t_decode for each chunk: the
    weights are read once for both. Where it does not, it is t_prefill.
    TPOT = t_decode(B, isl + osl/2) + ((B - 1)/osl) added. TTFT is the request's own prefill, after
    the steps in flight. All of it is the engine's, not yet a client's.

    Args:
        own_prefill_s: Steps that prefill one prompt (C,) [s].
        prefill_cost_s: What the prefill of one request adds to the steps of the others (C,) [s].
        decode_s: Decode step at the mean context, for a token (C,) [s].
        sequences: Requests in flight on one attention-DP rank (C,).
        osl: Output tokens (C,).
        joining: What a request finds.

    Limits: closed loop in steady state, no queue for memory or for the scheduler, prefills do not
        collide: TTFT is a floor under load. Lengths are all equal.

    Source: derived; chunked prefill beside decodes as in Sarathi-Serve (arXiv 2403.02310).

    Example:
        >>> import numpy as np
        >>> from perfatlas.serving.closed_form import Joining, aggregated_latencies
        >>> one = np.ones(1)
        >>> found = Joining(step_s=0.01 * one, others=3 * one, ahead=0 * one, away_s=0 * one)
        >>> aggregated = aggregated_latencies(
        ...     0.2 * one, 0.1 * one, 0.01 * one, 4 * one, 100 * one, found)
        >>> round(float(aggregated.tpot_s[0]), 6)
        0.013
    """
    tpot = decode_s + np.maximum(sequences - 1.0, 0.0) / osl * prefill_cost_s
    rest = tpot * (osl - 1.0)
    ttft = own_prefill_s + joining_s(joining, own_prefill_s + rest)
    latency = ttft + rest
    return Latencies(ttft, tpot, latency, sequences * osl / latency)


def pipelined_s(
    total_s: FloatArray, first_s: FloatArray, stages: FloatArray, stage_share: FloatArray
) -> FloatArray:
    """Return the time for pieces of work to pass a pipeline one after the other (C,) [s].

    The first piece takes the whole depth, each further one what it needs on the slowest stage.

    Args:
        total_s: All pieces through all stages, summed (C,) [s].
        first_s: The first piece through all stages (C,) [s].
        stages: Pipeline stages (C,).
        stage_share: Share of the depth in the slowest stage (C,).
    """
    share = np.where(stages > 1, stage_share, 1.0)
    return total_s * share + first_s * (1.0 - share)
