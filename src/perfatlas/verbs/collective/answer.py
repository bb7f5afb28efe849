"""`collective`: the time of one collective of a group of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.answer import (
    MEASURED_STANDING,
    Answer,
    single_evidence,
    single_row,
    warn_unused_changes,
    with_unused_changes,
)
from perfatlas.collectives import cell_format
from perfatlas.declarations import signature_of, verb_fields
from perfatlas.scenario.fields import Answered, answer_columns, complete_scenario
from perfatlas.verbs.collective.priced import price_questions
from perfatlas.verbs.collective.question import read_collective

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.verbs.collective.priced import PricedQuestions
    from perfatlas.verbs.collective.question import CollectiveInputs

NOT_NEAR: Final = "no measured rows near this size and ranks in one domain; tier physics is used"
SINGLE_GPU: Final = "gpus = 1: one GPU exchanges no data, so the time is 0; set gpus to 2 or more"


@signature_of("collective")
@warn_unused_changes
def collective(**fields: Any) -> Answer:  # noqa: ANN401 - checked against the table of fields
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
    return _answer(price_questions([read_collective(fields)]))


def collective_columns(table: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Return the answers of a table of collectives.

    Args:
        table: Columns of fields by name; None and empty text mean "not given".

    Returns:
        Results by name, `warnings`, `error_code` and `error`; None for missing values.
    """
    return with_unused_changes(table, _priced_columns)


def _priced_columns(table: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Return the answers of a table without remarks on changes of systems."""
    return answer_columns(table, read_collective, _rows)


def _rows(inputs: Sequence[CollectiveInputs]) -> Answered:
    return Answered(price_questions(inputs).results(), list(map(_warnings, inputs)), {})


def _answer(priced: PricedQuestions) -> Answer:
    inputs, prices = priced.inputs[0], priced.found.prices
    results = {name: cells[0] for name, cells in priced.results().items()}
    match = prices.matches[prices.match_CO[0, 0]] if prices.match_CO[0, 0] >= 0 else None
    said = [*prices.notes, *_without_effect(priced, calibrated=match is not None)]
    if inputs.tier == "measured":
        said.append(MEASURED_STANDING)
        if results["tier"] == "physics" and match is not None and match.table[0]:
            said.append(NOT_NEAR)
    return Answer(
        command="collective",
        scenario=complete_scenario(
            verb_fields("collective"), inputs, format=priced.shapes.format_name
        ),
        results=results,
        breakdown=[single_row(inputs.op, "", results, match, "communication")],
        evidence=single_evidence(priced.systems[0], match, said, results["tier"]),
        warnings=_warnings(inputs),
    )


def _warnings(inputs: CollectiveInputs) -> tuple[str, ...]:
    """Return the warning of a group of one GPU."""
    return (SINGLE_GPU,) if inputs.gpus == 1 else ()


def _without_effect(priced: PricedQuestions, *, calibrated: bool) -> list[str]:
    """Return remarks on fields that do not affect the price."""
    inputs, said = priced.inputs[0], []
    if inputs.kernel_family is not None and not calibrated:
        said.append(f"kernel_family = {inputs.kernel_family} has no effect in tier bound")
    name = priced.shapes.format_name
    priced_as = cell_format(inputs.op, name) if calibrated else "bf16"
    if name not in ("bf16", priced_as):
        why = f"is priced as {priced_as}" if calibrated else "has no effect in tier bound"
        said.append(f"format = {name} {why}")
    return said
