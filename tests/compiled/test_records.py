"""Records declared as classes."""

from __future__ import annotations

import numpy as np
import pytest

from perfatlas.compiled import record_type, repeated


class Stage:
    """A row with all kinds of numbers."""

    count: int
    mean: float
    key: np.uint64


STAGE = record_type(Stage)


class Repair:
    """A row that holds others."""

    stages: int
    mean: list[float] = repeated(float, 2)
    stage: list[Stage] = repeated(STAGE, 3)


def test_a_class_declares_the_layout_of_its_rows() -> None:
    """Names, types, order and alignment."""
    assert np.dtype([("count", "i8"), ("mean", "f8"), ("key", "u8")], align=True) == STAGE
    assert record_type(Repair) == np.dtype(
        [("stages", "i8"), ("mean", "f8", (2,)), ("stage", STAGE, (3,))], align=True
    )


class Misspelt:
    """A row with a type that compiled code does not know."""

    share: np.float32


def test_a_field_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Misspelt\.share: np\.float32"):
        record_type(Misspelt)
