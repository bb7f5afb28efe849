from .availability import (
    FOREVER as FOREVER,
    Availability as Availability,
    Outage as Outage,
    Scaler as Scaler,
)
from .availability_checks import (
    check_availability as check_availability,
)
from .checks import (
    check_energy as check_energy,
    check_fleet as check_fleet,
    check_limits as check_limits,
    check_links as check_links,
    check_prices as check_prices,
    check_requests as check_requests,
)
from .engines import (
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
from .front_end_checks import (
    check_front as check_front,
)
from .limits import (
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
from .offload_checks import (
    check_offload as check_offload,
)
