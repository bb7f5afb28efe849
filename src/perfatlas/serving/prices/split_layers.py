"""Step prices of layers whose feed-forward networks run on another machine than attention.

All attention ranks step together: the feed-forward machine computes the tokens of all of them.

Shape legend: as in `serving.prices`; X sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from perfatlas.serving.prices.tables import StepPrices, Ticks

    Counts = NDArray[np.int64]


def split_prices(
    attention: StepPrices,
    feed_forward: StepPrices,
    link: Callable[[Counts], Ticks],
    *,
    ranks: int,
    micro_batches: int,
) -> StepPrices:
    """Return the step prices of an attention rank and the feed-forward machine that serves all.

    A step without prompts divides its sequences into micro-batches of equal size. It takes as long
    as one of them needs in attention, feed-forward networks and two transfers, or as all of them
    need in the slowest of the three. A step with prompts is not divided.

    Args:
        attention: Prices of a rank without feed-forward networks.
        feed_forward: Prices of the other machine without drafts, up to the tokens of all ranks.
        link: Time of the transfers of all layers in one direction by tokens of a rank [ps].
        ranks: Attention ranks.
        micro_batches: Parts of the sequences of a rank in flight, at least 1.

    Source: ping-pong pipeline of Zhu et al., MegaScale-Infer, 2025 (arXiv 2504.02263).
    """
    queries = attention.tokens_per_decode
    every_B = np.arange(attention.decode_linear_B.size)
    part_B = -(-every_B // micro_batches)
    parts_B = -(-every_B // np.maximum(part_B, 1))
    head_B = attention.head_B[part_B * queries]
    other_B = _whole(feed_forward, feed_forward.decode_linear_B, part_B * queries * ranks)
    link_B = link(part_B * queries)
    every_T = np.arange(attention.mixed_linear_T.size)
    other_T = _whole(feed_forward, feed_forward.mixed_linear_T, every_T * ranks)
    other_T = other_T + np.where(every_T > 0, feed_forward.host_prefill, 0)
    own_B = attention.decode_linear_B[part_B] + head_B
    host = 0 if attention.host_overlapped else attention.host_step
    away_B, away_T = other_B + 2 * link_B, other_T + 2 * link(every_T)
    share_B1 = (part_B / np.maximum(every_B, 1))[:, None]  # of the keys of all sequences
    return attention._replace(
        # the event loop adds the head of all sequences
        decode_linear_B=away_B + np.maximum(own_B - attention.head_B[every_B * queries], 0),
        decode_experts_B=away_B,
        mixed_linear_T=attention.mixed_linear_T + away_T,
        mixed_experts_T=away_T,
        decode_base_BK=attention.decode_base_BK[part_B],
        decode_slope_BK=np.rint(share_B1 * attention.decode_slope_BK[part_B]).astype(np.int64),
        micro_batches=micro_batches,
        decode_turns_B=parts_B * own_B + np.maximum(parts_B - 1, 0) * host,
        decode_away_B=parts_B * np.maximum(other_B, link_B),
    )


def _whole(prices: StepPrices, linear_X: Ticks, tokens_X: Counts) -> Ticks:
    """Return the time of a machine's part of steps with its host time, 0 without tokens (X,)."""
    linear_X = linear_X[tokens_X]
    if prices.host_overlapped:
        return np.where(tokens_X > 0, np.maximum(linear_X, prices.host_step), 0)
    return np.where(tokens_X > 0, linear_X + prices.host_step, 0)
