from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.telemetry.fits import LifetimeColumns, read_lifetimes
from tests.reliability.telemetry.support import check_law

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = LifetimeColumns(age="years", failed="dead", entry="seen")
TEXT = 'sn,batch,seen,years,dead\na,old,0,2.5,TRUE\n"b,1",new,0,1,FALSE\nc,old,1,4,no\n\n'


def table(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "units.csv"
    path.write_text(text, "utf-8")
    return path


def test_a_table_by_hand(tmp_path: Path) -> None:
    seen, counts = read_lifetimes(table(tmp_path, TEXT), COLUMNS, where={"batch": "old"})
    assert seen.exit_L.tolist() == [2.5, 4.0]
    assert seen.entry_L.tolist() == [0.0, 1.0]
    assert seen.failed_L.tolist() == [True, False]
    assert counts.ignored == {"header": 1, "batch is not old": 1, "blank": 1}
    check_law((counts,))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("years", "Years", "line 1: no column 'years' .*did you mean 'Years'"),
        ("2.5", "-2.5", "line 2, column 'years': '-2.5': expected an age of at least 0"),
        ("2.5", "", "line 2, column 'years': '' is not an age"),
        ("TRUE", "dead", "line 2, column 'dead': 'dead' is neither"),
        ("4,no\n\n", "4", "line 4: 4 cells where the header has 5 columns; the file is truncated"),
        ("old", "gone", "no row with batch = old among 5"),
    ],
)
def test_wrong_tables_are_refused(tmp_path: Path, old: str, new: str, problem: str) -> None:
    path = table(tmp_path, TEXT.replace(old, new))
    with pytest.raises(InvalidSpecError, match=problem):
        read_lifetimes(path, COLUMNS, where={"batch": "old"})
