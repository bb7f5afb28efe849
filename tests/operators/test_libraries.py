"""Calls of libraries: bytes, elements and random accesses by hand, and laws of their passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from perfatlas.operators import LibraryKernel, library_kernel

GRID: dict[str, float] = {"width": 512, "height": 512, "depth": 512, "radius": 1, "steps": 1}
CUBE: dict[str, float] = {"width": 512, "height": 512, "depth": 512, "batch": 1}
SOLVED: dict[str, float] = {"n": 64, "batch": 10, "right_hand_sides": 1}


def call(name: str, size: dict[str, float], **choice: str) -> LibraryKernel:
    return library_kernel(name, {k: np.array([float(v)]) for k, v in size.items()}, choice)


# (operator, sizes, choices, columns by hand)
BY_HAND: list[tuple[str, dict[str, float], dict[str, str], dict[str, float]]] = [
    # 4 passes of 8 bits read and write 12 bytes; before them, a histogram reads keys of 4
    (
        "sort",
        {"rows": 1000, "key_bytes": 4, "value_bytes": 8},
        {"algorithm": "radix"},
        {"cold_bytes": 24_000, "moved_bytes": 4 * 24_000 + 4000, "items": 4000, "launches": 5},
    ),
    # tiles of 4096 rows, then 2 passes merge 4 of them
    (
        "sort",
        {"rows": 4 * 4096, "key_bytes": 8, "value_bytes": 0},
        {"algorithm": "merge"},
        {"moved_bytes": 3 * 2 * 8 * 16384, "items": 3 * 16384},
    ),
    ("scan", {"rows": 1000, "value_bytes": 4}, {}, {"cold_bytes": 8000, "moved_bytes": 8000}),
    ("reduce", {"rows": 1000, "value_bytes": 4}, {}, {"cold_bytes": 4000, "items": 1000}),
    ("histogram", {"rows": 1000, "value_bytes": 1, "bins": 256}, {}, {"cold_bytes": 2024}),
    ("histogram", {"rows": 1000, "value_bytes": 1, "bins": 257}, {}, {"gathers": 1000}),
    ("filter", {"rows": 1000, "value_bytes": 8, "selectivity": 0.25}, {}, {"cold_bytes": 10_000}),
    # slots of 16 bytes; keys of the larger table are read twice; 300 pairs of 4-byte indices
    (
        "join",
        {"rows": 1000, "build_rows": 100, "key_bytes": 8, "selectivity": 0.3},
        {},
        {
            "cold_bytes": 1100 * 8 + 300 * 8,
            "moved_bytes": 2100 * 8 + 300 * 8 + 1600,
            "gathers": 2100,
            "table_bytes": 1600,
        },
    ),
    (
        "group_by",
        {"rows": 1000, "groups": 200, "key_bytes": 8, "value_bytes": 8},
        {},
        {"flop": 1000, "cold_bytes": 1200 * 16, "gathers": 1000, "table_bytes": 200 * 32},
    ),
    # 12 bytes per nonzero, a row offset and a result of 12 per row, a vector of 8 per column
    (
        "spmv",
        {"rows": 100, "columns": 200, "nonzeros": 1000},
        {"pattern": "scattered", "format": "fp64"},
        {"flop": 2000, "cold_bytes": 12_000 + 1200 + 1600, "table_bytes": 1600},
    ),
    # 7 points of a multiplication and an addition; three planes are kept
    (
        "stencil",
        GRID,
        {"format": "fp64"},
        {"flop": 14 * 512**3, "cold_bytes": 16 * 512**3, "table_bytes": 3 * 512**2 * 8},
    ),
    # 27 halvings of 512^3; one pass per dimension of 9 bits
    (
        "fft",
        CUBE,
        {"signal": "complex", "format": "fp64"},
        {"flop": 5 * 27 * 512**3, "cold_bytes": 32 * 512**3, "moved_bytes": 96 * 512**3},
    ),
    # 2/3 n^3 for LU and 2 n^2 for each right-hand side
    (
        "solve",
        SOLVED,
        {"factorization": "lu", "format": "fp64"},
        {"flop": 10 * (2 * 64**3 / 3 + 2 * 64**2), "cold_bytes": 2 * 64 * 65 * 8 * 10},
    ),
    ("solve", SOLVED, {"factorization": "cholesky", "format": "fp64"}, {"launches": 64}),
    (
        "gemm",
        {"m": 2, "n": 3, "k": 4, "groups": 5},
        {"format": "fp64"},
        {"flop": 240, "cold_bytes": 5 * (8 + 12 + 6) * 8},
    ),
]


@pytest.mark.parametrize(("name", "size", "choice", "expected"), BY_HAND)
def test_columns_by_hand(
    name: str, size: dict[str, float], choice: dict[str, str], expected: dict[str, float]
) -> None:
    operator = call(name, size, **choice)
    found = {column: float(getattr(operator, column)[0]) for column in expected}
    assert found == pytest.approx(expected)
    assert operator.moved_bytes[0] >= operator.cold_bytes[0]


@settings(deadline=None)
@given(st.integers(1, 10**9), st.integers(1, 16), st.integers(0, 64))
def test_a_radix_sort_is_proportional_to_its_rows(rows: int, key: int, value: int) -> None:
    size = {"key_bytes": key, "value_bytes": value}
    one, two = (
        call("sort", {"rows": many, **size}, algorithm="radix") for many in (rows, 2 * rows)
    )
    assert two.moved_bytes[0] == pytest.approx(2 * one.moved_bytes[0])


@settings(deadline=None)
@given(st.integers(0, 14), st.integers(0, 14))
def test_the_order_of_dimensions_does_not_change_a_transform(first: int, second: int) -> None:
    def flop(width: int, height: int) -> Any:  # noqa: ANN401 - an array
        size = {"width": 2**width, "height": 2**height, "depth": 1, "batch": 3}
        return call("fft", size, signal="complex", format="fp32").flop[0]

    assert flop(first, second) == pytest.approx(flop(second, first))
