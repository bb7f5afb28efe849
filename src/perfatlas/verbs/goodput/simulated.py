"""The simple form of `goodput` by simulation, where no closed form applies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.answer import Answer, Evidence
from perfatlas.fleet.closed_form import FASTER, optimal_interval_s, what_is_lost
from perfatlas.fleet.laws import TICKS_PER_SECOND, Constant, Exponential, Law, weibull_of_mean
from perfatlas.fleet.model import (
    Cause,
    Fleet,
    Job,
    Level,
    Repair,
    RepairStage,
    Restart,
    Spares,
    Strategy,
)
from perfatlas.fleet.simulator import chosen_interval_s, exact_sum, simulate_until
from perfatlas.quantities import InvalidSpecError, counted
from perfatlas.verbs.goodput.interruptions import (
    bucket_rows,
    frequency,
    lost_hours,
    nodes_of,
    simple_assumptions,
)
from perfatlas.verbs.goodput.rate_interval import NARROWER

if TYPE_CHECKING:
    from perfatlas.fleet.simulator import Outcome
    from perfatlas.verbs.goodput.interruptions import Interruptions
    from perfatlas.verbs.goodput.question import SimpleGoodput

MOST_FAILURES: Final = 150_000_000  # total of all replicas; about a minute
MOST_REPLICAS: Final = 100_000


def simulated_goodput(asked: SimpleGoodput, told: Interruptions, beyond: str) -> Answer:
    """Return the goodput of the simple form by simulated replicas.

    Args:
        asked: The fields.
        told: The interruptions.
        beyond: Why no closed form applies, "" for method simulate.

    Raises:
        InvalidSpecError: Ageing or spares without gpus, or too many failures to simulate.
    """
    interval_s, best_s = _interval(asked, told)
    middle = run(asked, told.mtti_s, interval_s)
    ends = {}
    for end, mtti_s in (("low", told.low_s), ("high", told.high_s)):
        found = middle if mtti_s is None else run(asked, mtti_s, interval_s)
        sign = -1.0 if end == "low" else 1.0
        value = found.goodput + sign * NARROWER * found.half_width
        value -= found.unsaved if end == "low" else 0.0  # it may still be lost
        ends[end] = min(max(value, 0.0), 1.0)
    ended_s = exact_sum(middle.ended_R) / TICKS_PER_SECOND
    interruptions = int(middle.column("interruptions").sum())
    results = {
        "goodput": middle.goodput,
        "goodput_low": ends["low"],
        "goodput_high": ends["high"],
        "checkpoint_interval_s": interval_s,
        "optimal_checkpoint_interval_s": best_s,
        **frequency(asked, ended_s / interruptions if interruptions else float("inf"), told),
        "method": "simulate",
        "replicas": middle.ticks_RF.shape[0],
        "seed": asked.seed,
    }
    gpu_s = None if asked.gpus is None else asked.gpus * asked.duration_s
    why = f"simulated: {beyond}" if beyond else "simulated, as requested"
    days = asked.duration_s / 86400.0
    said = f"{why}; {counted(results['replicas'], 'replica')} of {days:g} d, seed {asked.seed}"
    said += "; jobs with equal seeds meet the same failures (common random numbers)"
    return Answer(
        command="goodput",
        scenario={},
        results=results | lost_hours(asked, middle.goodput),
        breakdown=bucket_rows(middle.shares(), gpu_s),
        evidence=Evidence(
            tier="simulate",
            assumptions=(
                said,
                *_optimum_notes(asked, best_s),
                *_initial_ages_notes(asked),
                *simple_assumptions(asked, told),
            ),
        ),
        warnings=(
            *middle.remarks(),
            *_lost_work_remarks(asked, told, middle),
        ),
    )


def _lost_work_remarks(asked: SimpleGoodput, told: Interruptions, found: Outcome) -> list[str]:
    """Return a remark on an MTTI shorter than a restart."""
    if asked.restart_s <= told.mtti_s:
        return []
    return [f"{FASTER}: {what_is_lost(found.goodput)}"]


def _initial_ages_notes(asked: SimpleGoodput) -> list[str]:
    if asked.failure_shape == 1.0:
        return []
    said = (
        "nodes have mixed ages at the start of the job (steady state); use a fleet file with"
        ' ages = "new" or an age to change this'
    )
    return [said]


def _optimum_notes(asked: SimpleGoodput, best_s: float | None) -> list[str]:
    """Return the basis of the optimal interval."""
    if not asked.checkpoint_write_s:
        return []
    if asked.failure_shape == 1.0:
        return ["the optimal interval is that of memoryless failures"]
    if best_s is None:
        return [
            "work between checkpoints: no optimum was found, that of memoryless failures is used"
        ]
    return ["the optimal interval is the best found by simulating several with the same failures"]


def _interval(asked: SimpleGoodput, told: Interruptions) -> tuple[float, float | None]:
    """Return the interval used and the optimum [s]."""
    if not asked.checkpoint_write_s:
        if asked.checkpoint_interval_s is None:
            raise InvalidSpecError(
                "checkpoint_write_s = 0: free checkpoints have no optimal interval; set"
                " checkpoint_interval_s"
            )
        return asked.checkpoint_interval_s, None
    likely_s = float(optimal_interval_s(asked.checkpoint_write_s, told.mtti_s))
    best_s: float | None = likely_s
    if asked.failure_shape != 1.0:
        job, strategy = _posed(asked, told.mtti_s, likely_s)
        best_s, _ = chosen_interval_s(job, strategy, asked.seed)
    return asked.checkpoint_interval_s or best_s or likely_s, best_s


def run(asked: SimpleGoodput, mtti_s: float, interval_s: float) -> Outcome:
    """Return enough replicas of the job for the requested half-width.

    Args:
        asked: The fields.
        mtti_s: Mean time between interruptions [s].
        interval_s: Work between checkpoints [s].

    Raises:
        InvalidSpecError: Too many failures to simulate, or ageing without gpus.
    """
    expected = asked.duration_s / mtti_s
    most = int(min(MOST_FAILURES / max(expected, 1.0), MOST_REPLICAS))
    if most < 2:
        raise InvalidSpecError(
            f"duration_s = {asked.duration_s:g} has {expected:.1e} failures, one every"
            f" {mtti_s:.3g} s: too many to simulate; shorten duration_s to"
            f" {MOST_FAILURES / 100 * mtti_s:.3g} or use method exact"
        )
    job, strategy = _posed(asked, mtti_s, interval_s)
    return simulate_until(
        job, strategy, half_width=asked.half_width, most_replicas=most, seed=asked.seed
    )


def _posed(asked: SimpleGoodput, mtti_s: float, interval_s: float) -> tuple[Job, Strategy]:
    nodes = nodes_of(asked) if asked.gpus is not None else 1
    if nodes == 1 and asked.gpus is None and (asked.failure_shape != 1.0 or asked.spares):
        nodes = nodes_of(asked)  # raises: gpus is missing
    strategy = Strategy(
        interval_s=interval_s,
        levels=(Level(write_s=asked.checkpoint_write_s),),
        restarts=(Restart(name="restart", phases={"restart": asked.restart_s}),),
        spares=Spares(count=asked.spares),
    )
    job = Job(fleet=_fleet(asked, mtti_s, nodes), units=nodes, horizon_s=asked.duration_s)
    return job, strategy


def _fleet(asked: SimpleGoodput, mtti_s: float, nodes: int) -> Fleet:
    ageless = asked.failure_shape == 1.0
    lifetime: Law = Exponential(mean_s=mtti_s * nodes)
    if not ageless:
        lifetime = weibull_of_mean(mtti_s * nodes, asked.failure_shape)
    cause = Cause(
        name="node",
        lifetime=lifetime,
        per_unit=1.0,
        takes="nothing" if asked.spares is None else "unit",
        ages="new" if ageless else "mixed",
        detection=Constant(value_s=asked.detection_s),
    )
    if asked.spares is not None and asked.repair_s is None:
        raise InvalidSpecError(
            f"spares = {asked.spares}: set repair_s, the repair time of a node, such as 86400"
        )
    stage = RepairStage(name="repair", lasts=Exponential(mean_s=asked.repair_s or 1.0))
    return Fleet(
        units=nodes + (asked.spares or 0),
        causes=(cause,),
        repairs=(Repair(name="repair", stages=(stage,)),),
        gpus_per_unit=asked.gpus_per_node,
    )
