"""Validation of cache tiers below the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError, UnsupportedError

if TYPE_CHECKING:
    from perfatlas.serving.config.engines import EngineFleet
    from perfatlas.serving.config.limits import SchedulerLimits
    from perfatlas.serving.requests import Requests

MAX_MOVE: Final = 1_000_000_000_000_000_000  # ps: all copies of a step fit into 64 bits
MAX_BLOCKS: Final = 1 << 30  # per tier


def check_offload(fleet: EngineFleet, requests: Requests) -> None:
    """Validate the cache tiers below the GPU.

    Args:
        fleet: Engines with their outages and autoscaler.

    Raises:
        InvalidSpecError: A size or a time is out of range.
        UnsupportedError: A decode engine has tiers.
    """
    for group in fleet.groups:
        limits = group.limits
        _check_sizes(limits, requests)
        if not limits.offloads:
            continue
        if not limits.prefix_caching:
            raise InvalidSpecError(
                "KV cache offloading requires prefix_caching, which is off; enable it or remove the"
                " cache tiers"
            )
        if group.role == "decode":
            raise UnsupportedError(
                "decode engines load no KV cache from host memory or SSDs; remove their cache tiers"
            )


def _check_sizes(limits: SchedulerLimits, requests: Requests) -> None:
    for name in ("host_blocks", "ssd_blocks", "remote_blocks"):
        value = getattr(limits, name)
        if not 0 <= value <= MAX_BLOCKS:
            raise InvalidSpecError(f"{name} is {value}; it must be 0 to {MAX_BLOCKS:,}")
    longest = int(requests.isl_N.max(initial=0)) // limits.block_size
    for name in ("host_move", "ssd_move", "remote_move", "remote_share", "remote_latency"):
        value = getattr(limits, name)
        if not 0 <= value * longest * limits.max_num_seqs <= MAX_MOVE:
            raise InvalidSpecError(
                f"{name} is {value} ps per block; it must be at least 0, and {limits.max_num_seqs}"
                f" prompts of {longest} blocks may take at most 1,000,000 s: use shorter prompts or"
                " a faster link"
            )
