"""Search among the deployments of a model: space, refusals, points, limits, pools, leaders."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.studies.deployments.choices import EXCHANGE, SIZES, listed_names
    from perfatlas.studies.deployments.find import (
        NO_GAIN, Columns, Found, find_deployments, ranked, within_slos,
    )
    from perfatlas.studies.deployments.groups import (
        LATENCIES, LIMITS, RequestLengths, SearchObjective, SearchSpace,
    )
    from perfatlas.studies.deployments.launch import (
        DRAFTER, NODE_DEVICES, OPTIONS, ROLES, SETTINGS, launch_commands, launch_rules, launcher_of,
        left_out_note, needed_checkpoint,
    )
    from perfatlas.studies.deployments.leaders import (
        Leader, closed_form_leaders, ranking_error, simplest_first, simulated_leaders,
        with_known_percentiles, without_exceeded,
    )
    from perfatlas.studies.deployments.limits import (
        AVAILABILITY, DELTA, HIGHER, LOSS, RATE, percentile_name,
    )
    from perfatlas.studies.deployments.plan_nodes import crossing_of, placement_of
    from perfatlas.studies.deployments.pools import find_pools
    from perfatlas.studies.deployments.question import SearchInputs, read_search
    from perfatlas.studies.deployments.rows import (
        POOL_SIZES, candidate_table, deficit, estimate_fields, frontier_rows, plan_row,
    )
    from perfatlas.studies.deployments.space import combinations_of
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
