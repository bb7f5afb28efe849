"""Kinds of replicas behind one router as input, and the scenario of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.scenario.fields.input_fields import InputFields, sentences
from perfatlas.scenario.fields.row_input import input_rows
from perfatlas.scenario.fields.vocabulary import Scenario
from perfatlas.serving.config import MAX_ENGINE_TYPES
from perfatlas.vocabulary.fields import ReplicaFields

if TYPE_CHECKING:
    from collections.abc import Sequence


EXAMPLE: Final = '[{"system": "h200_sxm", "tp": 4, "dp": 2}, {"system": "b200_sxm", "dp": 4}]'


class ReplicaKind(InputFields, ReplicaFields):
    """One kind of identical replicas; None means the value shared by all kinds."""

    def set_fields(self) -> dict[str, Any]:
        """Return the fields set for this kind, including its number of replicas."""
        return self.model_dump(exclude_none=True)


def read_kinds(given: Any) -> tuple[ReplicaKind, ...] | None:  # noqa: ANN401 - whatever a person wrote
    """Return kinds from a list, from JSON text that starts with [, or from a file.

    Args:
        given: Rows of named fields, text, or a path to CSV, Parquet or JSON Lines; None for none.

    Example:
        >>> from perfatlas.scenario.fields.replica_kinds import read_kinds
        >>> [kind.dp for kind in read_kinds('[{"tp": 4, "dp": 2}, {"system": "b200_sxm"}]')]
        [2, 1]
    """
    if given is None:
        return None
    wanted = f"a list of 1 to {MAX_ENGINE_TYPES} kinds such as {EXAMPLE}"
    rows, where = input_rows(given, "replica_kinds", wanted, MAX_ENGINE_TYPES)
    if not rows:
        raise InvalidSpecError(f"replica_kinds is empty: set {wanted}, or leave it out")
    return tuple(_kind(row, number, where) for number, row in enumerate(rows, start=1))


def _kind(row: Any, number: int, where: str) -> ReplicaKind:  # noqa: ANN401 - whatever a person wrote
    if isinstance(row, ReplicaKind):
        return row
    if not isinstance(row, dict):
        raise InvalidSpecError(
            f"kind {number} of {where} is {repr_for_error(str(row))}: expected fields by name, as"
            " in"
            f" {EXAMPLE}"
        )
    row = {name: value for name, value in row.items() if value is not None and value != ""}
    for name in row:
        if name in Scenario.model_fields and name not in ReplicaKind.model_fields:
            raise InvalidSpecError(
                f"kind {number} of {where}: {name} is common to all kinds, not a field of one;"
                " set it once, outside replica_kinds"
            )
    try:
        return ReplicaKind.model_validate(row)
    except ValidationError as error:
        note = sentences(error, tuple(ReplicaKind.model_fields))
        raise InvalidSpecError(f"kind {number} of {where}: {note}") from None


def kind_scenarios(scenario: Scenario, kinds: Sequence[ReplicaKind]) -> list[Scenario]:
    """Return the scenario of each kind: the shared fields with its own."""
    return [scenario.model_copy(update=kind.set_fields()) for kind in kinds]
