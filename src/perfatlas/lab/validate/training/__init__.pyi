from .scores import (
    validate_training as validate_training,
)
