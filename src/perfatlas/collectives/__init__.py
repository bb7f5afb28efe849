"""Times of collectives: placement of groups, bytes on links, and tiers."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.collectives.codes import OPS
    from perfatlas.collectives.custom_algorithms import (
        Algorithm, AlgorithmTime, algorithm_time, read_algorithm,
    )
    from perfatlas.collectives.flow_rates import Congestion, Traffic, congestion, timeout_note
    from perfatlas.collectives.fabric import (
        NODES_MEASURED, FabricParameters, FabricShape, fabric_time_s,
    )
    from perfatlas.collectives.notes import NODE_NOTE, unseen_fabric
    from perfatlas.collectives.parameters import LIBRARY_FAMILY, cell_format
    from perfatlas.collectives.physics import (
        LIBRARY_ALGORITHMS, CollectiveShape, CustomParameters, LibraryParameters, collective_shape,
        custom_time_s, library_time_s,
    )
    from perfatlas.collectives.placement import HOST_LINK, link_columns, place_group
    from perfatlas.collectives.pricing import (
        CollectiveShapes, Implementation, PricedCollectives, one_hop_s, price_collectives,
    )
    from perfatlas.collectives.switches import NIC_TIERS
    from perfatlas.collectives.topology import PAIR, unstated_bridge
    from perfatlas.collectives.wire import (
        bus_bandwidth, in_network_wire_bytes, least_wire_bytes, one_shot_wire_bytes,
        ring_wire_bytes,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
