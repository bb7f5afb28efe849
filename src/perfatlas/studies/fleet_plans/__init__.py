"""Plans of a fleet over years: what to buy, keep, rent and sell each month at least cost."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.studies.fleet_plans.ageing import node_failures, surviving
    from perfatlas.studies.fleet_plans.market import Case, market_of
    from perfatlas.studies.fleet_plans.planned import Planned
    from perfatlas.studies.fleet_plans.purchases import best_schedule, relaxed_schedule
    from perfatlas.studies.fleet_plans.rates import Priced, priced_machines
    from perfatlas.studies.fleet_plans.study import read_plan
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
