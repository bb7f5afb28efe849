from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from perfatlas.quantities import InvalidSpecError
from validation.scoring import drifted, read_budgets
from validation.scoring.budgets import (
    Budget,
    budget_for,
    renewed_budgets,
    shipped_errors,
    write_budgets,
)


def test_no_shipped_cell_is_worse_than_its_budget() -> None:
    assert drifted(read_budgets(), shipped_errors()) == []


def test_drift_is_named() -> None:
    budgets = {"a": Budget(mape=0.1, reason="10.0%: x"), "b": Budget(mape=0.1, reason="10.0%: x")}
    found = drifted(budgets, {"a": 0.12, "c": 0.1})
    assert found[0] == "a: MAPE 12.00% is above its budget 10.0%"
    assert found[1].startswith("c: no budget")
    assert found[2].startswith("b: budget without a cell")


def test_a_budget_cannot_move_without_its_reason(tmp_path: Path) -> None:
    path = tmp_path / "budgets.toml"
    path.write_text('"a" = { mape = 0.12, reason = "10.0%: as first fitted" }\n', "utf-8")
    with pytest.raises(InvalidSpecError, match=r"a reason must start with '12\.0%: '"):
        read_budgets(path)
    path.write_text('"a" = { mape = 0.12, reason = "12.0%:" }\n', "utf-8")
    with pytest.raises(InvalidSpecError, match="explain it"):
        read_budgets(path)


@given(st.floats(0.001, 3.0))
def test_a_new_budget_is_met_and_close(mape: float) -> None:
    budget = budget_for(mape)
    assert mape <= budget <= 1.021 * mape + 0.001


def test_renewing_lowers_adds_and_drops_but_never_raises() -> None:
    kept = Budget(mape=0.1, reason="10.0%: was hard")
    known = {"worse": kept, "better": kept, "gone": kept}
    renewed = renewed_budgets(known, {"worse": 0.2, "better": 0.05, "new": 0.3}, "refitted")
    assert renewed == {
        "better": Budget(mape=0.051, reason="5.1%: refitted"),
        "new": Budget(mape=0.306, reason="30.6%: refitted"),
        "worse": kept,
    }


def test_the_file_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "budgets.toml"
    write_budgets(path, "as fitted")
    assert set(read_budgets(path)) == set(shipped_errors())
    before = path.read_text("utf-8")
    write_budgets(path, "again")
    assert path.read_text("utf-8") == before
