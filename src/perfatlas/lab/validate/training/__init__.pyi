from .fits import (
    fit_training_engine as fit_training_engine,
)
from .scores import (
    validate_training as validate_training,
)
