"""Fields of operators of analytics and scientific computing that libraries run."""

from __future__ import annotations

from typing import Annotated, Literal

from perfatlas.vocabulary.fields.numbers import Number, Share, Size, SizeOrZero
from perfatlas.vocabulary.fields.rows import Row, group

Rows = Annotated[int, Number(at_least=1, at_most=10**10, binary_suffixes=True)]
ElementBytes = Annotated[int, Number(at_least=1, at_most=1024)]
Precision = Annotated[
    Literal["fp32", "fp64"],
    Row("Number format.", elsewhere=("dtype", "precision"), common=True),
]


@group("Sort", 2)
class SortShape:
    """A sort of keys, with values that follow them."""

    rows: Rows
    key_bytes: Annotated[int, Number(at_least=1, at_most=16)] = 4
    value_bytes: Annotated[int, Number(at_least=0, at_most=1024)] = 0
    algorithm: Literal["radix", "merge"] = "radix"


@group("Values", 2)
class ValueShape:
    """Values that one pass reads."""

    rows: Rows
    value_bytes: ElementBytes = 4


@group("Histogram", 2)
class HistogramShape:
    """A histogram."""

    bins: Size = 256


@group("Filter", 2)
class FilterShape:
    """A filter."""

    selectivity: Share = 0.5


@group("Join", 2)
class JoinShape:
    """An inner hash join of two tables, whose result is pairs of row indices."""

    rows: Rows
    build_rows: Rows
    key_bytes: ElementBytes = 8
    selectivity: Annotated[float, Number(unit="ratio", at_least=0.0, at_most=1000.0)] = 1.0


@group("Group by", 2)
class GroupByShape:
    """A hash aggregation."""

    rows: Rows
    groups: Rows
    key_bytes: ElementBytes = 8
    value_bytes: ElementBytes = 8


@group("Sparse product", 2)
class SpmvShape:
    """A product of a sparse matrix in CSR and a vector."""

    rows: Rows
    columns: Rows | None = None
    nonzeros: Rows
    pattern: Literal["scattered", "banded"] = "scattered"
    format: Precision = "fp64"


@group("Grid", 2)
class GridShape:
    """A grid of up to three dimensions."""

    width: Size
    height: Size = 1
    depth: Size = 1


@group("Stencil", 2)
class StencilShape:
    """A star stencil on a grid."""

    radius: Annotated[int, Number(at_least=1, at_most=64)] = 1
    steps: Annotated[int, Number(at_least=1, at_most=64)] = 1
    format: Precision = "fp64"


@group("FFT", 2)
class FftShape:
    """A batch of Fourier transforms."""

    batch: Size = 1
    signal: Literal["complex", "real"] = "complex"
    format: Precision = "fp32"


@group("Solve", 2)
class SolveShape:
    """Factorizations of a batch of square matrices, and solutions with them."""

    n: Annotated[Size, Row("Rows and columns of each matrix.", common=True)]
    batch: Size = 1
    factorization: Literal["lu", "cholesky"] = "lu"
    right_hand_sides: SizeOrZero = 1
    format: Precision = "fp64"
