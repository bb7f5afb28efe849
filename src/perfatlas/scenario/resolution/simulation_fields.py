"""Fields of a simulation: the traffic and the deployment of named fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.scenario.fields import (
    TRAFFIC_NAMES,
    parse_traffic,
    shared_fields,
    with_kind_engines,
)
from perfatlas.scenario.resolution.resolved_scenario import planned_scenario
from perfatlas.scenario.resolution.scenario_checks import read_scenario

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.scenario.fields import Scenario, Traffic


def split_fields(fields: Mapping[str, Any]) -> tuple[Traffic, Scenario]:
    """Return the traffic and the deployment of named fields.

    Raises:
        InvalidSpecError: A name or value is invalid.
    """
    traffic = parse_traffic({name: v for name, v in fields.items() if name in TRAFFIC_NAMES})
    rest = {name: v for name, v in fields.items() if name not in TRAFFIC_NAMES}
    if traffic.replica_kinds is not None:
        rest = shared_fields(rest, traffic)
        traffic = with_kind_engines(traffic, rest)
    mode = rest.get("mode") or "aggregated"
    if mode == "static":
        raise UnsupportedError(
            "simulate does not support mode = static; use aggregated or disaggregated, or estimate"
        )
    if rest.get("feed_forward_system"):
        raise UnsupportedError(
            "simulate does not support feed_forward_system: no engine that schedules requests"
            " splits layers over two machines; use estimate or compare"
        )
    for name in ("method", "batch", "prefix"):
        if rest.get(name) not in (None, "", 0):
            raise InvalidSpecError(f"{name} has no effect in simulate; remove it")
    return traffic, planned_scenario(read_scenario({**rest, "mode": mode}, queues=True))
