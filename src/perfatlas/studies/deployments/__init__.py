"""Search among the deployments of a model: space, refusals, points, limits, pools, leaders."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.studies.deployments.best_plan import best_plan_fields
    from perfatlas.studies.deployments.choices import SIZES
    from perfatlas.studies.deployments.find import (
        Columns, Found, find_deployments, ranked, within_slos,
    )
    from perfatlas.studies.deployments.groups import (
        LATENCIES, LIMITS, BestPlan, RequestLengths, SearchObjective, SearchSpace,
    )
    from perfatlas.studies.deployments.launch import (
        DRAFTER, NODE_DEVICES, OFFLOADED, OPTIONS, ROLES, SETTINGS, launch_commands, launch_rules,
        launcher_of, left_out_note, needed_checkpoint,
    )
    from perfatlas.studies.deployments.leaders import (
        Leader, closed_form_leaders, simplest_first, simulated_leaders,
        with_known_percentiles, without_exceeded,
    )
    from perfatlas.studies.deployments.limits import (
        DELTA, LOSS, percentile_name,
    )
    from perfatlas.studies.deployments.plan_nodes import (
        VARIED, crossing_of, placement_of, plan_name, plan_text, setting_text, varied_columns,
    )
    from perfatlas.studies.deployments.pools import find_pools
    from perfatlas.studies.deployments.question import SearchInputs, read_search
    from perfatlas.studies.deployments.reasons import (
        first_line, no_plan, no_simulated_plan, nodes_line, placement_line, ranking_notes,
        reason_of,
    )
    from perfatlas.studies.deployments.rows import (
        POOL_SIZES, candidate_table, deficit, estimate_fields, frontier_rows, plan_row,
    )
    from perfatlas.studies.deployments.machine import (
        LIMIT_STEP, MACHINE_METRICS, machine_toml, solved_machine,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
