"""Replica events as input: a file, an array of a TOML file, or JSON text."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.fields.input_fields import sentences
from perfatlas.scenario.fields.row_input import input_rows
from perfatlas.serving.config import Outage
from perfatlas.serving.requests import whole_ticks
from perfatlas.vocabulary.fields import LONGEST_S, Number

MOST_EVENTS: Final = 100_000
Seconds = Annotated[float, Number(unit="s", at_least=0.0, at_most=LONGEST_S)]


class ReplicaEvent(BaseModel):
    """A replica fails or is drained, and returns at a time, after a duration, or never.

    Args:
        replica: Index of the replica, from 0.
        fails_at_s: Time from which it gets no requests [s].
        back_at_s: Time at which it serves again, with an empty cache [s].
        down_for_s: Duration of the outage, instead of `back_at_s` [s].
        kind: `crash` loses its requests; `drain` lets them end, by `back_at_s` at the latest.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    replica: Annotated[int, Field(ge=0)]
    fails_at_s: Seconds
    back_at_s: Seconds | None = None
    down_for_s: Seconds | None = None
    kind: Literal["crash", "drain"] = "crash"

    def outage(self) -> Outage:
        """Return the event in simulated time.

        Raises:
            InvalidSpecError: It returns before it fails, or has two return times.
        """
        said = f"replica {self.replica} fails at {self.fails_at_s:g} s"
        if self.back_at_s is not None and self.down_for_s is not None:
            raise InvalidSpecError(
                f"{said} with back_at_s = {self.back_at_s:g} and down_for_s = {self.down_for_s:g};"
                " set one of the two"
            )
        back = self.back_at_s
        if self.down_for_s is not None:
            back = self.fails_at_s + self.down_for_s
        start = int(whole_ticks(self.fails_at_s))
        if back is None:
            return Outage(self.replica, start, drain=self.kind == "drain")
        if back > LONGEST_S:
            raise InvalidSpecError(
                f"{said} and returns at {back:g} s, after the longest simulation ({LONGEST_S:g} s)"
            )
        end = int(whole_ticks(back))
        if end <= start:
            raise InvalidSpecError(
                f"{said} and returns at {back:g} s; it must return later than it fails"
            )
        return Outage(self.replica, start, end, drain=self.kind == "drain")


def read_events(given: Any) -> tuple[ReplicaEvent, ...] | None:  # noqa: ANN401 - whatever a person wrote
    """Return events from a list, from JSON text that starts with [, or from a file.

    Args:
        given: Rows of named fields, text, or a path to CSV, Parquet or JSON Lines; None for none.

    Raises:
        InvalidSpecError: The file cannot be read, or a row is invalid; the message names it.

    Example:
        >>> from perfatlas.scenario.fields.replica_events import read_events
        >>> read_events('[{"replica": 1, "fails_at_s": 60, "down_for_s": 30}]')[0].down_for_s
        30.0
    """
    if given is None:
        return None
    wanted = (
        f"a list of at most {MOST_EVENTS:,} events with replica, fails_at_s and back_at_s or"
        " down_for_s"
    )
    rows, where = input_rows(given, "replica_events", wanted, MOST_EVENTS)
    return tuple(_event(row, number, where) for number, row in enumerate(rows, start=1))


def _event(row: Any, number: int, where: str) -> ReplicaEvent:  # noqa: ANN401 - whatever a person wrote
    if isinstance(row, ReplicaEvent):
        return row
    try:
        return ReplicaEvent.model_validate(row)
    except ValidationError as error:
        said = sentences(error, tuple(ReplicaEvent.model_fields))
        raise InvalidSpecError(f"event {number} of {where}: {said}") from None
