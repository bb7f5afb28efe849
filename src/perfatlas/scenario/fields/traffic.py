"""Fields of traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.scenario.fields.cache_tiers import CacheTiers
from perfatlas.scenario.fields.operation import Operation
from perfatlas.vocabulary.fields import Arrivals, Objectives, Scheduling

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


OBJECTIVES: Final = ("ttft_s", "tpot_s", "itl_s", "request_latency_s")


# groups in reverse order, as in `Scenario`
class Traffic(CacheTiers, Operation, Objectives, Scheduling, Arrivals):
    """Traffic: requests from a file, or generated ones. None means it is derived."""

    __slots__ = ("router",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Store typed values of the fields that are set; `routing` routes the requests."""
        super().__init__(values)
        # Routes requests instead of `routing`; see `serving.run.router`
        self.router: Callable[..., int] | None = None

    def objectives(self) -> dict[str, float]:
        """Return the objectives that are set, by metric [s]."""
        values = {name: getattr(self, f"slo_{name}") for name in OBJECTIVES}
        return {name: value for name, value in values.items() if value is not None}


TRAFFIC_NAMES: Final = tuple(Traffic.fields())
