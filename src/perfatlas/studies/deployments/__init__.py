"""Search among the deployments of a model: space, refusals, points, limits, pools, leaders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.studies.deployments.choices import (
        EXCHANGE as EXCHANGE,
        SIZES as SIZES,
        listed_names as listed_names,
    )
    from perfatlas.studies.deployments.find import (
        NO_GAIN as NO_GAIN,
        Columns as Columns,
        Found as Found,
        find_deployments as find_deployments,
        ranked as ranked,
        within_slos as within_slos,
    )
    from perfatlas.studies.deployments.groups import (
        LATENCIES as LATENCIES,
        LIMITS as LIMITS,
        RequestLengths as RequestLengths,
        SearchObjective as SearchObjective,
        SearchSpace as SearchSpace,
    )
    from perfatlas.studies.deployments.launch import (
        DRAFTER as DRAFTER,
        NODE_DEVICES as NODE_DEVICES,
        OPTIONS as OPTIONS,
        ROLES as ROLES,
        SETTINGS as SETTINGS,
        launch_commands as launch_commands,
        launch_rules as launch_rules,
        launcher_of as launcher_of,
        left_out_note as left_out_note,
        needed_checkpoint as needed_checkpoint,
    )
    from perfatlas.studies.deployments.leaders import (
        Leader as Leader,
        closed_form_leaders as closed_form_leaders,
        ranking_error as ranking_error,
        simplest_first as simplest_first,
        simulated_leaders as simulated_leaders,
        with_known_percentiles as with_known_percentiles,
        without_exceeded as without_exceeded,
    )
    from perfatlas.studies.deployments.limits import (
        AVAILABILITY as AVAILABILITY,
        DELTA as DELTA,
        HIGHER as HIGHER,
        LOSS as LOSS,
        RATE as RATE,
        percentile_name as percentile_name,
    )
    from perfatlas.studies.deployments.plan_nodes import (
        crossing_of as crossing_of,
        placement_of as placement_of,
    )
    from perfatlas.studies.deployments.pools import find_pools as find_pools
    from perfatlas.studies.deployments.question import (
        SearchInputs as SearchInputs,
        read_search as read_search,
    )
    from perfatlas.studies.deployments.rows import (
        POOL_SIZES as POOL_SIZES,
        candidate_table as candidate_table,
        deficit as deficit,
        estimate_fields as estimate_fields,
        frontier_rows as frontier_rows,
        plan_row as plan_row,
    )
    from perfatlas.studies.deployments.space import combinations_of as combinations_of
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
