"""Scores of predictions under validation protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from validation.scoring.budgets import drifted as drifted, read_budgets as read_budgets
    from validation.scoring.data_files import (
        data_path as data_path,
        data_rows as data_rows,
        data_text as data_text,
        read_data as read_data,
    )
    from validation.scoring.intervals import (
        SCORES as SCORES,
        constant_limits as constant_limits,
        interval_score as interval_score,
        scores_beside_constant as scores_beside_constant,
    )
    from validation.scoring.medians import (
        ROUNDING as ROUNDING,
        Key as Key,
        best_covered as best_covered,
        goal_of as goal_of,
        kernel_goals as kernel_goals,
        median_row as median_row,
    )
    from validation.scoring.printed import (
        failed_gates as failed_gates,
        print_results as print_results,
        with_units as with_units,
    )
    from validation.scoring.protocols import (
        PROTOCOLS as PROTOCOLS,
        SAMPLE_ROWS as SAMPLE_ROWS,
        Kin as Kin,
        few_rows as few_rows,
    )
    from validation.scoring.score import CellScore as CellScore, score_cell as score_cell
    from validation.scoring.tables import (
        EMPTY_CELL as EMPTY_CELL,
        Results as Results,
        goal_table as goal_table,
        interval_table as interval_table,
        percent as percent,
        table as table,
        tally_table as tally_table,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
