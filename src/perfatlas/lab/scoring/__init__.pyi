from .budgets import (
    drifted as drifted,
    read_budgets as read_budgets,
)
from .independent import (
    independent_check as independent_check,
)
from .left_out import (
    left_out_errors as left_out_errors,
    left_out_table as left_out_table,
    slow_medians as slow_medians,
)
from .lenders import (
    DeviceSplit as DeviceSplit,
    device_splits as device_splits,
    kernel_split_scores as kernel_split_scores,
    split_rules as split_rules,
)
from .medians import (
    ROUNDING as ROUNDING,
    Key as Key,
    best_covered as best_covered,
    goal_of as goal_of,
    kernel_goals as kernel_goals,
    median_row as median_row,
    target_failure as target_failure,
)
from .parameters import (
    parameter_table as parameter_table,
)
from .protocols import (
    PROTOCOLS as PROTOCOLS,
    SAMPLE_ROWS as SAMPLE_ROWS,
    Kin as Kin,
    few_rows as few_rows,
)
from .score import (
    CellScore as CellScore,
    score_cell as score_cell,
)
from .tables import (
    NONE as NONE,
    Results as Results,
    beaten_cells as beaten_cells,
    beside_table as beside_table,
    device_table as device_table,
    excluded_rows as excluded_rows,
    goal_table as goal_table,
    interval_table as interval_table,
    missed_cells as missed_cells,
    percent as percent,
    table as table,
    tally_table as tally_table,
)
