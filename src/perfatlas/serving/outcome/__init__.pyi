from .binned import (
    binned_power as binned_power,
    binned_series as binned_series,
)
from .columns import (
    GAP_EDGES as GAP_EDGES,
    FrontEndTimes as FrontEndTimes,
    Offloaded as Offloaded,
    Outcome as Outcome,
    ReplicaOutcome as ReplicaOutcome,
    RunEnergy as RunEnergy,
    Series as Series,
    Transfers as Transfers,
    Window as Window,
)
from .metrics import (
    ClientDelays as ClientDelays,
    Latencies as Latencies,
    power_column as power_column,
    release_columns as release_columns,
    request_columns as request_columns,
    request_latencies as request_latencies,
    series_columns as series_columns,
)
from .steady_state import (
    measured_window as measured_window,
)
from .summary import (
    saturated as saturated,
    summarize as summarize,
)
from .tail_attribution import (
    tail_parts as tail_parts,
)
