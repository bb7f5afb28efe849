"""Validation of the router."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error
from perfatlas.serving.config.limits import ROUTINGS

if TYPE_CHECKING:
    from perfatlas.serving.config.limits import Affinity


def check_router(routing: str, affinity: Affinity) -> None:
    """Validate the routing policy and its thresholds.

    Args:
        routing: Routing policy.
        affinity: Thresholds of `prefix_aware`.

    Raises:
        InvalidSpecError: A name is unknown or a threshold out of range.
    """
    if routing not in ROUTINGS:
        raise InvalidSpecError(
            f"routing {repr_for_error(routing)} is unknown; choose one of {', '.join(ROUTINGS)}"
            f"{did_you_mean(routing, ROUTINGS)}"
        )
    share, apart, ratio = affinity
    if not 0.0 <= share <= 1.0:
        raise InvalidSpecError(f"match_share is {share}; it must be between 0 and 1")
    if apart < 0:
        raise InvalidSpecError(f"balance_apart is {apart}; it must be at least 0 requests")
    if not ratio >= 1.0:
        raise InvalidSpecError(f"balance_ratio is {ratio}; it must be at least 1")
