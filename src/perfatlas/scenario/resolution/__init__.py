"""Resolution of fields to typed columns: names, defaults, rules, grouping."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.scenario.resolution.field_facts import (
        facts_of, is_overridden, overridden_format, overridden_sentence,
    )
    from perfatlas.scenario.resolution.model_formats import half_format
    from perfatlas.scenario.resolution.pools import (
        PARTS, SHARED, part_scenario, pool_load, split_load, split_pools, worker_batches,
    )
    from perfatlas.scenario.resolution.resolved_names import (
        acceptance_of_drafts, feed_forward_plan, format_of, kernel_engine, pool_plan, resolved_plan,
        with_formats,
    )
    from perfatlas.scenario.resolution.resolved_scenario import planned_scenario, resolve_scenarios
    from perfatlas.scenario.resolution.rules import read_scenario
    from perfatlas.scenario.resolution.simulation_choice import (
        ROUNDS, WARM_ROUNDS, are_pools_simulated, is_simulated, may_be_simulated, split_fields,
    )
    from perfatlas.scenario.resolution.tables import (
        EVALUATED, Group, Pool, Resolution, resolve, resolve_one,
    )
    from perfatlas.scenario.resolution.workers import LIMITS, image_fields, image_tokens
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
