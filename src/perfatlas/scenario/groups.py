"""Which scenarios are answered together, as columns of one question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.engines import resolve_engine
from perfatlas.models import ModelFormats, resolve_model
from perfatlas.quantities import PerfatlasError
from perfatlas.scenario.resolved_scenario import device_architecture, resolve_formats

if TYPE_CHECKING:
    from collections.abc import Hashable

    from perfatlas.scenario.vocabulary import Scenario

NAMES: Final = (
    "model",
    "engine",
    "format",
    "gemm_format",
    "moe_format",
    "kv_format",
    "attention_format",
)


class Groups:
    """Keys of scenarios; those that share one have model, engine, formats and tier in common.

    Formats count as they are resolved: what no format is named for, what is named bf16 and what an
    engine takes for it on two devices is one group.
    """

    def __init__(self) -> None:
        """Know no formats yet."""
        self._known: dict[Hashable, ModelFormats | None] = {}

    def key(self, scenario: Scenario) -> Hashable:
        """Return what a scenario shares with all that are answered with it.

        Args:
            scenario: What is asked.
        """
        systems = [scenario.system]
        if scenario.mode == "disaggregated":
            systems = [scenario.prefill_system or scenario.system]
            systems.append(scenario.decode_system or scenario.system)
        return (
            scenario.model,
            scenario.engine,
            scenario.tier,
            scenario.silicon_version,
            scenario.expert_distribution,
            scenario.speculative_depth,
            scenario.speculative_acceptance,
            *(self._formats(scenario, system) for system in systems),
        )

    def _formats(self, scenario: Scenario, system: str) -> Hashable:
        """Return the formats on a system; the names as given where they cannot be resolved."""
        names = (getattr(scenario, name) for name in NAMES)
        asked = (*names, device_architecture(system))
        if asked not in self._known:
            self._known[asked] = _resolved(scenario.model_copy(update={"system": system}))
        return self._known[asked] or asked


def _resolved(scenario: Scenario) -> ModelFormats | None:
    try:
        model, profile = resolve_model(scenario.model), resolve_engine(scenario.engine)
        return resolve_formats(scenario, model.architecture, profile)[0]
    except PerfatlasError:
        return None  # refused by itself when the question is resolved
