"""Nodes of a job that fail and are repaired, as numbers or as a fleet tells them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from perfatlas.fleet.checks import cause_rate_per_s
from perfatlas.fleet.fleet_facts import mean_repair_s
from perfatlas.fleet.laws import Exponential
from perfatlas.fleet.shipped import resolve_fleet
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from perfatlas.fleet.model import Cause, Fleet
    from perfatlas.scenario.goodput_fields import SpareNodes


class Pool(NamedTuple):
    """Nodes of a job, and how they fail and return.

    Args:
        nodes: Nodes of the job.
        rate_per_s: Failures of one node that take it out [1/s].
        repair_s: Mean time until one is back [s].
        crews: Repairs at once; None for as many as are needed.
        warm: Spares fail too.
        said: What was assumed of a fleet.
    """

    nodes: int
    rate_per_s: float
    repair_s: float
    crews: int | None
    warm: bool
    said: tuple[str, ...] = ()

    @property
    def repairing(self) -> float:
        """Nodes under repair, on average, were there crews for all."""
        return self.nodes * self.rate_per_s * self.repair_s


def pool_of(asked: SpareNodes) -> Pool:
    """Return the nodes that fields describe.

    Args:
        asked: The fields.

    Raises:
        InvalidSpecError: Nodes are told in part or twice, or there is no such fleet.
    """
    told = {name: getattr(asked, name) for name in ("nodes", "node_mtbf_s", "repair_s")}
    if asked.fleet is not None:
        twice = [name for name, value in told.items() if value is not None]
        if twice:
            raise InvalidSpecError(
                f"the fleet says how nodes fail and return: leave {', '.join(twice)} out"
            )
        return _of_fleet(asked, resolve_fleet(asked.fleet))
    if asked.gpus is not None:
        raise InvalidSpecError("gpus are those of a job on a fleet: give fleet, or nodes instead")
    if asked.nodes is None or asked.node_mtbf_s is None or asked.repair_s is None:
        missing = ", ".join(name for name, value in told.items() if value is None)
        raise InvalidSpecError(f"{missing} missing: give them, or fleet with gpus")
    return Pool(asked.nodes, 1.0 / asked.node_mtbf_s, asked.repair_s, asked.crews, asked.warm)


def _of_fleet(asked: SpareNodes, fleet: Fleet) -> Pool:
    """Return the nodes of a job on a fleet.

    Source: superposed, causes are one stream whose repair is a mixture, of the mean of their
        repairs weighed by rate; Erlang-B holds for any law of it.
    """
    if asked.gpus is None:
        raise InvalidSpecError("gpus of the job is missing: how many nodes can fail follows")
    nodes, rest = divmod(asked.gpus, fleet.gpus_per_unit)
    if rest or not nodes:
        raise InvalidSpecError(
            f"gpus = {asked.gpus} do not fill units of {fleet.gpus_per_unit}: use"
            f" {max(nodes, 1) * fleet.gpus_per_unit}"
        )
    if fleet.parts_per_unit > 1:
        raise InvalidSpecError(
            f"units of this fleet go on with {fleet.parts_needed} of {fleet.parts_per_unit} parts,"
            " which no closed form here knows: ask goodput with fleet and spares"
        )
    out = [cause for cause in fleet.causes if cause.effect == "stops" and cause.takes == "unit"]
    rates = [cause_rate_per_s(cause, nodes) * cause.units for cause in out]
    if not sum(rates):
        raise InvalidSpecError("nothing in this fleet takes a node out: no spare is needed")
    repairs = {repair.name: mean_repair_s(repair) for repair in fleet.repairs}
    first = fleet.repairs[0].name
    total = sum(
        rate * repairs[cause.repair or first] for rate, cause in zip(rates, out, strict=True)
    )
    repair_s = total / sum(rates)
    if not repair_s:
        raise InvalidSpecError("repairs of this fleet take no time: no spare is needed")
    crews = fleet.crews if asked.crews is None else asked.crews
    return Pool(nodes, sum(rates) / nodes, repair_s, crews, asked.warm, _said(fleet, out, repair_s))


def _said(fleet: Fleet, out: list[Cause], repair_s: float) -> tuple[str, ...]:
    left = {
        "the age of parts": any(not isinstance(cause.lifetime, Exponential) for cause in out),
        "that several units leave at once": any(cause.units > 1 for cause in out),
        "lemons": any(cause.lemons for cause in out),
        "false fixes": any(s.false_fix for repair in fleet.repairs for s in repair.stages),
    }
    named = [what for what, is_so in left.items() if is_so]
    said = (
        f"nodes leave by {', '.join(cause.name for cause in out)}, and are back after"
        f" {repair_s / 3600.0:.3g} h on average"
    )
    return (said, f"left out: {', '.join(named)}") if named else (said,)
