"""Arithmetic on records of columns, by the declaration of each column.

Shape legend: C candidates, K kernels, O operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from perfatlas.operators import with_fields
from perfatlas.pricing.columns import Composition, Quantity, columns_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray, IntArray

    Record = TypeVar("Record", bound=DataclassInstance)
    Factor = FloatArray | float


def exposed(record: Record, share_CO: FloatArray) -> Record:
    """Return a record in which `EXPOSED` columns keep only their exposed share.

    Args:
        record: Costs of one execution of each operator.
        share_CO: Share of each operator's time that is not overlapped by others (C, O).
    """
    return with_fields(
        record,
        **{
            name: getattr(record, name) * share_CO
            for name, column in columns_of(type(record)).items()
            if column.composition is Composition.EXPOSED
        },
    )


def scaled(
    record: Record,
    *,
    work: Factor = 1.0,
    time: Factor = 1.0,
    ends: tuple[Factor, Factor] | None = None,
    energy: Factor = 1.0,
) -> Record:
    """Return a record whose columns are multiplied by the factor of their quantity.

    Args:
        record: Costs of one execution of each operator.
        work: Factor of arithmetic, bytes and roofline time, a number or (C, O), as all factors.
        time: Factor of predicted time.
        ends: Factors of the lower and the upper end of its interval, by default those of the time.

    Example:
        >>> import numpy as np
        >>> from perfatlas.pricing import PricedOperators, of_one_operator, scaled
        >>> one = np.ones(1)
        >>> gemm = of_one_operator(PricedOperators, 1, time_s_CO=one, flop_CO=one, high_s_CO=one)
        >>> twice = scaled(gemm, work=2.0, time=2.5, ends=(2.0, 3.0))
        >>> [float(each[0, 0]) for each in (twice.flop_CO, twice.time_s_CO, twice.high_s_CO)]
        [2.0, 2.5, 3.0]
    """
    low, high = (time, time) if ends is None else ends
    factors = {
        Quantity.WORK: work,
        Quantity.TIME: time,
        Quantity.LOW_TIME: low,
        Quantity.HIGH_TIME: high,
        Quantity.ENERGY: energy,
    }
    return with_fields(
        record,
        **{
            name: getattr(record, name) * factors[column.quantity]
            for name, column in columns_of(type(record)).items()
            if column.is_summed
        },
    )


def reduce(record: Record, first_O: IntArray) -> Record:
    """Return a record of operators, each of which is a run of kernels.

    Amounts and counts are those of all kernels of a run; codes, positions and flags are those of
    its first kernel. Parts are kept in full.

    Args:
        record: Costs of all kernels (C, K).
        first_O: Position of the first kernel of each operator, ascending without repetition (O,).

    Example:
        >>> import numpy as np
        >>> from perfatlas.pricing import PricedOperators, reduce, unpriced
        >>> flop_CK = np.array([[1.0, 2.0, 4.0]])
        >>> kernels = unpriced(PricedOperators, (1, 3), flop_CO=flop_CK)
        >>> reduce(kernels, np.array([0, 1])).flop_CO.tolist()
        [[1.0, 6.0]]
    """

    def of_runs(values: NDArray[Any], composition: Composition) -> NDArray[Any]:
        if composition is Composition.EACH:
            return values[..., first_O]
        return np.add.reduceat(values, first_O, axis=-1)

    return with_fields(
        record,
        **{
            name: of_runs(getattr(record, name), column.composition)
            for name, column in columns_of(type(record)).items()
        },
    )


def total(
    record: DataclassInstance,
    name: str,
    count_CO: FloatArray,
    some_O: NDArray[np.bool_] | None = None,
) -> FloatArray:
    """Return the sum of a column over the executions of operators (C,).

    Args:
        count_CO: Number of executions (C, O).
        some_O: Mask of the operators to include (O,), None for all.

    Raises:
        KeyError: There is no such column, or it is never summed.
    """
    if not columns_of(type(record))[name].is_summed:
        raise KeyError(name)
    each_CO = count_CO * getattr(record, name)
    total_C: FloatArray = (each_CO if some_O is None else each_CO[:, some_O]).sum(axis=1)
    return total_C
