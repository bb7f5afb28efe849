"""The vocabulary of traffic, and the requests it describes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.scenario.fields.cache_tiers import CacheTiers
from perfatlas.scenario.fields.operation import Operation
from perfatlas.scenario.fields.vocabulary import FIELD_NAMES
from perfatlas.vocabulary.fields import Arrivals, Objectives, Scheduling

if TYPE_CHECKING:
    from collections.abc import Mapping


OBJECTIVES: Final = ("ttft_s", "tpot_s", "itl_s", "request_latency_s")


# the groups from the last to the first, as in `Scenario`
class Traffic(CacheTiers, Operation, Objectives, Scheduling, Arrivals):
    """What arrives: a file of requests, or generated ones. None means "derive it"."""

    def objectives(self) -> dict[str, float]:
        """Return the objectives that are set, by metric [s]."""
        asked = {name: getattr(self, f"slo_{name}") for name in OBJECTIVES}
        return {name: value for name, value in asked.items() if value is not None}


TRAFFIC_NAMES: Final = tuple(Traffic.model_fields)


def parse_traffic(fields: Mapping[str, Any]) -> Traffic:
    """Return the traffic of named fields; None and empty text count as not given.

    Raises:
        InvalidSpecError: A name is unknown or a value breaks its rule; all of them are named.

    Example:
        >>> from perfatlas.scenario.fields import parse_traffic
        >>> parse_traffic({"request_rate": "4", "arrival": None}).request_rate
        4.0
    """
    return Traffic.read(fields, FIELD_NAMES)
