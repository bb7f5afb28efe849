from .study import (
    validate_fleet as validate_fleet,
)
