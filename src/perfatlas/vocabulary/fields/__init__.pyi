from .conditions import (
    Missing as Missing,
    is_set as is_set,
    value_text as value_text,
)
from .goodput import (
    GpuDomains as GpuDomains,
    JobFailures as JobFailures,
    JobOnFleet as JobOnFleet,
    MeasuredStep as MeasuredStep,
    ResilientJob as ResilientJob,
    SparePool as SparePool,
    SynchronousGpus as SynchronousGpus,
)
from .limits import (
    Limits as Limits,
)
from .numbers import (
    LARGEST_COUNT as LARGEST_COUNT,
    LONGEST_S as LONGEST_S,
    Number as Number,
)
from .operators import (
    AttentionShape as AttentionShape,
    CollectiveKernels as CollectiveKernels,
    CollectiveShape as CollectiveShape,
    GemmShape as GemmShape,
    KernelChoice as KernelChoice,
    MoeShape as MoeShape,
)
from .questions import (
    QUESTIONS as QUESTIONS,
    canonical_name as canonical_name,
    verb_fields as verb_fields,
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
    Plan as Plan,
    Pools as Pools,
    Serving as Serving,
)
from .schedule import (
    ScheduledFailures as ScheduledFailures,
    SchedulingPolicy as SchedulingPolicy,
    SharedCluster as SharedCluster,
    SubmittedJobs as SubmittedJobs,
)
from .signatures import (
    FieldsSignature as FieldsSignature,
    annotation_of as annotation_of,
    signature_of as signature_of,
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
from .wording import (
    bounds_text as bounds_text,
    default_text as default_text,
    json_schema as json_schema,
    needs_text as needs_text,
)
