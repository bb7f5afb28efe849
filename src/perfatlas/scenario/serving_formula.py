"""From step costs to what a user of the service sees, in closed form.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray


class Latencies(NamedTuple):
    """Latencies of a request and the throughput they imply, each (C,)."""

    ttft_s: FloatArray
    tpot_s: FloatArray
    request_latency_s: FloatArray
    output_tokens_per_s: FloatArray  # of one replica


def static_latencies(
    prefill_s: FloatArray, decode_s: FloatArray, sequences: FloatArray, osl: FloatArray
) -> Latencies:
    """Return the latencies of one static batch that starts and ends together.

    Args:
        prefill_s: Time to prefill the whole batch (C,) [s].
        decode_s: Time per output token after the first (C,) [s].
        sequences: Sequences of a replica (C,).
        osl: Output tokens (C,).

    Limits: no arrivals, no queue; every request has the mean lengths.

    Example:
        >>> import numpy as np
        >>> from perfatlas.scenario import static_latencies
        >>> one = np.ones(1)
        >>> float(static_latencies(0.5 * one, 0.01 * one, 4 * one, 101 * one).request_latency_s[0])
        1.5
    """
    latency = prefill_s + decode_s * (osl - 1.0)
    return Latencies(prefill_s, decode_s, latency, sequences * osl / latency)


def aggregated_latencies(
    own_prefill_s: FloatArray,
    prefill_cost_s: FloatArray,
    decode_s: FloatArray,
    sequences: FloatArray,
    osl: FloatArray,
) -> Latencies:
    """Return the latencies of continuous batching at a fixed number of requests in flight.

    In the time one request generates its osl tokens, each of the other B - 1 requests in flight is
    replaced once, so every output token carries 1/osl of what their prefills add. Where a prompt
    shares its step with the decodes of the others, that is t_mixed - t_decode for each chunk: the
    weights are read once for both. Where it does not, it is t_prefill.
    TPOT = t_decode(B, isl + osl/2) + ((B - 1)/osl) added. TTFT is the request's own prefill, after
    half of the step in flight.

    Args:
        own_prefill_s: Steps that prefill one prompt (C,) [s].
        prefill_cost_s: What the prefill of one request adds to the steps of the others (C,) [s].
        decode_s: Decode step at the mean context (C,) [s].
        sequences: Requests in flight on one attention-DP rank (C,).
        osl: Output tokens (C,).

    Limits: closed loop in steady state, no queue for memory or for the scheduler, prefills do not
        collide: TTFT is a floor under load. Lengths are all equal.

    Source: derived; chunked prefill beside decodes as in Sarathi-Serve (arXiv 2403.02310).

    Example:
        >>> import numpy as np
        >>> from perfatlas.scenario.serving_formula import aggregated_latencies
        >>> one = np.ones(1)
        >>> found = aggregated_latencies(0.2 * one, 0.1 * one, 0.01 * one, 4 * one, 100 * one)
        >>> round(float(found.tpot_s[0]), 6)
        0.013
    """
    tpot = decode_s + np.maximum(sequences - 1.0, 0.0) / osl * prefill_cost_s
    ttft = own_prefill_s + 0.5 * decode_s
    latency = ttft + tpot * (osl - 1.0)
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
