"""Model, measure and explain deep-learning workloads; names are loaded when first used."""

from __future__ import annotations

from perfatlas.version import __version__

# typing and importlib are imported when needed: `perfatlas --version` pays for neither.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perfatlas.answer import Answer, AnsweredRun
    from perfatlas.verbs.collective import collective
    from perfatlas.verbs.estimate import (
        Frontier,
        TableAnswer,
        estimate,
        estimate_columns,
        estimate_table,
        frontier,
    )
    from perfatlas.verbs.goodput import (
        FleetRun,
        goodput,
        goodput_domains,
        goodput_spares,
        goodput_stragglers,
    )
    from perfatlas.verbs.kernel import kernel_attention, kernel_gemm, kernel_moe
    from perfatlas.verbs.schedule import FleetSchedule, fleet_schedule
    from perfatlas.verbs.simulate import Simulation, max_request_rate, simulate

_HOMES = {
    "Answer": "answer",
    "AnsweredRun": "answer",
    "FleetRun": "verbs.goodput",
    "FleetSchedule": "verbs.schedule",
    "Frontier": "verbs.estimate",
    "Simulation": "verbs.simulate",
    "TableAnswer": "verbs.estimate",
    "collective": "verbs.collective",
    "estimate": "verbs.estimate",
    "estimate_columns": "verbs.estimate",
    "estimate_table": "verbs.estimate",
    "fleet_schedule": "verbs.schedule",
    "frontier": "verbs.estimate",
    "goodput": "verbs.goodput",
    "goodput_domains": "verbs.goodput",
    "goodput_spares": "verbs.goodput",
    "goodput_stragglers": "verbs.goodput",
    "kernel_attention": "verbs.kernel",
    "kernel_gemm": "verbs.kernel",
    "kernel_moe": "verbs.kernel",
    "max_request_rate": "verbs.simulate",
    "simulate": "verbs.simulate",
}

__all__ = [
    "Answer",
    "AnsweredRun",
    "FleetRun",
    "FleetSchedule",
    "Frontier",
    "Simulation",
    "TableAnswer",
    "__version__",
    "collective",
    "estimate",
    "estimate_columns",
    "estimate_table",
    "fleet_schedule",
    "frontier",
    "goodput",
    "goodput_domains",
    "goodput_spares",
    "goodput_stragglers",
    "kernel_attention",
    "kernel_gemm",
    "kernel_moe",
    "max_request_rate",
    "simulate",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - module attributes are of any type
    # numpy and the rest load on first use (PEP 562)
    if name not in _HOMES:
        raise AttributeError(f"module 'perfatlas' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"perfatlas.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
