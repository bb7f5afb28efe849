"""Scores of predictions under protocols that say what they may have seen."""

from __future__ import annotations

from perfatlas.lab.scoring.budgets import drifted, read_budgets
from perfatlas.lab.scoring.independent import independent_check
from perfatlas.lab.scoring.left_out import left_out_errors, left_out_table, slow_medians
from perfatlas.lab.scoring.medians import (
    ROUNDING,
    Key,
    best_covered,
    goal_of,
    kernel_goals,
    median_row,
    target_failure,
)
from perfatlas.lab.scoring.parameters import parameter_table
from perfatlas.lab.scoring.protocols import PROTOCOLS, SAMPLE_ROWS, Kin, few_rows
from perfatlas.lab.scoring.score import CellScore, score_cell
from perfatlas.lab.scoring.tables import (
    NONE,
    Results,
    beaten_cells,
    beside_table,
    device_table,
    excluded_rows,
    goal_table,
    interval_table,
    missed_cells,
    percent,
    table,
    tally_table,
)

__all__ = [
    "NONE",
    "PROTOCOLS",
    "ROUNDING",
    "SAMPLE_ROWS",
    "CellScore",
    "Key",
    "Kin",
    "Results",
    "beaten_cells",
    "beside_table",
    "best_covered",
    "device_table",
    "drifted",
    "excluded_rows",
    "few_rows",
    "goal_of",
    "goal_table",
    "independent_check",
    "interval_table",
    "kernel_goals",
    "left_out_errors",
    "left_out_table",
    "median_row",
    "missed_cells",
    "parameter_table",
    "percent",
    "read_budgets",
    "score_cell",
    "slow_medians",
    "table",
    "tally_table",
    "target_failure",
]
