"""`fleet plan`: machines priced by `estimate`, `search` or `train`, and the plan of least cost."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas import files
from perfatlas.answer import Answer, AnsweredRun, Evidence, joined_tiers
from perfatlas.commands.output import table_function
from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error
from perfatlas.studies import fleet_plans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PLANS: Final = "data/fleet/plans"


@dataclass(frozen=True, kw_only=True)
class FleetPlan(AnsweredRun):
    """A plan and its accounts by month."""

    months: Mapping[str, Sequence[Any]]  # Columns (T,)

    def _beside(self) -> dict[str, Any]:
        return {"months": self.months}

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The accounts by month."""
        return {name: list(values) for name, values in self.months.items()}


def fleet_plan(study: Mapping[str, Any] | str | Path, *, sensitivity: bool = True) -> FleetPlan:
    """Return what to buy, rent and retire each month at least cost.

    Args:
        study: The path of a study, the name of one that comes with perfatlas, or its tables.
        sensitivity: Whether to solve the plan under other assumptions too.

    Raises:
        InvalidSpecError: The study is invalid.
        InfeasibleError: No machine can run a workload, or demand that has no price cannot be met.

    Source: rates and power of `estimate`, `search` or `train`; failures of a fleet; prices and
        terms of ownership of data/prices.toml; a linear program over months.
    Limits: Demand is a mean and a peak of each month; no queues between months.

    Example:
        >>> from perfatlas import fleet_plan
        >>> plan = fleet_plan({
        ...     "start": "2026-07", "months": 12,
        ...     "workload": [{"name": "chat", "tokens_per_day": 1e10, "scenario":
        ...         {"model": "meta-llama/Llama-3.1-8B", "batch": 64, "isl": 1024, "osl": 256}}],
        ...     "machine": [{"system": "h200_sxm"}]}, sensitivity=False)
        >>> plan.results["orders"][0]["gpus"] % 8
        0
    """
    raw, origin = _read(study)
    read = fleet_plans.read_plan(raw, origin)
    plan = fleet_plans.Planned.of(read, fleet_plans.priced_machines(read, table_function))
    results = plan.results()
    if sensitivity:
        results["other_assumptions"] = plan.other_assumptions()
        results |= {f"plan_cost_usd_{end}": usd for end, usd in plan.ends_usd().items()}
    answer = Answer(
        command="fleet plan",
        scenario={"study": raw},
        results=results,
        breakdown=plan.breakdown(),
        evidence=Evidence(
            tier=joined_tiers(plan.priced.tiers),
            assumptions=tuple(plan.assumptions()),
            sources=plan.sources(),
        ),
        warnings=tuple(plan.warnings()),
    )
    return FleetPlan(answer=answer, months=plan.months())


def _read(study: Mapping[str, Any] | str | Path) -> tuple[dict[str, Any], str]:
    """Return the tables of a study and what names it."""
    if not isinstance(study, (str, Path)):
        return dict(study), "study"
    name = str(study)
    shipped = files.shipped_names(PLANS)
    if name in shipped and not files.exists(name):
        return tomllib.loads(files.shipped_text(f"{PLANS}/{name}.toml")), name
    if not files.exists(name) and "/" not in name and not name.endswith(".toml"):
        hint = did_you_mean(name, shipped) or f"; those that come with it: {', '.join(shipped)}"
        raise InvalidSpecError(f"{repr_for_error(name)} is neither a file nor a plan{hint}")
    return files.read_toml(study), name
