"""Model, measure and explain deep-learning workloads; names are loaded when first used."""

from __future__ import annotations

from perfatlas.version import __version__ as __version__

# importlib is imported when needed: `perfatlas --version` does not pay for it.
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

__all__ = sorted(["__version__", *_HOMES])  # noqa: PLE0605 - the stub lists the names


def __getattr__(name: str) -> object:
    # numpy and the rest load on first use (PEP 562)
    if name not in _HOMES:
        raise AttributeError(f"module 'perfatlas' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"perfatlas.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
