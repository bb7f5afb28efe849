"""Nodes of a job that fail and are repaired, as numbers or as a fleet tells them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from perfatlas.fleet.laws import Exponential
from perfatlas.fleet.model import cause_rate_per_s, mean_repair_s, resolve_fleet
from perfatlas.quantities import InvalidSpecError, counted

if TYPE_CHECKING:
    from perfatlas.fleet.model import Cause, Fleet
    from perfatlas.verbs.goodput.question import SpareNodes


class Pool(NamedTuple):
    """Nodes of a job, and how they fail and return.

    Args:
        nodes: Nodes of the job.
        per_s: By how many nodes leave together, how often one is the first of them [1/s].
        repair_s: Mean time until one is back [s].
        crews: Repairs at once; None for as many as are needed.
        warm: Spares fail too.
        said: What was assumed of a fleet.
        left_out: What no closed form here knows of it.
        units: Nodes of the fleet; None where no fleet is given.
    """

    nodes: int
    per_s: dict[int, float]
    repair_s: float
    crews: int | None
    warm: bool
    said: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    units: int | None = None

    @property
    def rate_per_s(self) -> float:
        """How often one node leaves [1/s]."""
        return sum(size * rate for size, rate in self.per_s.items())

    @property
    def plain(self) -> bool:
        """Whether Erlang's formula describes it: one by one, a crew for each, cold spares."""
        return self.crews is None and not self.warm and set(self.per_s) == {1}

    @property
    def repairing(self) -> float:
        """Nodes under repair, on average, were there crews for all and the job never waited."""
        return self.nodes * self.rate_per_s * self.repair_s


def pool_of(asked: SpareNodes) -> Pool:
    """Return the nodes that fields describe.

    Args:
        asked: The fields.

    Raises:
        InvalidSpecError: Nodes are told in part, or there is no such fleet.
    """
    if asked.fleet is not None:
        return _of_fleet(asked, resolve_fleet(asked.fleet))
    told = {name: getattr(asked, name) for name in ("nodes", "node_mtbf_s", "repair_s")}
    if asked.nodes is None or asked.node_mtbf_s is None or asked.repair_s is None:
        missing = ", ".join(name for name, value in told.items() if value is None)
        raise InvalidSpecError(f"{missing} missing: give them, or fleet with gpus")
    rates = {1: 1.0 / asked.node_mtbf_s}
    return Pool(asked.nodes, rates, asked.repair_s, asked.crews, asked.warm)


def _of_fleet(asked: SpareNodes, fleet: Fleet) -> Pool:
    """Return the nodes of a job on a fleet.

    Source: superposed, causes are one stream whose repair is a mixture, of the mean of their
        repairs weighed by nodes; Erlang-B holds for any law of it, the chains for a memoryless one.
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
    per_s: dict[int, float] = {}
    for cause in out:
        events = cause_rate_per_s(cause, nodes) / nodes
        per_s[cause.units] = per_s.get(cause.units, 0.0) + events
    names = ", ".join(cause.name for cause in out)
    hours = repair_s / 3600.0
    said = [f"nodes leave by {names}, and are back after {hours:.3g} h on average"]
    if many := [cause for cause in out if cause.units > 1]:
        named = ", ".join(f"{counted(cause.units, 'node')} by {cause.name}" for cause in many)
        said.append(f"nodes that leave together: {named}; each is repaired by itself")
    pool = Pool(nodes, per_s, repair_s, crews, asked.warm, tuple(said))
    left_out = _left_out(fleet, out, plain=pool.plain)
    return pool._replace(left_out=left_out, units=fleet.units)


def _left_out(fleet: Fleet, out: list[Cause], *, plain: bool) -> tuple[str, ...]:
    """Return what a closed form does not know of what takes nodes out."""
    used = {cause.repair or fleet.repairs[0].name for cause in out}
    repairs = [repair for repair in fleet.repairs if repair.name in used]
    stages = [stage for repair in repairs for stage in repair.stages]
    told = {
        "the age of parts": any(not isinstance(cause.lifetime, Exponential) for cause in out),
        "lemons": any(cause.lemons for cause in out),
        "false fixes": any(stage.false_fix for stage in stages),
        "the laws of repairs": not plain
        and (len(stages) > 1 or not isinstance(stages[0].lasts, Exponential)),
    }
    return tuple(what for what, is_so in told.items() if is_so)
