"""`goodput spares`: share of time a job waits for nodes, or spares needed to avoid it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.answer import Answer, Evidence
from perfatlas.declarations import signature_of, verb_fields
from perfatlas.quantities import HOUR_S, InfeasibleError, InvalidSpecError, counted, significant
from perfatlas.reliability.fleet.closed_form import NodePool, spares_for
from perfatlas.reliability.fleet.laws import Exponential
from perfatlas.reliability.fleet.model import cause_rate_per_s, mean_repair_s, resolve_fleet
from perfatlas.scenario.fields import complete_scenario, refuse_unused, unused_warnings
from perfatlas.scenario.interrupted_jobs import SpareNodes
from perfatlas.studies import smallest_number

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.model import Cause, Fleet


def pool_of(inputs: SpareNodes) -> NodePool:
    """Return the nodes described by fields.

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
    return NodePool(inputs.nodes, rates, inputs.repair_s, inputs.crews, inputs.warm)


def _of_fleet(inputs: SpareNodes, fleet: Fleet) -> NodePool:
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
    hours = repair_s / HOUR_S
    notes = [f"nodes fail by {names}, and return after {significant(hours)} h on average"]
    if many := [cause for cause in out if cause.units > 1]:
        named = ", ".join(f"{counted(cause.units, 'node')} by {cause.name}" for cause in many)
        notes.append(f"nodes that fail together: {named}; each is repaired separately")
    pool = NodePool(nodes, per_s, repair_s, crews, inputs.warm, tuple(notes))
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


MOST_SPARES: Final = 100_000
ERLANG: Final = (
    "Erlang-B with spares + 1 servers: exact for any repair distribution with this mean,"
    " exponential failures, unlimited repair capacity and spares that do not fail"
)
CHAIN: Final = (
    "steady state of the birth-death chain of failed nodes: exponential failures and repairs"
)
SIMPLER: Final = "simpler_fleet"  # the tier where features of a fleet are not modelled


@signature_of("goodput spares")
def goodput_spares(**fields: Any) -> Answer:  # noqa: ANN401 - checked by schema
    """Return the share of time a job waits for nodes, or the spares for a target share.

    Args:
        **fields: nodes, node_mtbf_s, repair_s, or fleet and gpus of the job; and either spares, or
            target: the share of time in which the job does not wait, such as 0.999; crews
                (concurrent repairs, default: unlimited), warm (spares fail like other nodes).

    Raises:
        InvalidSpecError: A name or value is invalid.
        InfeasibleError: No number of spares reaches the target.

    Example:
        >>> from perfatlas.verbs.goodput import goodput_spares
        >>> day = 86400
        >>> found = goodput_spares(nodes=2048, node_mtbf_s=day / 6.5e-3, repair_s=day, target=0.999)
        >>> found.results["spares"]
        25
    """
    inputs = SpareNodes.read(fields)
    refuse_unused(inputs.values, verb_fields("goodput spares"))
    if (inputs.spares is None) == (inputs.target is None):
        raise InvalidSpecError(
            "set either spares, for the share of time the job waits, or target, the share of time"
            " it does not wait, such as 0.999, for the number of spares needed"
        )
    pool = pool_of(inputs)
    spares = inputs.spares
    if spares is None:
        spares = _fewest(pool, 1.0 - (inputs.target or 0.0))
    results: dict[str, Any] = {
        "spares": spares,
        "blocked_probability": pool.blocked(spares),
        **pool.mean_failed(spares),
    }
    if inputs.target is not None and spares:
        results["blocked_probability_one_fewer"] = pool.blocked(spares - 1)
    return Answer(
        command="goodput spares",
        scenario=complete_scenario(verb_fields("goodput spares"), inputs),
        results=results,
        breakdown=[],
        evidence=Evidence(
            tier=SIMPLER if pool.left_out else "erlang_b" if pool.plain else "birth_death",
            assumptions=(ERLANG if pool.plain else CHAIN, *pool.notes),
        ),
        warnings=(
            *_warnings(inputs, pool, spares),
            *unused_warnings({**inputs.values, "spares": spares}, verb_fields("goodput spares")),
        ),
    )


def _fewest(pool: NodePool, blocked: float) -> int:
    """Return the fewest spares with which a job waits at most a given share of the time.

    Source: blocking decreases with spares, so bisection finds the first.

    Raises:
        InfeasibleError: `MOST_SPARES` do not suffice.
    """
    if pool.plain:
        return spares_for(pool.nodes, pool.rate_per_s, pool.repair_s, blocked=blocked)
    found = smallest_number(lambda spares: pool.blocked(spares) <= blocked, 0, MOST_SPARES)
    if found is None:
        raise InfeasibleError(
            f"even {counted(MOST_SPARES, 'spare')} leave the job waiting"
            f" {pool.blocked(MOST_SPARES):.1%} of the time.",
            advice=("more crews, a shorter repair or spares that do not fail",),
        )
    return found


def _warnings(inputs: SpareNodes, pool: NodePool, spares: int) -> tuple[str, ...]:
    notes = []
    need = pool.nodes + spares
    short = pool.units is not None and need > pool.units
    if short:
        notes.append(
            f"the job and its {counted(spares, 'spare')} need {need:,} nodes, the fleet has"
            f" {pool.units:,}: the result assumes a large enough fleet"
        )
    if pool.left_out:
        more = f", fleet_units = {need}" if short else ""
        notes.append(
            f"this closed form does not model {', '.join(pool.left_out)}: goodput with fleet ="
            f" {inputs.fleet}, gpus = {inputs.gpus}, spares = {spares}{more} simulates them"
        )
    if pool.crews is not None and pool.crews < pool.repairing:
        slower = "1 crew repairs" if pool.crews == 1 else f"{pool.crews:,} crews repair"
        notes.append(
            f"{slower} slower than nodes fail: {pool.repairing:.1f} crews would be needed on"
            " average, so the job waits with any number of spares"
        )
    return tuple(notes)
