"""Model, measure and explain deep-learning workloads; names are loaded when first used."""

from __future__ import annotations

# typing and importlib are imported when needed: `perfatlas --version` pays for neither.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perfatlas.scenario.answer import Answer
    from perfatlas.scenario.collective import collective
    from perfatlas.scenario.domain_shares import goodput_domains
    from perfatlas.scenario.estimate import estimate
    from perfatlas.scenario.frontier import frontier
    from perfatlas.scenario.goodput_closed import goodput
    from perfatlas.scenario.kernel import kernel_attention, kernel_gemm, kernel_moe
    from perfatlas.scenario.request_rate import max_request_rate
    from perfatlas.scenario.schedule_run import fleet_schedule
    from perfatlas.scenario.simulate import Simulation, simulate
    from perfatlas.scenario.spare_nodes import goodput_spares
    from perfatlas.scenario.straggler_steps import goodput_stragglers
    from perfatlas.scenario.table import TableAnswer, estimate_table

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Simulation",
    "TableAnswer",
    "__version__",
    "collective",
    "estimate",
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
    if name not in __all__:
        raise AttributeError(f"module 'perfatlas' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module("perfatlas.scenario"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
