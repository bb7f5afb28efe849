"""Launch settings that the documentation of an engine gives for models and devices.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class TokenSum:
    """A number of tokens that depends on the load.

    Args:
        isl: Times the longest prompt.
        requests: Times the requests in flight on a replica.
        more: Tokens added.
        multiple: The sum is rounded up to a multiple of it.
    """

    isl: int
    requests: int
    more: int
    multiple: int

    def of(
        self, isl_C: NDArray[np.float64], requests_C: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the tokens (C,).

        Args:
            isl_C: Longest prompt (C,).
            requests_C: Requests in flight on a replica (C,).
        """
        total_C = self.isl * isl_C + self.requests * requests_C + self.more
        tokens_C: NDArray[np.float64] = np.ceil(total_C / self.multiple) * self.multiple
        return tokens_C


@dataclass(frozen=True, kw_only=True)
class ReceiveInterval:
    """Steps between reads of new requests, which depend on the load.

    Args:
        few: Decode-only steps between reads with few requests in flight.
        many: The same with many.
        many_from: Requests in flight on a replica from which they are many.
    """

    few: int
    many: int
    many_from: int

    def of(self, requests: float) -> int:
        """Return the steps between reads.

        Args:
            requests: Requests in flight on a replica, inf if they are not known.
        """
        return self.many if requests >= self.many_from else self.few


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Launch settings for models on devices; None where the recipe does not set them.

    Args:
        name: Name shown in answers.
        models: Catalog names of the models.
        least_gpus: Fewest GPUs of a replica.
        most_gpus: Most GPUs of a replica, inf if there is no limit.
        max_num_batched_tokens: Maximum tokens per step.
        max_num_seqs: Maximum sequences per step.
        gpu_memory_utilization: Fraction of GPU memory that the engine may use.
        stream_interval: Output tokens sent to the client per chunk.
        scheduler_recv_interval: Decode-only steps between reads of new requests.
        source: Documentation reference.
    """

    name: str
    models: tuple[str, ...]
    devices: tuple[str, ...]
    least_gpus: int
    most_gpus: float
    max_num_batched_tokens: TokenSum | None
    max_num_seqs: int | None
    gpu_memory_utilization: float | None
    stream_interval: int | None
    scheduler_recv_interval: ReceiveInterval | None
    source: str
