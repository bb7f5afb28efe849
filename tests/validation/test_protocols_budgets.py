from __future__ import annotations

from hypothesis import given, strategies as st

from validation.scoring import drifted, read_budgets
from validation.scoring.budgets import budget_for, renewed_budgets, shipped_errors


def test_no_shipped_cell_is_worse_than_its_budget() -> None:
    assert drifted(read_budgets(), shipped_errors()) == []


def test_drift_is_named() -> None:
    budgets = {"a": 0.1, "b": 0.1}
    found = drifted(budgets, {"a": 0.12, "c": 0.1})
    assert found[0] == "a: MAPE 12.00% is above its budget 10.0%"
    assert found[1].startswith("c: no budget")
    assert found[2].startswith("b: budget without a cell")


@given(st.floats(0.001, 3.0))
def test_a_new_budget_is_met_and_close(mape: float) -> None:
    budget = budget_for(mape)
    assert mape <= budget <= 1.021 * mape + 0.001


def test_renewing_lowers_adds_and_drops_but_never_raises() -> None:
    known = {"worse": 0.1, "better": 0.1, "gone": 0.1}
    renewed = renewed_budgets(known, {"worse": 0.2, "better": 0.05, "new": 0.3})
    assert renewed == {"better": 0.051, "new": 0.306, "worse": 0.1}
