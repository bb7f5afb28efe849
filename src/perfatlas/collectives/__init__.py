"""Times of collectives: placement of groups, bytes on links, and tiers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.collectives.codes import OPS as OPS
    from perfatlas.collectives.fabric import (
        NODES_MEASURED as NODES_MEASURED,
        FabricParameters as FabricParameters,
        FabricShape as FabricShape,
        fabric_time_s as fabric_time_s,
    )
    from perfatlas.collectives.notes import (
        NODE_NOTE as NODE_NOTE,
        unseen_fabric as unseen_fabric,
    )
    from perfatlas.collectives.parameters import (
        LIBRARY_FAMILY as LIBRARY_FAMILY,
        cell_format as cell_format,
    )
    from perfatlas.collectives.physics import (
        LIBRARY_ALGORITHMS as LIBRARY_ALGORITHMS,
        CollectiveShape as CollectiveShape,
        CustomParameters as CustomParameters,
        LibraryParameters as LibraryParameters,
        collective_shape as collective_shape,
        custom_time_s as custom_time_s,
        library_time_s as library_time_s,
    )
    from perfatlas.collectives.placement import (
        HOST_LINK as HOST_LINK,
        link_columns as link_columns,
        place_group as place_group,
    )
    from perfatlas.collectives.pricing import (
        CollectiveShapes as CollectiveShapes,
        Implementation as Implementation,
        PricedCollectives as PricedCollectives,
        one_hop_s as one_hop_s,
        price_collectives as price_collectives,
    )
    from perfatlas.collectives.topology import unstated_bridge as unstated_bridge
    from perfatlas.collectives.wire import (
        bus_bandwidth as bus_bandwidth,
        in_network_wire_bytes as in_network_wire_bytes,
        least_wire_bytes as least_wire_bytes,
        one_shot_wire_bytes as one_shot_wire_bytes,
        ring_wire_bytes as ring_wire_bytes,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
