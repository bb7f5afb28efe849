from .answer import (
    closed_forms as closed_forms,
    estimate as estimate,
    pool_plan as pool_plan,
    resolved_formats as resolved_formats,
    resolved_plan as resolved_plan,
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
