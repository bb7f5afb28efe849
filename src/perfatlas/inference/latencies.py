"""Closed-form latencies of a service from step costs.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray

MIN_FLOAT: Final = float(np.finfo(np.float64).tiny)  # keeps 0 over 0 at 0


class Latencies(NamedTuple):
    """Latencies of a request and the resulting throughput, each (C,).

    Measured at the client for a service, at the engine for a static batch.
    """

    ttft_s: FloatArray
    tpot_s: FloatArray
    request_latency_s: FloatArray
    output_tokens_per_s: FloatArray  # per replica


class Prompt(NamedTuple):
    """Engine time of a prompt and of the whole request, each (C,) [s]."""

    engine_s: FloatArray
    request_s: FloatArray


def static_latencies(
    prefill_s: FloatArray, decode_s: FloatArray, sequences: FloatArray, osl: FloatArray
) -> Latencies:
    """Return the latencies of a static batch that starts and ends together.

    Args:
        prefill_s: Time to prefill the whole batch (C,) [s].
        decode_s: Time per output token after the first (C,) [s].
        sequences: Sequences per replica (C,).
        osl: Output tokens (C,).

    Limits: No arrivals, queueing or client: times are measured at the engine from the start of the
        batch. All requests have the mean lengths.

    Example:
        >>> import numpy as np
        >>> from perfatlas.inference import static_latencies
        >>> one = np.ones(1)
        >>> float(static_latencies(0.5 * one, 0.01 * one, 4 * one, 101 * one).request_latency_s[0])
        1.5
    """
    latency = prefill_s + decode_s * (osl - 1.0)
    return Latencies(prefill_s, decode_s, latency, sequences * osl / latency)


class Joining(NamedTuple):
    """State of the engine when a request arrives."""

    step_s: FloatArray  # Decode step of the other requests (C,) [s]
    others: FloatArray  # Other requests of the replica, whose ranks step together (C,)
    # Steps scheduled ahead of the running one (C,): 1 with asynchronous scheduling
    ahead: FloatArray
    away_s: FloatArray  # Time from the end of a request to the next one of the same client (C,) [s]
    reads: FloatArray  # Steps from one read of new requests to the next (C,)


def joining_s(joining: Joining, request_s: FloatArray) -> FloatArray:
    """Return how long an arriving request waits for running and scheduled steps (C,) [s].

    Each other request is at the engine for a fraction request / (request + away) of the time, and a
    step runs if any of them is. The new request waits for half of the steps from one read of new
    requests to the next, for half a step where every step reads, and for the steps already
    scheduled. If clients are never away, it arrives at the end of a step: it waits for half of the
    other steps between two reads, and for the scheduled ones.

    Args:
        joining: State of the engine.
        request_s: Time of a request at the engine (C,) [s].

    Limits: Arrivals are uniform over a step and independent. If all requests are equal, without
        jitter, a closed loop settles to a fixed phase, up to half a step off.

    Source: derived.

    Example:
        >>> import numpy as np
        >>> from perfatlas.inference import Joining, joining_s
        >>> one = np.ones(1)
        >>> found = Joining(0.01 * one, one, one, 0.25 * one, reads=one)
        >>> float(joining_s(found, 0.75 * one)[0])  # three quarters of one step and a half
        0.01125
    """
    away_C = joining.away_s / (request_s + joining.away_s + MIN_FLOAT)
    runs_C = 1.0 - away_C ** np.maximum(joining.others, 0.0)
    left_C = np.where(joining.away_s > 0.0, joining.reads, joining.reads - 1.0) / 2.0
    wait_C: FloatArray = runs_C * (left_C + joining.ahead) * joining.step_s
    return wait_C


class ClientSide(NamedTuple):
    """Delays between engine and client, each (C,) [s]."""

    # From sending a request until it is queued, including tokenization, without waiting for other
    # requests
    request_s: FloatArray
    token_s: FloatArray  # From the step that produces a token to the client, without other tokens
    # Time to send a token, divided by the rank's share of the front end's sequences
    stream_s: FloatArray
    # Least time between two tokens of a rank: `stream_s`, or 0 where it is assumed
    gap_s: FloatArray
    # From the last token to the end of the response, when the client continues
    response_s: FloatArray

    @property
    def late_s(self) -> FloatArray:
        """Delay of the first token for a single client, relative to the engine (C,) [s]."""
        late_C: FloatArray = self.request_s + self.token_s
        return late_C

    @property
    def turnaround_s(self) -> FloatArray:
        """Time from the engine's last token until the client's next request is queued (C,) [s]."""
        away_C: FloatArray = self.late_s + self.response_s
        return away_C


def at_client(
    latencies: Latencies, client: ClientSide, sequences: FloatArray, osl: FloatArray
) -> Latencies:
    """Return the latencies of a closed loop as seen by its clients.

    The tokens of a step are sent sequentially; a client gets the middle one. If sending takes
    longer than the step, the front end limits the rate to the inverse of its time per token, and
    the latency follows from Little's law.

    Args:
        latencies: Latencies at the engine, for one rank.
        client: Delays between engine and client.
        sequences: Requests in flight on the rank (C,).
        osl: Output tokens (C,).

    Limits: At rates below its limit, the delay of the front end is that of one step.

    Source: derived, as `serving.engine.front_end`.

    Example:
        >>> import numpy as np
        >>> from perfatlas.inference import ClientSide, Latencies, at_client
        >>> one = np.ones(1)
        >>> engine = Latencies(0.1 * one, 0.01 * one, 1.09 * one, 8 * 100 / 1.09 * one)
        >>> client = ClientSide(0 * one, 2e-3 * one, 2e-3 * one, 2e-3 * one, 0 * one)
        >>> seen = at_client(engine, client, 8 * one, 100 * one)
        >>> float(seen.output_tokens_per_s[0])  # one per 2 ms; the engine alone reaches 734
        500.0
    """
    engine_s = latencies.request_latency_s
    behind_s = client.stream_s * np.maximum(sequences - 1.0, 0.0) / 2.0
    first_s = latencies.ttft_s + client.late_s + behind_s
    engines = latencies.output_tokens_per_s * engine_s / (engine_s + client.turnaround_s + behind_s)
    rate = np.minimum(engines, 1.0 / np.maximum(client.gap_s, MIN_FLOAT))
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

    While a request generates its osl tokens, each of the other B - 1 requests in flight is replaced
    once, so every output token carries 1/osl of the time added by their prefills. If prefills share
    steps with decodes, this is t_mixed - t_decode per chunk, as weights are read once for both;
    otherwise it is t_prefill. TPOT = t_decode(B, isl + osl/2) + ((B - 1)/osl) added. TTFT is the
    request's own prefill, after the steps in flight. In the time from one request of a client to
    its next one the engine computes the prompts of all B and the decode steps of one: where that
    takes longer, prompts queue, and TTFT is longer by as much. Times are measured at the engine.

    Args:
        own_prefill_s: Time of the steps that prefill one prompt (C,) [s].
        prefill_cost_s: Time that the prefill of one request adds to other requests (C,) [s].
        decode_s: Decode time per token at the mean context (C,) [s].
        sequences: Requests in flight on one attention-DP rank (C,).
        osl: Output tokens (C,).
        joining: State of the engine when a request arrives.

    Limits: Closed loop in steady state, no queueing for memory or scheduler, and no colliding
        prefills below the capacity: TTFT is a lower limit under load. All lengths are equal.

    Source: derived; chunked prefill mixed with decodes as in Sarathi-Serve (arXiv 2403.02310).

    Example:
        >>> import numpy as np
        >>> from perfatlas.inference import Joining, aggregated_latencies
        >>> one = np.ones(1)
        >>> found = Joining(0.01 * one, 3 * one, 0 * one, 0 * one, reads=one)
        >>> aggregated = aggregated_latencies(
        ...     0.2 * one, 0.1 * one, 0.01 * one, 4 * one, 100 * one, found)
        >>> round(float(aggregated.tpot_s[0]), 6)
        0.013
    """
    tpot = decode_s + np.maximum(sequences - 1.0, 0.0) / osl * prefill_cost_s
    rest = tpot * (osl - 1.0)
    ttft = own_prefill_s + joining_s(joining, own_prefill_s + rest)
    busy = sequences * prefill_cost_s + decode_s * (osl - 1.0)
    ttft = ttft + np.maximum(busy - joining.away_s - ttft - rest, 0.0)
    latency = ttft + rest
    return Latencies(ttft, tpot, latency, sequences * osl / latency)


def pipelined_s(
    total_s: FloatArray, first_s: FloatArray, stages: FloatArray, stage_share: FloatArray
) -> FloatArray:
    """Return the time for successive pieces of work to pass a pipeline (C,) [s].

    The first piece takes the time of all stages, each further one that of the slowest stage.

    Args:
        total_s: All pieces through all stages, summed (C,) [s].
        first_s: The first piece through all stages (C,) [s].
        stages: Pipeline stages (C,).
        stage_share: Fraction of the layers in the slowest stage (C,).
    """
    share = np.where(stages > 1, stage_share, 1.0)
    return total_s * share + first_s * (1.0 - share)
