from .cascades import (
    CASCADE_S as CASCADE_S,
    without_cascades as without_cascades,
)
from .causes import (
    CauseRow as CauseRow,
    rank_causes as rank_causes,
)
from .goodness_of_fit import (
    fitness as fitness,
)
from .lemons import (
    FALSE_DISCOVERY as FALSE_DISCOVERY,
    RATIO as RATIO,
    Lemons as Lemons,
    find_lemons as find_lemons,
)
from .lifetime_table import (
    LifetimeColumns as LifetimeColumns,
    read_lifetimes as read_lifetimes,
)
from .matched_logs import (
    LATE_S as LATE_S,
    MATCH_S as MATCH_S,
    LogAgreement as LogAgreement,
    match_logs as match_logs,
    of_accounting as of_accounting,
)
from .maximum_likelihood import (
    Comparison as Comparison,
    Fit as Fit,
    compare_families as compare_families,
    with_mean as with_mean,
)
from .service_starts import (
    with_service_starts as with_service_starts,
)
from .survival_curve import (
    SurvivalCurve as SurvivalCurve,
    kaplan_meier as kaplan_meier,
)
