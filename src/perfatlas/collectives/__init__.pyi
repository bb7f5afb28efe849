from .algorithms import (
    LIBRARY_ALGORITHMS as LIBRARY_ALGORITHMS,
)
from .codes import (
    OPS as OPS,
    check_op as check_op,
)
from .fabric import (
    FABRIC_SHAPE as FABRIC_SHAPE,
    fabric_time_s as fabric_time_s,
)
from .levels import (
    NODES_MEASURED as NODES_MEASURED,
)
from .parameters import (
    LIBRARY_FAMILY as LIBRARY_FAMILY,
    cell_format as cell_format,
)
from .physics import (
    COLLECTIVE_SHAPE as COLLECTIVE_SHAPE,
    CUSTOM_PARAMETERS as CUSTOM_PARAMETERS,
    LIBRARY_PARAMETERS as LIBRARY_PARAMETERS,
    collective_shape as collective_shape,
    custom_time_s as custom_time_s,
    library_time_s as library_time_s,
)
from .placement import (
    link_columns as link_columns,
    place_group as place_group,
)
from .pricing import (
    CollectiveShapes as CollectiveShapes,
    Implementation as Implementation,
    PricedCollectives as PricedCollectives,
    price_collectives as price_collectives,
)
from .wire import (
    bus_bandwidth as bus_bandwidth,
    in_network_wire_bytes as in_network_wire_bytes,
    least_wire_bytes as least_wire_bytes,
    one_shot_wire_bytes as one_shot_wire_bytes,
    ring_wire_bytes as ring_wire_bytes,
)
