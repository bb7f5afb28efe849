from .numbers import (
    LARGEST_COUNT as LARGEST_COUNT,
    LONGEST_S as LONGEST_S,
    Count as Count,
    Number as Number,
)
from .questions import (
    QUESTIONS as QUESTIONS,
    fields_asked as fields_asked,
)
from .replicas import (
    KvOffloading as KvOffloading,
    ReplicaFields as ReplicaFields,
    ReplicaOperation as ReplicaOperation,
)
from .rows import (
    Field as Field,
    fields_of as fields_of,
)
from .scenario import (
    Batch as Batch,
    CachedPrefix as CachedPrefix,
    Formats as Formats,
    Lengths as Lengths,
    Limits as Limits,
    Plan as Plan,
    Pools as Pools,
    Serving as Serving,
    check_distribution as check_distribution,
)
from .subject import (
    ClockChoice as ClockChoice,
    Subject as Subject,
    SystemChoice as SystemChoice,
    TierChoice as TierChoice,
)
from .traffic import (
    Arrivals as Arrivals,
    Objectives as Objectives,
    Scheduling as Scheduling,
)
