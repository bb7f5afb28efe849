from .sources import (
    SourceRuns as SourceRuns,
    all_sources as all_sources,
)
from .spread import (
    pooled as pooled,
    source_rows as source_rows,
    spread_rows as spread_rows,
    write_laboratories as write_laboratories,
)
