from .simulate import (
    run_fleet as run_fleet,
)
