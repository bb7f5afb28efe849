"""`kernel gemm`, `attention`, `moe`, `elementwise`: the time of one operator on one device."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from perfatlas.declarations import signature_of
from perfatlas.scenario.fields import Answered, answer_columns
from perfatlas.verbs.kernel.clocks import CLOCKS
from perfatlas.verbs.kernel.operator_columns import (
    ATTENTION_SIZES,
    ELEMENTWISE_SIZES,
    GEMM_SIZES,
    MOE_SIZES,
    attention_columns,
    elementwise_columns,
    gemm_columns,
    moe_columns,
)
from perfatlas.verbs.kernel.priced import operator_answer, price_questions
from perfatlas.verbs.kernel.question import (
    read_attention,
    read_elementwise,
    read_gemm,
    read_moe,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.answer import Answer
    from perfatlas.operators import Operator
    from perfatlas.verbs.kernel.question import OperatorInputs


@signature_of("kernel gemm")
def kernel_gemm(**fields: Any) -> Answer:  # noqa: ANN401 - checked against the table of fields
    """Return the time of one matrix product C[m, n] = A[m, k] W[k, n].

    Args:
        **fields: Fields of `perfatlas kernel gemm`.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, or has no effect.
        UnsupportedError: The device does not support the format, or there is no data for the tier.

    Example:
        >>> from perfatlas.verbs.kernel import kernel_gemm
        >>> kernel_gemm(system="h200_sxm", m=4096, n=8192, k=8192).results["bound"]
        'compute'
    """
    inputs = [read_gemm(fields)]
    return operator_answer("kernel gemm", price_questions(inputs, gemm_columns(inputs)))


@signature_of("kernel attention")
def kernel_attention(**fields: Any) -> Answer:  # noqa: ANN401 - checked against the table of fields
    """Return the time of the attention of one layer on one device.

    Args:
        **fields: Fields of `perfatlas kernel attention`.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another, or
            has no effect.
        UnsupportedError: The device does not support the format, or there is no data for the tier.
    """
    inputs = [read_attention(fields)]
    priced = price_questions(inputs, attention_columns(inputs))
    return operator_answer("kernel attention", priced)


@signature_of("kernel moe")
def kernel_moe(**fields: Any) -> Answer:  # noqa: ANN401 - checked against the table of fields
    """Return the time of the routed experts of one layer on one rank.

    Args:
        **fields: Fields of `perfatlas kernel moe`.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, or contradicts another.
        UnsupportedError: The device does not support the format, or there is no data for the tier.
    """
    inputs = [read_moe(fields)]
    return operator_answer("kernel moe", price_questions(inputs, moe_columns(inputs)))


@signature_of("kernel elementwise")
def kernel_elementwise(**fields: Any) -> Answer:  # noqa: ANN401 - checked against the table of fields
    """Return the time of an operator that is limited by memory bandwidth on one device.

    Args:
        **fields: Fields of `perfatlas kernel elementwise`.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, or has no effect.
        UnsupportedError: There is no data for the tier.

    Example:
        >>> from perfatlas.verbs.kernel import kernel_elementwise
        >>> asked = {"system": "h200_sxm", "op": "norm", "tokens": 4096, "width": 8192}
        >>> kernel_elementwise(**asked).results["bound"]
        'memory'
    """
    inputs = [read_elementwise(fields)]
    priced = price_questions(inputs, elementwise_columns(inputs))
    return operator_answer("kernel elementwise", priced)


def kernel_columns(operator: str, table: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Return the answers of a table of queries for one operator.

    Args:
        operator: gemm, attention, moe or elementwise.
        table: Columns of fields by name; None and empty text mean "not given".

    Returns:
        Results by name, `warnings`, `error_code` and `error`; None for missing values.

    Example:
        >>> from perfatlas.verbs.kernel import kernel_columns
        >>> table = {"system": ["h200_sxm"] * 2, "m": [8, 8192], "n": [8192] * 2, "k": [8192] * 2}
        >>> kernel_columns("gemm", table)["bound"]
        ['memory', 'compute']
    """
    if operator == "gemm":
        return answer_columns(
            table,
            read_gemm,
            lambda inputs: _rows(inputs, gemm_columns(inputs)),
            varying=GEMM_SIZES + CLOCKS,
        )
    if operator == "attention":
        return answer_columns(
            table,
            read_attention,
            lambda inputs: _rows(inputs, attention_columns(inputs)),
            varying=ATTENTION_SIZES + CLOCKS,
            alike=lambda one: one.window > 0,  # sparse attention is priced as one operator
        )
    if operator == "elementwise":
        return answer_columns(
            table,
            read_elementwise,
            lambda inputs: _rows(inputs, elementwise_columns(inputs)),
            varying=ELEMENTWISE_SIZES + CLOCKS,
        )
    return answer_columns(
        table,
        read_moe,
        lambda inputs: _rows(inputs, moe_columns(inputs)),
        varying=MOE_SIZES + CLOCKS,
    )


gemm_table, attention_table, moe_table, elementwise_table = (
    partial(kernel_columns, operator) for operator in ("gemm", "attention", "moe", "elementwise")
)


def _rows(inputs: Sequence[OperatorInputs], operator: Operator) -> Answered:
    priced = price_questions(inputs, operator)
    warnings = [priced.warnings(c) for c in range(len(inputs))]
    return Answered(priced.results(), warnings, priced.problems)
