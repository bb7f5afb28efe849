from .answer import (
    estimate as estimate,
)
from .batch_frontier import (
    Frontier as Frontier,
    frontier as frontier,
)
from .columns import (
    estimate_columns as estimate_columns,
)
from .table import (
    TableAnswer as TableAnswer,
    estimate_table as estimate_table,
)
from .text import (
    print_frontier as print_frontier,
)
