"""Validation of pipeline stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.quantities import InvalidSpecError, UnsupportedError

if TYPE_CHECKING:
    from perfatlas.serving.config.engines import Fleet


def check_stages(fleet: Fleet) -> None:
    """Validate pipeline stages, which are simulated for identical replicas without outages.

    Args:
        fleet: The engines.

    Raises:
        InvalidSpecError: A stage has no layer.
        UnsupportedError: A combination is not simulated.
    """
    staged = [group for group in fleet.groups if group.stage_layers]
    if not staged:
        return
    limits = staged[0].limits
    if min(staged[0].stage_layers) < 1:
        raise InvalidSpecError(
            f"stage_layers {staged[0].stage_layers}: every pipeline stage needs at least one layer"
        )
    for name, asked in (
        ("several engine types", len(fleet.groups) > 1),
        ("outages and autoscaling", fleet.availability.varies),
        ("speculative decoding", limits.draft_tokens > 0),
        ("KV cache offloading", limits.offloads),
        ("asynchronous scheduling", limits.async_scheduling),
    ):
        if asked:
            raise UnsupportedError(
                f"pp = {len(staged[0].stage_layers)}: {name} with pipeline stages cannot be"
                " simulated; use pp = 1"
            )
