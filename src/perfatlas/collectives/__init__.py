"""Collectives on a fabric: where a group sits, what it must move, how long that takes."""

from __future__ import annotations

from perfatlas.collectives.codes import OPS, check_op
from perfatlas.collectives.fabric import FABRIC_SHAPE, fabric_time_s
from perfatlas.collectives.parameters import LIBRARY_FAMILY
from perfatlas.collectives.physics import (
    COLLECTIVE_SHAPE,
    CUSTOM_PARAMETERS,
    LIBRARY_PARAMETERS,
    collective_shape,
    custom_time_s,
    library_time_s,
)
from perfatlas.collectives.placement import link_columns, place_group
from perfatlas.collectives.pricing import (
    CollectiveShapes,
    Implementation,
    PricedCollectives,
    price_collectives,
)
from perfatlas.collectives.wire import (
    bus_bandwidth,
    in_network_wire_bytes,
    least_wire_bytes,
    one_shot_wire_bytes,
    ring_wire_bytes,
)

__all__ = [
    "COLLECTIVE_SHAPE",
    "CUSTOM_PARAMETERS",
    "FABRIC_SHAPE",
    "LIBRARY_FAMILY",
    "LIBRARY_PARAMETERS",
    "OPS",
    "CollectiveShapes",
    "Implementation",
    "PricedCollectives",
    "bus_bandwidth",
    "check_op",
    "collective_shape",
    "custom_time_s",
    "fabric_time_s",
    "in_network_wire_bytes",
    "least_wire_bytes",
    "library_time_s",
    "link_columns",
    "one_shot_wire_bytes",
    "place_group",
    "price_collectives",
    "ring_wire_bytes",
]
