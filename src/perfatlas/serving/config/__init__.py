"""Configuration of schedulers, engines and routers, and its validation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.serving.config.availability import (
        FOREVER as FOREVER,
        Availability as Availability,
        Outage as Outage,
        Scaler as Scaler,
    )
    from perfatlas.serving.config.availability_checks import (
        check_availability as check_availability,
    )
    from perfatlas.serving.config.checks import (
        check_energy as check_energy,
        check_fleet as check_fleet,
        check_limits as check_limits,
        check_links as check_links,
        check_prices as check_prices,
        check_requests as check_requests,
    )
    from perfatlas.serving.config.engines import (
        ARRIVAL as ARRIVAL,
        DECODE as DECODE,
        FIRST_FROM as FIRST_FROM,
        MAX_ENGINE_TYPES as MAX_ENGINE_TYPES,
        PREFILL as PREFILL,
        RECOMPUTED as RECOMPUTED,
        ROLES as ROLES,
        Fleet as Fleet,
        Link as Link,
        ReplicaGroup as ReplicaGroup,
        equal_engines as equal_engines,
    )
    from perfatlas.serving.config.front_end_checks import check_front as check_front
    from perfatlas.serving.config.limits import (
        MAX_SCHEDULERS as MAX_SCHEDULERS,
        PREFIX_AWARE as PREFIX_AWARE,
        RANDOM as RANDOM,
        ROUND_ROBIN as ROUND_ROBIN,
        ROUTINGS as ROUTINGS,
        Affinity as Affinity,
        Control as Control,
        Limits as Limits,
        Replicas as Replicas,
    )
    from perfatlas.serving.config.offload_checks import check_offload as check_offload
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
