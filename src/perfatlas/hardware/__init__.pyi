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
