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
    """A number of tokens that depends on the load."""

    isl: int  # Times the longest prompt
    requests: int  # Times the requests in flight on a replica
    more: int  # Tokens added
    multiple: int  # The sum is rounded up to a multiple of it

    def of(
        self, isl_C: NDArray[np.float64], requests_C: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the tokens (C,)."""
        total_C = self.isl * isl_C + self.requests * requests_C + self.more
        tokens_C: NDArray[np.float64] = np.ceil(total_C / self.multiple) * self.multiple
        return tokens_C


@dataclass(frozen=True, kw_only=True)
class ReceiveInterval:
    """Steps between reads of new requests, which depend on the load."""

    few: int  # Decode-only steps between reads with few requests in flight
    many: int  # The same with many
    many_from: int  # Requests in flight on a replica from which they are many

    def of(self, requests: float) -> int:
        """Return the steps between reads.

        Args:
            requests: Requests in flight on a replica, inf if they are not known.
        """
        return self.many if requests >= self.many_from else self.few


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Launch settings for models on devices; None where the recipe does not set them."""

    name: str  # Name shown in answers
    models: tuple[str, ...]  # Catalog names of the models
    devices: tuple[str, ...]
    least_gpus: int  # Fewest GPUs of a replica
    most_gpus: float  # Most GPUs of a replica, inf if there is no limit
    max_num_batched_tokens: TokenSum | None  # Maximum tokens per step
    max_num_seqs: int | None  # Maximum sequences per step
    gpu_memory_utilization: float | None  # Fraction of GPU memory that the engine may use
    stream_interval: int | None  # Output tokens sent to the client per chunk
    # Decode-only steps between reads of new requests
    scheduler_recv_interval: ReceiveInterval | None
    source: str  # Documentation reference
