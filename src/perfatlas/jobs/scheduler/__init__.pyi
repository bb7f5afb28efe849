from .loop import (
    run_world as run_world,
)
