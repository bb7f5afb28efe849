"""Nodes of a job that fail and are repaired, from numbers or a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from perfatlas.quantities import InvalidSpecError, counted, significant
from perfatlas.reliability.fleet.laws import Exponential
from perfatlas.reliability.fleet.model import cause_rate_per_s, mean_repair_s, resolve_fleet

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.model import Cause, Fleet
    from perfatlas.verbs.goodput.question import SpareNodes


class Pool(NamedTuple):
    """Nodes of a job with their failures and repairs.

    Args:
        nodes: Nodes of the job.
        per_s: By number of nodes that fail together, the rate at which one is the first [1/s].
        repair_s: Mean repair time [s].
        crews: Maximum concurrent repairs; None for no limit.
        warm: Whether spares fail too.
        notes: Assumptions about a fleet.
        left_out: Features of the fleet that no closed form models.
        units: Nodes of the fleet; None without a fleet.
    """

    nodes: int
    per_s: dict[int, float]
    repair_s: float
    crews: int | None
    warm: bool
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    units: int | None = None

    @property
    def rate_per_s(self) -> float:
        """Failure rate of one node [1/s]."""
        return sum(size * rate for size, rate in self.per_s.items())

    @property
    def plain(self) -> bool:
        """Whether Erlang's formula applies: single failures, unlimited crews, cold spares."""
        return self.crews is None and not self.warm and set(self.per_s) == {1}

    @property
    def repairing(self) -> float:
        """Mean nodes under repair with unlimited crews and a job that never waits."""
        return self.nodes * self.rate_per_s * self.repair_s


def pool_of(inputs: SpareNodes) -> Pool:
    """Return the nodes described by fields.

    Args:
        inputs: The fields.

    Raises:
        InvalidSpecError: Fields are missing, or the fleet is unknown.
    """
    if inputs.fleet is not None:
        return _of_fleet(inputs, resolve_fleet(inputs.fleet))
    values = {name: getattr(inputs, name) for name in ("nodes", "node_mtbf_s", "repair_s")}
    if inputs.nodes is None or inputs.node_mtbf_s is None or inputs.repair_s is None:
        missing = ", ".join(name for name, value in values.items() if value is None)
        raise InvalidSpecError(f"{missing} missing: set them, or fleet with gpus")
    rates = {1: 1.0 / inputs.node_mtbf_s}
    return Pool(inputs.nodes, rates, inputs.repair_s, inputs.crews, inputs.warm)


def _of_fleet(inputs: SpareNodes, fleet: Fleet) -> Pool:
    """Return the nodes of a job on a fleet.

    Source: the superposition of causes is one stream with a mixture of repairs, whose mean is
        weighted by nodes; Erlang-B holds for any repair distribution, the chains for an exponential
        one.
    """
    if inputs.gpus is None:
        raise InvalidSpecError("gpus of the job is missing: it determines the number of nodes")
    nodes, rest = divmod(inputs.gpus, fleet.gpus_per_unit)
    if rest or not nodes:
        raise InvalidSpecError(
            f"gpus = {inputs.gpus} is not a multiple of the unit of {fleet.gpus_per_unit} GPUs: use"
            f" {max(min(nodes, fleet.units), 1) * fleet.gpus_per_unit}"
        )
    if fleet.parts_per_unit > 1:
        raise InvalidSpecError(
            f"units of this fleet need {fleet.parts_needed} of {fleet.parts_per_unit} parts, which"
            " no closed form here covers: use goodput with fleet and spares"
        )
    out = [cause for cause in fleet.causes if cause.effect == "stops" and cause.takes == "unit"]
    rates = [cause_rate_per_s(cause, nodes) * cause.units for cause in out]
    if not sum(rates):
        raise InvalidSpecError("no cause in this fleet removes nodes: no spares are needed")
    repairs = {repair.name: mean_repair_s(repair) for repair in fleet.repairs}
    first = fleet.repairs[0].name
    total = sum(
        rate * repairs[cause.repair or first] for rate, cause in zip(rates, out, strict=True)
    )
    repair_s = total / sum(rates)
    if not repair_s:
        raise InvalidSpecError("repairs of this fleet take no time: no spares are needed")
    crews = fleet.crews if inputs.crews is None else inputs.crews
    per_s: dict[int, float] = {}
    for cause in out:
        events = cause_rate_per_s(cause, nodes) / nodes
        per_s[cause.units] = per_s.get(cause.units, 0.0) + events
    names = ", ".join(cause.name for cause in out)
    hours = repair_s / 3600.0
    notes = [f"nodes fail by {names}, and return after {significant(hours)} h on average"]
    if many := [cause for cause in out if cause.units > 1]:
        named = ", ".join(f"{counted(cause.units, 'node')} by {cause.name}" for cause in many)
        notes.append(f"nodes that fail together: {named}; each is repaired separately")
    pool = Pool(nodes, per_s, repair_s, crews, inputs.warm, tuple(notes))
    left_out = _left_out(fleet, out, plain=pool.plain)
    return pool._replace(left_out=left_out, units=fleet.units)


def _left_out(fleet: Fleet, out: list[Cause], *, plain: bool) -> tuple[str, ...]:
    """Return the features of node failures that a closed form does not model."""
    used = {cause.repair or fleet.repairs[0].name for cause in out}
    repairs = [repair for repair in fleet.repairs if repair.name in used]
    stages = [stage for repair in repairs for stage in repair.stages]
    values = {
        "the age of parts": any(not isinstance(cause.lifetime, Exponential) for cause in out),
        "lemons": any(cause.lemons for cause in out),
        "false fixes": any(stage.false_fix for stage in stages),
        "the repair distributions": not plain
        and (len(stages) > 1 or not isinstance(stages[0].lasts, Exponential)),
    }
    return tuple(what for what, is_so in values.items() if is_so)
