"""Plans of a fleet over years: what to buy, rent and retire, month by month."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.plan.answer import FleetPlan, fleet_plan
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
