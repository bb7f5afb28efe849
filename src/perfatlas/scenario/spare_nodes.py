"""`goodput spares`: how often a job waits for a node, or how many spares keep it from waiting."""

from __future__ import annotations

from typing import Any, Final

from perfatlas.fleet.spares import birth_death_blocked, blocked_probability, spares_for
from perfatlas.quantities import InfeasibleError, InvalidSpecError
from perfatlas.scenario.answer import Answer, Evidence
from perfatlas.scenario.goodput_fields import SpareNodes, parsed

MOST_SPARES: Final = 100_000
ERLANG: Final = (
    "Erlang-B with spares + 1 servers: exact for any law of repairs of this mean, memoryless"
    " failures, a crew for every repair, spares that do not fail while they stand by"
)
CHAIN: Final = "steady state of the birth-death chain of failed nodes: memoryless failures, repairs"


def goodput_spares(**fields: Any) -> Answer:  # noqa: ANN401 - checked by schema
    """Return the share of time a job waits for a node, or the spares for a share of time.

    Args:
        **fields: nodes, node_mtbf_s, repair_s, and either spares, or target: the share of time in
            which the job does not wait, such as 0.999; crews (repairs at once, default: as many as
            are needed), warm (spares fail like other nodes).

    Raises:
        InvalidSpecError: A name or value breaks a rule.
        InfeasibleError: No number of spares reaches the target.

    Example:
        >>> from perfatlas import goodput_spares
        >>> day = 86400
        >>> found = goodput_spares(nodes=2048, node_mtbf_s=day / 6.5e-3, repair_s=day, target=0.999)
        >>> found.results["spares"]
        25
    """
    asked = parsed(SpareNodes, fields)
    if (asked.spares is None) == (asked.target is None):
        raise InvalidSpecError(
            "give either spares, to ask how often the job waits, or target, the share of time it"
            " does not, such as 0.999, to ask how many are needed"
        )
    spares = _fewest(asked) if asked.spares is None else asked.spares
    plain = asked.crews is None and not asked.warm
    repairing = asked.nodes * asked.repair_s / asked.node_mtbf_s
    results: dict[str, Any] = {
        "spares": spares,
        "blocked_probability": _blocked(asked, spares),
        "nodes_under_repair": repairing,
    }
    if asked.target is not None and spares:
        results["blocked_probability_one_fewer"] = _blocked(asked, spares - 1)
    return Answer(
        command="goodput spares",
        scenario={name: value for name, value in fields.items() if value not in (None, "")},
        results=results,
        breakdown=[],
        evidence=Evidence(
            tier="erlang_b" if plain else "birth_death",
            assumptions=(ERLANG if plain else CHAIN,),
        ),
        warnings=_said(asked, repairing),
    )


def _blocked(asked: SpareNodes, spares: int) -> float:
    rate = 1.0 / asked.node_mtbf_s
    if asked.crews is None and not asked.warm:
        return float(blocked_probability(asked.nodes, spares, rate, asked.repair_s))
    return birth_death_blocked(
        asked.nodes, spares, rate, asked.repair_s, crews=asked.crews, warm=asked.warm
    )


def _fewest(asked: SpareNodes) -> int:
    """Return the fewest spares that reach the target.

    Source: blocking falls with every spare, so doubling and halving find the first.

    Raises:
        InfeasibleError: Even `MOST_SPARES` do not.
    """
    blocked = 1.0 - (asked.target or 0.0)
    if asked.crews is None and not asked.warm:
        return spares_for(asked.nodes, 1.0 / asked.node_mtbf_s, asked.repair_s, blocked=blocked)
    high = 1
    while _blocked(asked, high) > blocked:
        if high >= MOST_SPARES:
            raise InfeasibleError(
                f"even {high:,} spares leave the job waiting {_blocked(asked, high):.1%} of the"
                " time",
                advice=("more crews, a shorter repair or spares that do not fail",),
            )
        high = min(2 * high, MOST_SPARES)
    low = -1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _blocked(asked, middle) > blocked else (low, middle)
    return high


def _said(asked: SpareNodes, repairing: float) -> tuple[str, ...]:
    if asked.crews is not None and asked.crews < repairing:
        said = (
            f"{asked.crews} crews repair slower than nodes fail: {repairing:.1f} would be busy at"
            " any time, so the job waits however many spares there are"
        )
        return (said,)
    return ()
