from .factors import (
    FACTORS as FACTORS,
    Factor as Factor,
    factors_of as factors_of,
)
from .pareto import (
    pareto_points as pareto_points,
)
from .probability import (
    probability_at_most as probability_at_most,
    value_exceeded as value_exceeded,
)
from .refusals import (
    refused_by_rule as refused_by_rule,
)
from .scaling import (
    ScaledScenario as ScaledScenario,
    scaled_scenario as scaled_scenario,
)
from .sensitivity import (
    LATENCIES as LATENCIES,
    break_even as break_even,
    elasticities as elasticities,
    next_bottlenecks as next_bottlenecks,
    sobol_shares as sobol_shares,
)
