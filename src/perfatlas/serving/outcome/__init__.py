"""Results of a simulation: columns, metrics, tail attribution, series."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.serving.outcome.binned import (
        binned_power as binned_power,
        binned_series as binned_series,
    )
    from perfatlas.serving.outcome.columns import (
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
    from perfatlas.serving.outcome.metrics import (
        ClientDelays as ClientDelays,
        Latencies as Latencies,
        power_column as power_column,
        release_columns as release_columns,
        request_columns as request_columns,
        request_latencies as request_latencies,
        series_columns as series_columns,
    )
    from perfatlas.serving.outcome.steady_state import measured_window as measured_window
    from perfatlas.serving.outcome.summary import saturated as saturated, summarize as summarize
    from perfatlas.serving.outcome.tail_attribution import tail_parts as tail_parts
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
