from .answer import (
    closed_forms as closed_forms,
    estimate as estimate,
    resolved_formats as resolved_formats,
)
from .batch_frontier import (
    frontier as frontier,
)
from .chart import (
    print_frontier as print_frontier,
)
from .columns import (
    estimate_columns as estimate_columns,
)
from .table import (
    TableAnswer as TableAnswer,
    estimate_table as estimate_table,
)
