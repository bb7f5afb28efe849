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
from .sensitivities import (
    explain as explain,
)
from .sensitivities_text import (
    print_explanation as print_explanation,
)
from .table import (
    TableAnswer as TableAnswer,
    estimate_table as estimate_table,
)
from .text import (
    print_frontier as print_frontier,
)
