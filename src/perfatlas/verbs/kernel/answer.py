"""`kernel gemm`, `kernel attention`, `kernel moe`: the price of one operator on one device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.answer import warn_unused_changes
from perfatlas.scenario.fields import Answered, answer_columns
from perfatlas.verbs.kernel.operator_columns import attention_columns, gemm_columns, moe_columns
from perfatlas.verbs.kernel.priced import operator_answer, price_questions
from perfatlas.verbs.kernel.question import read_attention, read_gemm, read_moe
from perfatlas.vocabulary.fields import signature_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.answer import Answer
    from perfatlas.operators import Operator
    from perfatlas.verbs.kernel.question import Question


@signature_of("kernel gemm")
@warn_unused_changes
def kernel_gemm(**fields: Any) -> Answer:  # noqa: ANN401 - checked against the table of fields
    """Return the time of one matrix product C[m, n] = A[m, k] W[k, n].

    Args:
        **fields: Those of `perfatlas kernel gemm`.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, or has no effect.
        UnsupportedError: No such format on the device, or no data for the tier.

    Example:
        >>> from perfatlas.verbs.kernel import kernel_gemm
        >>> kernel_gemm(system="h200_sxm", m=4096, n=8192, k=8192).results["bound"]
        'compute'
    """
    asked = [read_gemm(fields)]
    return operator_answer("kernel gemm", fields, price_questions(asked, gemm_columns(asked)))


@signature_of("kernel attention")
@warn_unused_changes
def kernel_attention(**fields: Any) -> Answer:  # noqa: ANN401 - checked against the table of fields
    """Return the time of the attention of one layer on one device.

    Args:
        **fields: Those of `perfatlas kernel attention`.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another, or
            has no effect.
        UnsupportedError: No such format on the device, or no data for the tier.
    """
    asked = [read_attention(fields)]
    priced = price_questions(asked, attention_columns(asked))
    return operator_answer("kernel attention", fields, priced)


@signature_of("kernel moe")
@warn_unused_changes
def kernel_moe(**fields: Any) -> Answer:  # noqa: ANN401 - checked against the table of fields
    """Return the time of the routed experts of one layer on one rank.

    Args:
        **fields: Those of `perfatlas kernel moe`.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, or contradicts another.
        UnsupportedError: No such format on the device, or no data for the tier.
    """
    asked = [read_moe(fields)]
    return operator_answer("kernel moe", fields, price_questions(asked, moe_columns(asked)))


def kernel_columns(operator: str, table: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Return the answers of a table of questions about one operator.

    Args:
        operator: gemm, attention or moe.
        table: Columns of its fields by name; None and empty text are not given.

    Returns:
        Results by name, `warnings`, `error_code` and `error`; None where a row has none.

    Example:
        >>> from perfatlas.verbs.kernel import kernel_columns
        >>> table = {"system": ["h200_sxm"] * 2, "m": [8, 8192], "n": [8192] * 2, "k": [8192] * 2}
        >>> kernel_columns("gemm", table)["bound"]
        ['memory', 'compute']
    """
    if operator == "gemm":
        return answer_columns(table, read_gemm, lambda asked: _rows(asked, gemm_columns(asked)))
    if operator == "attention":
        return answer_columns(
            table,
            read_attention,
            lambda asked: _rows(asked, attention_columns(asked)),
            apart=lambda one: one.window > 0,  # sparse attention is priced as one operator
        )
    return answer_columns(table, read_moe, lambda asked: _rows(asked, moe_columns(asked)))


def _rows(asked: Sequence[Question], operator: Operator) -> list[Answered]:
    priced = price_questions(asked, operator)
    return [Answered(row, priced.warnings(c)) for c, row in enumerate(priced.results())]
