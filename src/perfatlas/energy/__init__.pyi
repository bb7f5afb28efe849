from .boards import (
    board_energy as board_energy,
)
from .operators import (
    with_energy as with_energy,
)
from .power import (
    PowerColumns as PowerColumns,
    power_columns as power_columns,
)
