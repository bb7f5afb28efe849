"""`collective`: the price of one communication of a group of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.answer import (
    MEASURED_STANDING,
    Answer,
    single_evidence,
    single_row,
    warn_unused_changes,
)
from perfatlas.collectives import cell_format
from perfatlas.scenario.fields import Answered, answer_columns
from perfatlas.verbs.collective.priced import price_questions
from perfatlas.verbs.collective.question import read_collective
from perfatlas.vocabulary.fields import signature_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.verbs.collective.priced import PricedQuestions
    from perfatlas.verbs.collective.question import CollectiveQuestion

NOT_NEAR: Final = "no measured rows of this size and ranks inside one domain are near: physics"


@signature_of("collective")
@warn_unused_changes
def collective(**fields: Any) -> Answer:  # noqa: ANN401 - checked against the table of fields
    """Return the time of one collective.

    Args:
        **fields: Those of `perfatlas collective`.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another, or
            has no effect.
        UnsupportedError: No data for the tier.

    Example:
        >>> from perfatlas.verbs.collective import collective
        >>> answer = collective(system="h200_sxm", op="all_reduce", bytes=2**20, gpus=8)
        >>> answer.results["time_s"] > answer.results["bound_time_s"]
        True
    """
    return _answer(fields, price_questions([read_collective(fields)]))


def collective_columns(table: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Return the answers of a table of collectives.

    Args:
        table: Columns of fields by name; None and empty text are not given.

    Returns:
        Results by name, `warnings`, `error_code` and `error`; None where a row has none.
    """
    return answer_columns(table, read_collective, _rows)


def _rows(asked: Sequence[CollectiveQuestion]) -> list[Answered]:
    return [Answered(row, ()) for row in price_questions(asked).results()]


def _answer(fields: Mapping[str, Any], priced: PricedQuestions) -> Answer:
    asked, results, prices = priced.asked[0], priced.results()[0], priced.found.prices
    match = prices.matches[prices.match_CO[0, 0]] if prices.match_CO[0, 0] >= 0 else None
    said = [*prices.notes, *_without_effect(priced, calibrated=match is not None)]
    if asked.tier == "measured":
        said.append(MEASURED_STANDING)
        if results["tier"] == "physics" and match is not None and match.table[0]:
            said.append(NOT_NEAR)
    return Answer(
        command="collective",
        scenario={name: value for name, value in fields.items() if value is not None},
        results=results,
        breakdown=[single_row(asked.op, "", results, match, "communication")],
        evidence=single_evidence(priced.systems[0], match, said, results["tier"]),
    )


def _without_effect(priced: PricedQuestions, *, calibrated: bool) -> list[str]:
    """Return what of the question does not show in the price."""
    asked, said = priced.asked[0], []
    if asked.kernel_family is not None and not calibrated:
        said.append(
            f"kernel_family = {asked.kernel_family} has no effect: the bound holds for all kernels"
        )
    name = priced.shapes.format_name
    priced_as = cell_format(asked.op, name) if calibrated else "bf16"
    if name not in ("bf16", priced_as):
        why = f"is priced as {priced_as}" if calibrated else "has no effect: the bound counts bytes"
        said.append(f"format = {name} {why}")
    return said
