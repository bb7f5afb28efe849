from .boards import (
    board_energy as board_energy,
)
from .clock import (
    CLOCK_RATIOS as CLOCK_RATIOS,
    capped_clock_ratio as capped_clock_ratio,
    sustained_clock as sustained_clock,
)
from .operators import (
    with_energy as with_energy,
)
from .power import (
    PowerColumns as PowerColumns,
    power_columns as power_columns,
)
