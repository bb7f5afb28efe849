from .layout import (
    RECOMPUTE_LEVELS as RECOMPUTE_LEVELS,
    Layouts as Layouts,
    distinct_rows as distinct_rows,
    take_layouts as take_layouts,
)
from .rules import (
    layout_problems as layout_problems,
)
from .stages import (
    stage_layers as stage_layers,
)
