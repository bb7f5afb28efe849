"""Points with closed forms for node failures and repairs: spares, racks, ageing."""

from __future__ import annotations

from itertools import product
from math import gamma
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from perfatlas.reliability.fleet import closed_form, laws, model
from perfatlas.reliability.fleet.simulator import simulate
from validation.fleet.agreement import Point, measured_mean

if TYPE_CHECKING:
    from validation.fleet.agreement import Measured

DAY_S: Final = 86400.0
NODES: Final = 100
REPLICAS: Final = 100
FAILURES: Final = 120_000  # of a replica: long enough that the initial state hardly matters
REPAIR_LAWS: Final[dict[str, laws.Law]] = {
    "exponential": laws.Exponential(mean_s=DAY_S),
    "deterministic": laws.Constant(value_s=DAY_S),
    "lognormal": laws.LogNormal(median_s=DAY_S / float(np.exp(0.5)), sigma=1.0),
}
# compared after the others, which keep their seeds
MORE_LAWS: Final[dict[str, laws.Law]] = {"Weibull 0.7": laws.weibull_of_mean(DAY_S, 0.7)}
OFFERED: Final = ((1, 1), (1, 3), (5, 5), (5, 10), (30, 30), (30, 41))  # repairs, spares
CREWS: Final = ((1, 0.3, 2), (1, 0.8, 6), (2, 1.5, 4), (2, 1.5, 12), (5, 3.0, 4), (5, 4.5, 15))
WARM: Final = ((1.0, 2), (1.0, 5), (6.0, 10), (6.0, 16), (20.0, 24), (20.0, 36))
RACKS: Final = (  # parts, parts needed, days of a repair
    *((18, needed, 1.0) for needed in (18, 17, 16)),
    *((72, needed, 1.0) for needed in (72, 70)),
    (72, 64, 3.0),
)
BURSTS: Final = (
    (2, 2),
    (2, 8),
    (8, 4),
    (8, 16),
    (20, 6),
    (20, 30),
)  # nodes failing at once, spares
SHAPES: Final = (0.7, 1.0, 2.0)
LIFE_S: Final = 100 * DAY_S
FREE_CHECKPOINTS: Final = model.Level(write_s=0.0)


def erlang_points(*, replicas: int = REPLICAS) -> list[Point]:
    """Return the share of time 100 nodes wait for cold spares, for four repair distributions.

    1 to 30 concurrent repairs on average, as many spares and far more: Erlang-B for any
    distribution.

    Args:
        replicas: Replicas per point.
    """
    rows = []
    grid = [*product(OFFERED, REPAIR_LAWS.items()), *product(OFFERED, MORE_LAWS.items())]
    for (offered, spares), (law_name, law) in grid:
        rate = offered / (NODES * DAY_S)
        exact = float(closed_form.blocked_probability(NODES, spares, rate, DAY_S))
        fleet = _nodes(rate, law, NODES + spares)
        name = f"{offered} repairs offered, {spares} spares, {law_name}"
        drawn = (_waiting(fleet, NODES, model.Spares(count=spares)), _horizon_s(offered), replicas)
        rows.append(_blocked("waiting for spares", name, exact, drawn))
    return rows


def crews_points(*, replicas: int = REPLICAS) -> list[Point]:
    """Return the share of time 100 nodes wait with limited repair crews, by birth-death chains.

    Args:
        replicas: Replicas per point.
    """
    return [
        _spared(
            "few crews",
            f"{crews} crews, {offered:g} repairs offered, {spares} spares",
            (offered, spares, crews),
            replicas,
        )
        for crews, offered, spares in CREWS
    ]


def warm_points(*, replicas: int = REPLICAS) -> list[Point]:
    """Return the share of time 100 nodes wait for spares that fail too, by birth-death chains.

    Args:
        replicas: Replicas per point.
    """
    return [
        _spared(
            "warm spares",
            f"{offered:g} repairs offered, {spares} warm spares",
            (offered, spares, None),
            replicas,
        )
        for offered, spares in WARM
    ]


def _spared(group: str, name: str, asked: tuple[float, int, int | None], replicas: int) -> Point:
    """Return a point of 100 nodes with spares, warm without crews, by birth-death chains."""
    offered, spares, crews = asked
    rate, warm = offered / (NODES * DAY_S), crews is None
    exact = closed_form.birth_death_blocked(NODES, spares, rate, DAY_S, crews=crews, warm=warm)
    fleet = _nodes(rate, REPAIR_LAWS["exponential"], NODES + spares, crews)
    kind = model.Spares(count=spares, kind="warm" if warm else "cold")
    return _blocked(
        group, name, exact, (_waiting(fleet, NODES, kind), _horizon_s(offered), replicas)
    )


def racks_points(*, replicas: int = REPLICAS) -> list[Point]:
    """Return the unavailability of a rack that needs k of its n parts, by birth-death chains.

    Parts fail every 50 days; none fails while the rack is down.

    Args:
        replicas: Replicas per point.
    """
    rows = []
    for parts, needed, repair_d in RACKS:
        part = model.Cause(
            name="part", lifetime=laws.Exponential(mean_s=50 * DAY_S), per_unit=parts, takes="part"
        )
        law = laws.Exponential(mean_s=repair_d * DAY_S)
        fleet = model.Fleet(
            units=1,
            causes=(part,),
            repairs=_repair(law),
            parts_per_unit=parts,
            parts_needed=needed,
        )
        weights = [1.0]
        for down in range(parts - needed + 1):
            weights.append(weights[-1] * (parts - down) * repair_d / 50 / (down + 1))
        exact, name = weights[-1] / sum(weights), f"{needed} of {parts}, repair {repair_d:g} d"
        drawn = (_waiting(fleet, 1, model.Spares(count=0)), 20_000 * DAY_S, replicas)
        rows.append(_blocked("k of n parts", name, exact, drawn))
    return rows


def bursts_points(*, replicas: int = REPLICAS) -> list[Point]:
    """Return the share of time 200 nodes wait that fail 2, 8 or 20 at once, by batch chains.

    Args:
        replicas: Replicas per point.
    """
    rows = []
    for size, spares in BURSTS:
        burst = model.Cause(
            name="pdu", lifetime=laws.Exponential(mean_s=100 * DAY_S), per_unit=1 / size, units=size
        )
        fleet = model.Fleet(
            units=200 + 40, causes=(burst,), repairs=_repair(laws.Exponential(mean_s=DAY_S))
        )
        found_J = closed_form.failed_nodes(200, spares, {size: 1 / (size * 100 * DAY_S)}, DAY_S)
        exact, name = float(found_J[spares + 1 :].sum()), f"{size} at once, {spares} spares"
        drawn = (_waiting(fleet, 200, model.Spares(count=spares)), 20_000 * DAY_S, replicas)
        rows.append(_blocked("bursts", name, exact, drawn))
    return rows


def ageing_points(*, replicas: int = 400) -> list[Point]:
    """Return the number of failures of repaired parts in steady state: N t / mean for any shape.

    Args:
        replicas: Replicas per point.
    """
    rows = []
    for shape, parts, lives in product(SHAPES, (32, 512), (0.3, 2.0)):
        law = laws.weibull_of_mean(LIFE_S, shape)
        cause = model.Cause(name="part", lifetime=law, per_unit=1.0, ages="mixed")
        job = model.Job(
            fleet=model.Fleet(units=parts, causes=(cause,)), units=parts, horizon_s=lives * LIFE_S
        )
        name = f"Weibull {shape:g}, {parts} parts, {lives:g} mean lives"
        rows.append(_sampled("long-run failures", name, parts * lives, (job, "failures", replicas)))
    return rows


def first_failure_points(*, replicas: int = 4000) -> list[Point]:
    """Return the mean time to the first failure of N new parts: a Gamma(1 + 1/k) N^(-1/k).

    Args:
        replicas: Replicas per point.
    """
    rows = []
    for shape, parts in product(SHAPES, (8, 64, 512)):
        law = laws.weibull_of_mean(LIFE_S, shape)
        exact = law.scale_s * gamma(1 + 1 / law.shape) * parts ** (-1 / law.shape)
        cause = model.Cause(name="part", lifetime=law, per_unit=1.0)
        # a job that stops permanently at its first failure
        fleet = model.Fleet(
            units=parts, causes=(cause,), repairs=_repair(laws.Constant(value_s=1e11))
        )
        job = model.Job(fleet=fleet, units=parts, horizon_s=400 * exact)
        name = f"Weibull {shape:g}, {parts} parts"
        rows.append(_sampled("first failure of new parts", name, exact, (job, "exposed", replicas)))
    return rows


def _nodes(rate: float, law: laws.Law, units: int, crews: int | None = None) -> model.Fleet:
    cause = model.Cause(name="node", lifetime=laws.Exponential(mean_s=1 / rate), per_unit=1.0)
    return model.Fleet(units=units, causes=(cause,), repairs=_repair(law), crews=crews)


def _repair(law: laws.Law) -> tuple[model.Repair, ...]:
    return (model.Repair(name="swap", stages=(model.RepairStage(name="swap", lasts=law),)),)


def _horizon_s(offered: float) -> float:
    return FAILURES / offered * DAY_S


def _waiting(
    fleet: model.Fleet, units: int, spares: model.Spares
) -> tuple[model.Fleet, int, model.Strategy]:
    return (
        fleet,
        units,
        model.Strategy(interval_s=3600.0, levels=(FREE_CHECKPOINTS,), spares=spares),
    )


def _blocked(
    group: str,
    name: str,
    exact: float,
    drawn: tuple[tuple[model.Fleet, int, model.Strategy], float, int],
) -> Point:
    (fleet, units, strategy), horizon_s, replicas = drawn
    job = model.Job(fleet=fleet, units=units, horizon_s=horizon_s)

    def measure(seed: int, finer: int) -> Measured:
        outcome = simulate(job, strategy, replicas=finer * replicas, seed=seed)
        share_R = outcome.column("waiting_for_spares") / outcome.horizon
        return measured_mean(share_R)

    return Point(group=group, name=name, exact=exact, measure=measure)


def _sampled(
    group: str,
    name: str,
    exact: float,
    drawn: tuple[model.Job, Literal["failures", "exposed"], int],
) -> Point:
    job, column, replicas = drawn
    strategy = model.Strategy(
        interval_s=3600.0, levels=(FREE_CHECKPOINTS,), spares=model.Spares(count=0)
    )

    def measure(seed: int, finer: int) -> Measured:
        outcome = simulate(job, strategy, replicas=finer * replicas, seed=seed)
        value_R = outcome.column(column).astype(np.float64)
        return measured_mean(value_R / laws.TICKS_PER_SECOND if column == "exposed" else value_R)

    return Point(group=group, name=name, exact=exact, measure=measure)
