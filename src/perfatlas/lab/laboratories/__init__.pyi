from .operator_spread import (
    operator_rows as operator_rows,
    scored_sources as scored_sources,
)
from .outside import (
    BATCHES as BATCHES,
    EXPLORED as EXPLORED,
    HELD_OUT as HELD_OUT,
    half_of as half_of,
    outside_sources as outside_sources,
)
from .predictions import (
    SourceRuns as SourceRuns,
)
from .publications import (
    all_sources as all_sources,
)
from .published_kernels import (
    PublishedTime as PublishedTime,
    published_times as published_times,
)
from .releases import (
    release_row as release_row,
    scored_releases as scored_releases,
)
from .services import (
    published_services as published_services,
)
from .shipped import (
    write_laboratories as write_laboratories,
    write_operator_spreads as write_operator_spreads,
)
from .spread import (
    pooled as pooled,
    source_rows as source_rows,
    spread_rows as spread_rows,
)
