from .citations import (
    cited_sources as cited_sources,
)
from .description import (
    describe as describe,
    field_values as field_values,
)
from .device import (
    Device as Device,
    Node as Node,
    System as System,
)
from .paths import (
    HOST as HOST,
    PEER as PEER,
    SWITCH_PATHS as SWITCH_PATHS,
    UNKNOWN_ROUTE as UNKNOWN_ROUTE,
    Route as Route,
    ring_route as ring_route,
)
from .resolve import (
    changed_fields as changed_fields,
    resolve_system as resolve_system,
    system_names as system_names,
    with_values as with_values,
)
from .schema import (
    FIELDS as FIELDS,
    unit_of as unit_of,
)
from .similar_devices import (
    alternatives as alternatives,
)
from .template import (
    system_template as system_template,
)
