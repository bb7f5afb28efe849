"""Scores of predictions under validation protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from validation.scoring.budgets import drifted, read_budgets
    from validation.scoring.data_files import data_path, data_rows, data_text, read_data
    from validation.scoring.intervals import (
        SCORES, WIDTHS, constant_limits, interval_score, rescaled_error, rescaled_errors,
        scores_beside_constant,
    )
    from validation.scoring.medians import (
        ROUNDING, Key, best_covered, goal_of, kernel_goals, median_row,
    )
    from validation.scoring.printed import failed_gates, print_results, with_units
    from validation.scoring.protocols import PROTOCOLS, SAMPLE_ROWS, Kin, few_rows
    from validation.scoring.score import CellScore, score_cell
    from validation.scoring.tables import (
        EMPTY_CELL, Results, goal_table, interval_table, percent, table, tally_table,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
