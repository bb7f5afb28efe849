"""Collectives on a fabric: where a group sits, what it must move, how long that takes."""

from __future__ import annotations

from perfatlas.collectives.codes import (
    BOUND_LATENCY,
    BOUND_NETWORK,
    IMPLEMENTATIONS,
    OPS,
    check_op,
)
from perfatlas.collectives.physics import (
    COLLECTIVE_SHAPE,
    CUSTOM_PARAMETERS,
    LIBRARY_PARAMETERS,
    collective_shape,
    custom_time_s,
    library_time_s,
)
from perfatlas.collectives.wire import (
    bus_bandwidth,
    in_network_wire_bytes,
    least_wire_bytes,
    one_shot_wire_bytes,
    ring_wire_bytes,
)

__all__ = [
    "BOUND_LATENCY",
    "BOUND_NETWORK",
    "COLLECTIVE_SHAPE",
    "CUSTOM_PARAMETERS",
    "IMPLEMENTATIONS",
    "LIBRARY_PARAMETERS",
    "OPS",
    "bus_bandwidth",
    "check_op",
    "collective_shape",
    "custom_time_s",
    "in_network_wire_bytes",
    "least_wire_bytes",
    "library_time_s",
    "one_shot_wire_bytes",
    "ring_wire_bytes",
]
