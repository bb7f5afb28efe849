"""Results of a simulation: columns, metrics, tail attribution, series."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.serving.outcome.binned import binned_power, binned_series
    from perfatlas.serving.outcome.columns import (
        GAP_EDGES, FrontEndTimes, Offloaded, Outcome, ReplicaOutcome, RunEnergy, Series, Transfers,
        Window,
    )
    from perfatlas.serving.outcome.metrics import (
        ClientDelays, Latencies, power_column, release_columns, request_columns, request_latencies,
        series_columns,
    )
    from perfatlas.serving.outcome.steady_state import measured_window
    from perfatlas.serving.outcome.summary import saturated, summarize
    from perfatlas.serving.outcome.tail_attribution import tail_parts
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
