"""Streams of events of a fleet: causes, their lemons and fractions of ageing parts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.reliability.fleet.laws import Exponential, Law, mean_s
from perfatlas.reliability.fleet.model.identity import has_unit_ages, has_unit_lemons

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.model.model import Cause, Fleet

WHOLE: Final = 1e-9  # of a number; a smaller remainder is rounding


class Stream(NamedTuple):
    """An event stream: a cause, the lemons of one, or a fractional part.

    Args:
        cause: The cause.
        name: Name shown in tables.
        law: Distribution of a lifetime.
        parts: Expected number.
        lemons: Lemons tracked one by one, to be retired; the last may be fractional.
    """

    cause: Cause
    name: str
    law: Law
    parts: float
    lemons: int

    @property
    def rate_per_s(self) -> float:
        """Long-run rate of its events, effective or not [1/s]."""
        return (self.lemons or self.parts) / mean_s(self.law)


def event_streams(fleet: Fleet, units: int, powered: int, named: int) -> list[Stream]:
    """Return causes and their lemons: memoryless ones first, each group by frequency.

    Causes that affect work affect only units of the job: idle spares do no work. Each lemon belongs
    to one cause; the number of lemons may be fractional. Where units are named, lemons among all of
    them fail at their rate wherever they are, and those that are not powered have no effect. A
    fractional ageing part is a separate stream of one part, each of whose failures counts with that
    probability.
    """
    streams: list[Stream] = []
    for cause in fleet.causes:
        parts = cause.per_unit * (units if strikes_work(cause) else powered) + cause.shared
        bad = 0.0
        if cause.lemons is not None and named and has_unit_lemons(cause):
            among = named * cause.lemons.share
            worse = Exponential(
                mean_s=mean_s(cause.lifetime) / (cause.lemons.factor * cause.per_unit)
            )
            known = math.ceil(among * (1.0 - WHOLE))
            streams.append(Stream(cause, f"{cause.name} (lemons)", worse, among, known))
        elif cause.lemons is not None:
            bad = parts * cause.lemons.share
            known = math.ceil(bad * (1.0 - WHOLE)) if cause.lemons.strikes else 0
            worse = Exponential(mean_s=mean_s(cause.lifetime) / cause.lemons.factor)
            streams.append(Stream(cause, f"{cause.name} (lemons)", worse, bad, known))
        rest = parts - bad
        in_units = named > 0 and has_unit_ages(cause)
        if in_units:  # of the job and all spares, whether powered or not
            rest = cause.per_unit * named
        if not isinstance(cause.lifetime, Exponential) and not _whole(rest):
            fraction = rest - math.floor(rest)
            scale = powered / named if in_units else 1.0
            streams.append(Stream(cause, cause.name, cause.lifetime, fraction * scale, 0))
            rest = float(math.floor(rest))
        streams.append(Stream(cause, cause.name, cause.lifetime, rest, 0))
    kept = [stream for stream in streams if stream.parts > 0.0]

    def order(stream: Stream) -> tuple[bool, float]:
        return not isinstance(stream.law, Exponential), -stream.rate_per_s

    return sorted(kept, key=order)


def strikes_work(cause: Cause) -> bool:
    """Return whether a cause affects the work on a unit rather than the unit."""
    return cause.takes == "nothing" or cause.effect != "stops"


def _whole(parts: float) -> bool:
    return abs(parts - round(parts)) <= WHOLE * parts
