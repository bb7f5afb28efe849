"""Measured serving runs: readers, selection, predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from validation.runs.deduplication import LeftOutRun, published_serving, select_runs
    from validation.runs.plan_choice import limited_choices, ranked_groups
    from validation.runs.pool_launches import PoolRun
    from validation.runs.pool_runs import read_pool_runs, select_pool_runs, uncounted_rows
    from validation.runs.pool_traffic import simulate_pool_runs
    from validation.runs.predictions import (
        answered, ask_rows, below_bound, grouped, predict_runs, run_question, summarize_runs,
    )
    from validation.runs.recorded_runs import compare_recorded
    from validation.runs.run_selection import ServingRules, serving_rules
    from validation.runs.serving_rows import ServingRun, read_runs, sample_path
    from validation.runs.serving_traffic import simulate_runs
    from validation.runs.shared_data import missing_data, read_table, shared_folder
    from validation.runs.step_errors import share_held, tpot_scores, unseen_networks
    from validation.runs.traffic_statistics import (
        compare_goals, count_reasons, group_traffic, summarize_traffic, traffic_totals,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
