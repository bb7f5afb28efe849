"""Limits of schedulers, engines and routers, and the checks of them."""

from __future__ import annotations

from perfatlas.serving.config.availability import FOREVER, Outage, Scaler, Upkeep
from perfatlas.serving.config.check_availability import check_upkeep
from perfatlas.serving.config.check_front import check_front
from perfatlas.serving.config.check_offload import check_offload
from perfatlas.serving.config.checks import (
    check_fleet,
    check_limits,
    check_links,
    check_prices,
    check_requests,
)
from perfatlas.serving.config.engines import (
    ARRIVAL,
    BOTH,
    DECODE,
    FIRST_FROM,
    MOST_KINDS,
    PREFILL,
    RECOMPUTED,
    ROLES,
    Fleet,
    Kind,
    Link,
    equal_engines,
)
from perfatlas.serving.config.limits import (
    MAX_UTILIZATION,
    MOST_SCHEDULERS,
    NO_EVICT,
    PREFIX_AWARE,
    RANDOM,
    ROUND_ROBIN,
    ROUTINGS,
    RULES,
    SGLANG,
    STATIC,
    VLLM,
    Affinity,
    Control,
    Limits,
    Replicas,
)

__all__ = [
    "ARRIVAL",
    "BOTH",
    "DECODE",
    "FIRST_FROM",
    "FOREVER",
    "MAX_UTILIZATION",
    "MOST_KINDS",
    "MOST_SCHEDULERS",
    "NO_EVICT",
    "PREFILL",
    "PREFIX_AWARE",
    "RANDOM",
    "RECOMPUTED",
    "ROLES",
    "ROUND_ROBIN",
    "ROUTINGS",
    "RULES",
    "SGLANG",
    "STATIC",
    "VLLM",
    "Affinity",
    "Control",
    "Fleet",
    "Kind",
    "Limits",
    "Link",
    "Outage",
    "Replicas",
    "Scaler",
    "Upkeep",
    "check_fleet",
    "check_front",
    "check_limits",
    "check_links",
    "check_offload",
    "check_prices",
    "check_requests",
    "check_upkeep",
    "equal_engines",
]
