"""Measured serving runs: readers, selection, predictions."""

from __future__ import annotations

from perfatlas.lab.runs.benchmark_results import ReadRun, read_results
from perfatlas.lab.runs.benchmark_run import BenchmarkRun
from perfatlas.lab.runs.deduplication import LeftOutRun, select_runs
from perfatlas.lab.runs.host_time import HalfFit, cross_fitted, fit_note
from perfatlas.lab.runs.operating_points import compare_points, contradicted, summarize_points
from perfatlas.lab.runs.pool_launches import PoolRun
from perfatlas.lab.runs.pool_runs import read_pool_runs, select_pool_runs, uncounted_rows
from perfatlas.lab.runs.pool_traffic import simulate_pool_runs
from perfatlas.lab.runs.predictions import (
    answered,
    ask_rows,
    below_bound,
    grouped,
    predict_runs,
    share_inside,
    summarize_runs,
)
from perfatlas.lab.runs.recorded_runs import compare_recorded
from perfatlas.lab.runs.run_selection import ServingRules, serving_rules
from perfatlas.lab.runs.serving_rows import ServingRun, check_sample, read_runs, sample_path
from perfatlas.lab.runs.serving_traffic import simulate_runs
from perfatlas.lab.runs.step_errors import share_held, unseen_networks
from perfatlas.lab.runs.traffic_statistics import (
    compare_goal,
    compare_goals,
    count_reasons,
    group_traffic,
    summarize_traffic,
    traffic_totals,
)

__all__ = [
    "BenchmarkRun",
    "HalfFit",
    "LeftOutRun",
    "PoolRun",
    "ReadRun",
    "ServingRules",
    "ServingRun",
    "answered",
    "ask_rows",
    "below_bound",
    "check_sample",
    "compare_goal",
    "compare_goals",
    "compare_points",
    "compare_recorded",
    "contradicted",
    "count_reasons",
    "cross_fitted",
    "fit_note",
    "group_traffic",
    "grouped",
    "predict_runs",
    "read_pool_runs",
    "read_results",
    "read_runs",
    "sample_path",
    "select_pool_runs",
    "select_runs",
    "serving_rules",
    "share_held",
    "share_inside",
    "simulate_pool_runs",
    "simulate_runs",
    "summarize_points",
    "summarize_runs",
    "summarize_traffic",
    "traffic_totals",
    "uncounted_rows",
    "unseen_networks",
]
