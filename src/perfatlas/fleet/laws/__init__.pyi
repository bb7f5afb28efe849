from .columns import (
    SIMULATE as SIMULATE,
    FloatArray as FloatArray,
    Judged as Judged,
    judged as judged,
    not_negative as not_negative,
    positive as positive,
    probability as probability,
    whole as whole,
)
from .compile import (
    entry as entry,
    part as part,
    small_part as small_part,
)
from .draws import (
    exponential as exponential,
    replica_key as replica_key,
    uniform as uniform,
)
from .event_heap import (
    NODE as NODE,
    drop as drop,
    push as push,
)
from .hazards import (
    ENDLESS as ENDLESS,
    LONGEST as LONGEST,
    age_at as age_at,
    hazard_at as hazard_at,
    ticks_at as ticks_at,
)
from .laws import (
    Bathtub as Bathtub,
    Constant as Constant,
    Empirical as Empirical,
    Exponential as Exponential,
    Law as Law,
    LogNormal as LogNormal,
    PackedLaws as PackedLaws,
    Weibull as Weibull,
    check_law as check_law,
    mean_s as mean_s,
    residual as residual,
    scaled as scaled,
    survival as survival,
    weibull_of_mean as weibull_of_mean,
)
from .records import (
    BUCKETS as BUCKETS,
    CHECKPOINT as CHECKPOINT,
    DEGRADED as DEGRADED,
    DETECTION as DETECTION,
    IDLE as IDLE,
    JOB as JOB,
    LOST_WORK as LOST_WORK,
    MAINTENANCE as MAINTENANCE,
    MOST_CAUSES as MOST_CAUSES,
    MOST_CREWS as MOST_CREWS,
    MOST_EVENTS as MOST_EVENTS,
    MOST_LEVELS as MOST_LEVELS,
    MOST_PHASES as MOST_PHASES,
    MOST_REPAIRS as MOST_REPAIRS,
    MOST_RESTARTS as MOST_RESTARTS,
    MOST_SLOW as MOST_SLOW,
    MOST_STAGES as MOST_STAGES,
    NEVER as NEVER,
    PLAN as PLAN,
    PRODUCTIVE as PRODUCTIVE,
    RESTART as RESTART,
    SILENT as SILENT,
    SLOWS as SLOWS,
    STOPS as STOPS,
    TICKS_PER_SECOND as TICKS_PER_SECOND,
    WAITING as WAITING,
    Stores as Stores,
)
from .sampled import (
    sample_s as sample_s,
)
