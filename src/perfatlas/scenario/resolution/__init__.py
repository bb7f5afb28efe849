"""Resolution of fields to typed columns: names, defaults, rules, grouping."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.scenario.resolution.field_columns import (
        BoolArray as BoolArray,
        columns_of as columns_of,
    )
    from perfatlas.scenario.resolution.field_facts import (
        facts_of as facts_of,
        is_overridden as is_overridden,
        overridden_format as overridden_format,
        overridden_sentence as overridden_sentence,
    )
    from perfatlas.scenario.resolution.model_formats import half_format as half_format
    from perfatlas.scenario.resolution.pools import (
        PARTS as PARTS,
        SHARED as SHARED,
        pool_load as pool_load,
        split_load as split_load,
        split_pools as split_pools,
        worker_batches as worker_batches,
    )
    from perfatlas.scenario.resolution.prompt_lengths import (
        image_fields as image_fields,
        image_tokens as image_tokens,
    )
    from perfatlas.scenario.resolution.refusals import always as always
    from perfatlas.scenario.resolution.resolved_names import (
        format_of as format_of,
        kernel_engine as kernel_engine,
        pool_plan as pool_plan,
        resolved_plan as resolved_plan,
        with_formats as with_formats,
    )
    from perfatlas.scenario.resolution.resolved_scenario import (
        planned_scenario as planned_scenario,
        resolve_scenarios as resolve_scenarios,
    )
    from perfatlas.scenario.resolution.scenario_checks import read_scenario as read_scenario
    from perfatlas.scenario.resolution.simulation_choice import (
        ROUNDS as ROUNDS,
        WARM_ROUNDS as WARM_ROUNDS,
        are_pools_simulated as are_pools_simulated,
        is_simulated as is_simulated,
        may_be_simulated as may_be_simulated,
    )
    from perfatlas.scenario.resolution.simulation_fields import split_fields as split_fields
    from perfatlas.scenario.resolution.tables import (
        EVALUATED as EVALUATED,
        Group as Group,
        Pool as Pool,
        Resolution as Resolution,
        resolve as resolve,
        resolve_one as resolve_one,
    )
    from perfatlas.scenario.resolution.workers import LIMITS as LIMITS
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
