from .binned import (
    binned_series as binned_series,
)
from .columns import (
    GAP_EDGES as GAP_EDGES,
    Fronted as Fronted,
    Offloaded as Offloaded,
    Operated as Operated,
    Outcome as Outcome,
    Series as Series,
    Travels as Travels,
)
from .metrics import (
    Seen as Seen,
    request_columns as request_columns,
    request_latencies as request_latencies,
    saturated as saturated,
    series_columns as series_columns,
    summarize as summarize,
)
from .tail_attribution import (
    tail_parts as tail_parts,
)
