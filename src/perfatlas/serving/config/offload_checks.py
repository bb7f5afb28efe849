"""What the loop refuses of tiers below the GPU before it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError, UnsupportedError

if TYPE_CHECKING:
    from perfatlas.serving.config.engines import Fleet
    from perfatlas.serving.config.limits import Limits
    from perfatlas.serving.requests import Requests

LONGEST_MOVE: Final = 1_000_000_000_000_000_000  # ps: all copies of a step fit into 64 bits
MOST_BLOCKS: Final = 1 << 30  # of a tier


def check_offload(fleet: Fleet, requests: Requests) -> None:
    """Refuse tiers with pools and failures they are not simulated with.

    Args:
        fleet: Engines and what changes them.
        requests: What arrives.

    Raises:
        InvalidSpecError: A size or a time is out of range.
        UnsupportedError: No prefix caching, two pools, or replicas that fail, start or stop.
    """
    for kind in fleet.kinds:
        limits = kind.limits
        _check_sizes(limits, requests)
        if not limits.offloads:
            continue
        if not limits.prefix_caching:
            raise InvalidSpecError(
                "cache tiers below the GPU hold shared prefixes, and prefix_caching is off; turn it"
                " on or leave the tiers out"
            )
        if kind.role != "both":
            raise UnsupportedError(
                f"cache tiers below the GPU in role {kind.role} are not simulated; leave them out"
                " or use one pool"
            )
        if fleet.upkeep.varies:
            raise UnsupportedError(
                "cache tiers below the GPU of replicas that fail, start or stop are not simulated:"
                " what host and SSD keep then differs by deployment; leave one of both out"
            )
        if len({one.limits.offloads for one in fleet.kinds}) > 1:
            raise UnsupportedError(
                "cache tiers below the GPU of some kinds of engines and not of others are not"
                " simulated; give them to all or to none"
            )


def _check_sizes(limits: Limits, requests: Requests) -> None:
    for name in ("host_blocks", "ssd_blocks"):
        value = getattr(limits, name)
        if not 0 <= value <= MOST_BLOCKS:
            raise InvalidSpecError(f"{name} is {value}; it is 0 to {MOST_BLOCKS:,}")
    longest = int(requests.isl_N.max(initial=0)) // limits.block_size
    for name in ("host_move", "ssd_move"):
        value = getattr(limits, name)
        if not 0 <= value * longest * limits.max_num_seqs <= LONGEST_MOVE:
            raise InvalidSpecError(
                f"{name} is {value} ps for a block; it is at least 0, and {limits.max_num_seqs}"
                f" prompts of {longest} blocks take at most 1,000,000 s: shorten prompts or widen"
                " the link"
            )
