"""`collective`: the time of one collective of a group of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas import answer, collectives
from perfatlas.declarations import signature_of, verb_fields
from perfatlas.scenario import operator_queries
from perfatlas.scenario.fields import Answered, answer_columns, complete_scenario

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perfatlas.hardware import System
    from perfatlas.measurements.calibrations import CalibrationMatch
    from perfatlas.pricing import PricedOperators

NOT_NEAR: Final = "no measured rows near this size and ranks in one domain; tier physics is used"
SINGLE_GPU: Final = "gpus = 1: one GPU exchanges no data, so the time is 0; set gpus to 2 or more"


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
    return _answer(
        operator_queries.price_collective_queries([operator_queries.CollectiveInputs.ask(fields)])
    )


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
    results = priced.results()
    return Answered(results, _warnings(priced, results), {})


def _answer(priced: operator_queries.PricedCollectiveQueries) -> answer.Answer:
    inputs, prices = priced.inputs[0], priced.found.prices
    columns = priced.results()
    results = {name: cells[0] for name, cells in columns.items()}
    match = next(iter(_matches(prices, 0)), None)
    said = [*prices.notes, *_without_effect(priced, calibrated=match is not None)]
    if inputs.tier == "measured":
        said.append(answer.MEASURED_STANDING)
        if results["tier"] == "physics" and match is not None and match.table[0]:
            said.append(NOT_NEAR)
    return answer.Answer(
        command="collective",
        scenario=complete_scenario(
            verb_fields("collective"), inputs, format=priced.shapes.format_name
        ),
        results=results,
        breakdown=[answer.single_row(inputs.op, "", results, match, "communication")],
        evidence=answer.single_evidence(priced.systems[0], match, said, results["tier"]),
        warnings=_warnings(priced, columns)[0],
    )


def _warnings(
    priced: operator_queries.PricedCollectiveQueries, results: Mapping[str, Sequence[Any]]
) -> list[tuple[str, ...]]:
    """Return the warnings of each query."""
    return [
        (
            *filter(
                None,
                [
                    answer.other_vendors_note(
                        m.foreign_device for m in _matches(priced.found.prices, index)
                    )
                ],
            ),
            *_warnings_of(inputs, system, {name: cells[index] for name, cells in results.items()}),
        )
        for index, (inputs, system) in enumerate(zip(priced.inputs, priced.systems, strict=True))
    ]


def _matches(prices: PricedOperators, place: int) -> tuple[CalibrationMatch, ...]:
    """Return the calibration of one query, none in tier bound."""
    position = int(prices.match_CO[place, 0])
    return prices.matches[position : position + 1] if position >= 0 else ()


def _warnings_of(
    inputs: operator_queries.CollectiveInputs, system: System, results: Mapping[str, Any]
) -> Iterator[str]:
    if inputs.gpus == 1:
        yield SINGLE_GPU
    yield from answer.unread_overrides(system, answer.collective_readers(system, inputs.gpus))
    if inputs.tier == "bound":
        return
    nodes = -(-inputs.gpus // max(system.node.devices, system.device.scale_up.domain_size))
    algorithm = results["algorithm"]
    engine = inputs.kernel_family or "an engine"
    small = inputs.op == "all_reduce" and results["bound"] == "latency" and nodes == 1
    if (
        small
        and engine != collectives.LIBRARY_FAMILY
        and algorithm in collectives.LIBRARY_ALGORITHMS
    ):
        yield (
            f"small buffers of {inputs.gpus} GPUs of {inputs.system} are reduced by NCCL"
            f" ({algorithm}): faster kernels of {engine} do not support this number of GPUs or were"
            " not measured on it"
        )
    if (inputs.nodes or nodes) > 1 and (note := collectives.unseen_fabric(system)):
        yield note
    domain = system.device.scale_up.domain_size
    if domain < system.node.devices and inputs.gpus > domain * (inputs.nodes or 1):
        yield collectives.NODE_NOTE
    if note := collectives.unstated_bridge(system, -(-inputs.gpus // (inputs.nodes or nodes))):
        yield note
    if nodes > collectives.NODES_MEASURED:
        yield (
            f"{nodes:,} nodes: collectives between nodes were measured on at most"
            f" {collectives.NODES_MEASURED:.0f}; {algorithm} is extrapolated without congestion,"
            " and the upper end of the interval grows with each doubling of the nodes"
        )


def _without_effect(
    priced: operator_queries.PricedCollectiveQueries, *, calibrated: bool
) -> list[str]:
    """Return remarks on fields that do not affect the price."""
    inputs, said = priced.inputs[0], []
    if inputs.kernel_family is not None and not calibrated:
        said.append(f"kernel_family = {inputs.kernel_family} has no effect in tier bound")
    name = priced.shapes.format_name
    priced_as = collectives.cell_format(inputs.op, name) if calibrated else "bf16"
    if name not in ("bf16", priced_as):
        why = f"is priced as {priced_as}" if calibrated else "has no effect in tier bound"
        said.append(f"format = {name} {why}")
    return said
