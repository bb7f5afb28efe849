from .fits import (
    fit_training_engine as fit_training_engine,
)
from .scores import (
    validate_training as validate_training,
)
from .trace import (
    fit_to_trace as fit_to_trace,
    trace_comparison as trace_comparison,
)
