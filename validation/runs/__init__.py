"""Measured serving runs: readers, selection, predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from validation.runs.deduplication import (
        LeftOutRun as LeftOutRun,
        published_serving as published_serving,
        select_runs as select_runs,
    )
    from validation.runs.plan_choice import (
        limited_choices as limited_choices,
        ranked_groups as ranked_groups,
    )
    from validation.runs.pool_launches import PoolRun as PoolRun
    from validation.runs.pool_runs import (
        read_pool_runs as read_pool_runs,
        select_pool_runs as select_pool_runs,
        uncounted_rows as uncounted_rows,
    )
    from validation.runs.pool_traffic import simulate_pool_runs as simulate_pool_runs
    from validation.runs.predictions import (
        answered as answered,
        ask_rows as ask_rows,
        below_bound as below_bound,
        grouped as grouped,
        predict_runs as predict_runs,
        run_question as run_question,
        summarize_runs as summarize_runs,
    )
    from validation.runs.recorded_runs import compare_recorded as compare_recorded
    from validation.runs.run_selection import (
        ServingRules as ServingRules,
        serving_rules as serving_rules,
    )
    from validation.runs.serving_rows import (
        ServingRun as ServingRun,
        read_runs as read_runs,
        sample_path as sample_path,
    )
    from validation.runs.serving_traffic import simulate_runs as simulate_runs
    from validation.runs.shared_data import (
        missing_data as missing_data,
        read_table as read_table,
        shared_folder as shared_folder,
    )
    from validation.runs.step_errors import (
        share_held as share_held,
        tpot_scores as tpot_scores,
        unseen_networks as unseen_networks,
    )
    from validation.runs.traffic_statistics import (
        compare_goals as compare_goals,
        count_reasons as count_reasons,
        group_traffic as group_traffic,
        summarize_traffic as summarize_traffic,
        traffic_totals as traffic_totals,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
