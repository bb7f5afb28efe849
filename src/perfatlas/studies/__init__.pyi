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
