from .answer import (
    Sweep as Sweep,
    sweep as sweep,
)
