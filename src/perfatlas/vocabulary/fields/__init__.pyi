from .numbers import (
    LARGEST_COUNT as LARGEST_COUNT,
    LONGEST_S as LONGEST_S,
    Count as Count,
    Number as Number,
)
from .questions import (
    QUESTIONS as QUESTIONS,
    fields_asked as fields_asked,
    named_elsewhere as named_elsewhere,
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
    Subject as Subject,
    check_distribution as check_distribution,
)
from .traffic import (
    Arrivals as Arrivals,
    Objectives as Objectives,
    Scheduling as Scheduling,
)
