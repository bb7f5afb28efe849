"""Configuration of schedulers, engines and routers, and its validation."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.serving.config.availability import FOREVER, Availability, Outage, Scaler
    from perfatlas.serving.config.availability_checks import check_availability
    from perfatlas.serving.config.checks import (
        check_energy, check_fleet, check_front, check_limits, check_links, check_prices,
        check_requests,
    )
    from perfatlas.serving.config.engines import (
        AGGREGATED_ROLE, ARRIVAL, DECODE, FIRST_FROM, MAX_ENGINE_TYPES, PREFILL, RECOMPUTED, ROLES,
        EngineFleet, Link, ReplicaGroup, equal_engines,
    )
    from perfatlas.serving.config.limits import (
        BY_FUNCTION, MAX_SCHEDULERS, PREFIX_AWARE, RANDOM, ROUND_ROBIN, ROUTINGS, Affinity, Control,
        Replicas, SchedulerLimits,
    )
    from perfatlas.serving.config.offload_checks import check_offload
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
