from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.files import Number, flag_column, number_column

COUNT = Number(least=0.0, most=100.0, whole=True)


def wrong(at: int, problem: str) -> ValueError:
    return ValueError(f"row {at}: gpus{problem}")


@pytest.mark.parametrize("as_text", [False, True])
def test_empty_cells_are_nan_and_text_is_a_number_as_well(*, as_text: bool) -> None:
    cells: list[Any] = ["1", "", " 3 ", None] if as_text else [1, None, 3.0, None]
    found = number_column(cells, COUNT, wrong)
    np.testing.assert_array_equal(found, [1.0, np.nan, 3.0, np.nan])


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([1, -1, 101], "row 1: gpus = -1: expected a positive number or 0"),
        ([1, 101], "row 1: gpus = 101 is outside 0 to 100"),
        ([None, 2.5], "row 1: gpus = 2.5: expected a whole number"),
        ([1, float("nan")], "row 1: gpus = nan is not a number"),
        ([1, True], "row 1: gpus = True is not a number"),
        ([10**400], "row 0: gpus = an integer of 1329 bits is not a number"),
        (["1", "4 h"], "row 1: gpus = '4 h' is not a number: write plain numbers, times in sec"),
    ],
)
def test_the_first_wrong_cell_is_named_with_its_row(cells: list[Any], said: str) -> None:
    with pytest.raises(ValueError, match="gpus") as error:
        number_column(cells, COUNT, wrong)
    assert str(error.value).startswith(said)


@given(st.lists(st.none() | st.integers(0, 100)))
def test_numbers_and_their_text_are_the_same_column(cells: list[int | None]) -> None:
    texts = ["" if cell is None else str(cell) for cell in cells]
    plain, read = number_column(cells, COUNT, wrong), number_column(texts, COUNT, wrong)
    np.testing.assert_array_equal(plain, read)


def test_flags_are_words_or_digits() -> None:
    cells = [True, "yes", 1, "No", 0.0, None, ""]
    found = flag_column(cells, wrong, empty=True)
    assert found.tolist() == [True, True, True, False, False, True, True]
    with pytest.raises(ValueError, match="row 1: gpus = 'maybe'"):
        flag_column([True, "maybe"], wrong, empty=True)
