"""`goodput spares`: share of time a job waits for nodes, or spares needed to avoid it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.answer import Answer, Evidence
from perfatlas.declarations import signature_of, verb_fields
from perfatlas.quantities import InfeasibleError, InvalidSpecError, counted
from perfatlas.reliability.fleet.closed_form import blocked_probability, failed_nodes, spares_for
from perfatlas.scenario.fields import complete_scenario, refuse_unused
from perfatlas.verbs.goodput.question import SpareNodes
from perfatlas.verbs.goodput.spare_pool import Pool, pool_of
from perfatlas.verbs.goodput.unused_options import unused_spare_options

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.laws import FloatArray

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
        "blocked_probability": _blocked(pool, spares),
        **_means(pool, spares),
    }
    if inputs.target is not None and spares:
        results["blocked_probability_one_fewer"] = _blocked(pool, spares - 1)
    return Answer(
        command="goodput spares",
        scenario=complete_scenario(verb_fields("goodput spares"), inputs),
        results=results,
        breakdown=[],
        evidence=Evidence(
            tier=SIMPLER if pool.left_out else "erlang_b" if pool.plain else "birth_death",
            assumptions=(ERLANG if pool.plain else CHAIN, *pool.notes),
        ),
        warnings=(*_warnings(inputs, pool, spares), *unused_spare_options(inputs, spares)),
    )


def _blocked(pool: Pool, spares: int) -> float:
    if pool.plain:
        return float(blocked_probability(pool.nodes, spares, pool.rate_per_s, pool.repair_s))
    return float(_failed(pool, spares)[spares + 1 :].sum())


def _failed(pool: Pool, spares: int) -> FloatArray:
    return failed_nodes(
        pool.nodes, spares, pool.per_s, pool.repair_s, crews=pool.crews, warm=pool.warm
    )


def _means(pool: Pool, spares: int) -> dict[str, float]:
    """Return the mean nodes under repair, including those waiting for a crew.

    Source: means of the chain. With unlimited crews they do not depend on the repair distribution.
    """
    chance_J = _failed(pool, spares)
    out_J = np.arange(chance_J.size)
    if pool.crews is None:
        return {"nodes_under_repair": float(chance_J @ out_J)}
    return {
        "nodes_under_repair": float(chance_J @ np.minimum(out_J, pool.crews)),
        "nodes_out": float(chance_J @ out_J),
    }


def _fewest(pool: Pool, blocked: float) -> int:
    """Return the fewest spares with which a job waits at most a given share of the time.

    Source: blocking decreases with spares, so bisection finds the first.

    Raises:
        InfeasibleError: `MOST_SPARES` do not suffice.
    """
    if pool.plain:
        return spares_for(pool.nodes, pool.rate_per_s, pool.repair_s, blocked=blocked)
    high = 1
    while _blocked(pool, high) > blocked:
        if high >= MOST_SPARES:
            raise InfeasibleError(
                f"even {counted(high, 'spare')} leave the job waiting {_blocked(pool, high):.1%}"
                " of the time.",
                advice=("more crews, a shorter repair or spares that do not fail",),
            )
        high = min(2 * high, MOST_SPARES)
    low = -1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _blocked(pool, middle) > blocked else (low, middle)
    return high


def _warnings(inputs: SpareNodes, pool: Pool, spares: int) -> tuple[str, ...]:
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
