"""What prompts cost the requests beside them where pipeline stages leave bubbles.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.inference.latencies import pipelined_s

if TYPE_CHECKING:
    from perfatlas.inference.running_load import RunningLoad
    from perfatlas.operators import FloatArray


def prompts_in_stages(load: RunningLoad, added_s: FloatArray, first_s: FloatArray) -> FloatArray:
    """Return the time that prompts that start together delay all micro-batches (C,) [s].

    Every micro-batch returns to the first stage after all others have entered it. A step that is
    longer by c thus delays all of them by c at each of the p stages, p c in total, as the decodes
    behind it leave the other stages idle. The k chunks of a prompt follow each other through the
    pipeline: (k + p - 1) c. Only chunks in another micro-batch that pass in the same cycle of m
    micro-batches add nothing to that. With q starts of prompts per step, each costs

        at even intervals: (k + p - 1) c / max(1, q (k + m - 1))
        at random ones:    (k + p - 1) c / (1 + q (m - 1))

    and k c, as in a full pipeline, once every step has a chunk (q k = 1). Requests of equal lengths
    start at even intervals. One stage has no bubbles: k c.

    Args:
        added_s: What all chunks of the prompts add to their steps, through all stages (C,) [s].
        first_s: What the first chunk adds (C,) [s].

    Limits: Chunks follow each other although TensorRT-LLM waits for the one before. Decodes of all
        micro-batches take the same time.

    Source: derived: the step n of a stage starts after step n - 1 of the same stage, after step n
        of the stage before and, in the first stage, after step n - m of the last one; the time is
        the longest path through these. Even intervals: all of it passes the longest steps; random
        ones: a path that takes each such step in all stages and misses the m - 1 steps behind it.
    """
    pass_s = pipelined_s(added_s, first_s, load.question.plan.pp, load.stage_share)
    number = load.chunks.count + load.chunks.last_count
    starts = np.minimum(load.mixed_steps / load.micro_batches, 1.0) / number
    behind = np.minimum(load.micro_batches, 1.0 / load.stage_share) - 1.0
    even = np.maximum(1.0, starts * (number + behind))
    at_once: FloatArray = np.where(load.evenly, even, 1.0 + starts * behind)
    return pass_s / np.where(behind > 0.0, at_once, 1.0)
