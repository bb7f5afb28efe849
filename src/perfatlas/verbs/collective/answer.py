"""`collective`: the time of one collective of a group of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas import answer
from perfatlas.declarations import signature_of, verb_fields
from perfatlas.quantities import remarks
from perfatlas.scenario import operator_queries
from perfatlas.scenario.fields import (
    Answered,
    answer_columns,
    complete_scenario,
    within_disputed_ends,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@signature_of("collective")
def collective(**fields: Any) -> answer.Answer:  # noqa: ANN401 - checked against the table of fields
    """Return the time of one collective.

    Args:
        **fields: Fields of `perfatlas collective`.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another, or
            has no effect.
        UnsupportedError: There is no data for the tier.

    Example:
        >>> from perfatlas.verbs.collective import collective
        >>> answer = collective(system="h200_sxm", op="all_reduce", bytes=2**20, gpus=8)
        >>> answer.results["time_s"] > answer.results["bound_time_s"]
        True
    """
    return within_disputed_ends(_answer, fields)


def collective_columns(table: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Return the answers of a table of collectives.

    Args:
        table: Columns of fields by name; None and empty text mean "not given".

    Returns:
        Results by name, `warnings`, `error_code` and `error`; None for missing values.
    """
    return answer_columns(
        table, operator_queries.CollectiveInputs, _rows, varying=operator_queries.COLLECTIVE_SIZES
    )


def _rows(inputs: Sequence[operator_queries.CollectiveInputs]) -> Answered:
    priced = operator_queries.price_collective_queries(inputs)
    return Answered(
        priced.results, remarks(len(inputs), (operator_queries.COLLECTIVE_WARNINGS, priced)), {}
    )


def _answer(fields: Mapping[str, Any]) -> answer.Answer:
    asked = [operator_queries.CollectiveInputs.ask(fields)]
    priced = operator_queries.price_collective_queries(asked)
    inputs = priced.inputs[0]
    results = {name: cells[0] for name, cells in priced.results.items()}
    (warnings,), (assumptions,) = (
        remarks(1, (rules, priced))
        for rules in (operator_queries.COLLECTIVE_WARNINGS, operator_queries.COLLECTIVE_ASSUMPTIONS)
    )
    match = priced.match(0)
    return answer.Answer(
        command="collective",
        scenario=complete_scenario(
            verb_fields("collective"), inputs, format=priced.shapes.format_name
        ),
        results=results,
        breakdown=[answer.single_row(inputs.op, "", results, match, "communication")],
        evidence=answer.single_evidence(priced.system(0), match, assumptions, results["tier"]),
        warnings=warnings,
    )
