"""The simple form of `goodput` by simulation, where no closed form applies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.answer import Answer, Evidence
from perfatlas.quantities import DAY_S, InvalidSpecError, counted, significant
from perfatlas.reliability.fleet import laws, model
from perfatlas.reliability.fleet.closed_form import FASTER, optimal_interval_s, what_is_lost
from perfatlas.reliability.fleet.simulator import chosen_interval_s, exact_sum, simulate_until
from perfatlas.scenario.interrupted_jobs.interruptions import (
    bucket_rows,
    frequency,
    half_width_text,
    lost_hours,
    nodes_of,
    simple_assumptions,
)

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.simulator import JobOutcome
    from perfatlas.scenario.interrupted_jobs.interruptions import Interruptions
    from perfatlas.scenario.interrupted_jobs.job_fields import SimpleGoodput

MAX_FAILURES: Final = 150_000_000  # total of all replicas; about a minute
MAX_REPLICAS: Final = 100_000


def simulated_goodput(inputs: SimpleGoodput, interruptions: Interruptions, beyond: str) -> Answer:
    """Return the goodput of the simple form by simulated replicas.

    Args:
        beyond: Why no closed form applies, "" for method simulate.

    Raises:
        InvalidSpecError: Ageing or spares without gpus, or too many failures to simulate.
    """
    interval_s, best_s = _interval(inputs, interruptions)
    middle = run(inputs, interruptions.mtti_s, interval_s)
    ends = {}
    for end, mtti_s in (("low", interruptions.low_s), ("high", interruptions.high_s)):
        found = middle if mtti_s is None else run(inputs, mtti_s, interval_s)
        sign = -1.0 if end == "low" else 1.0
        value = found.goodput + sign * model.NARROWER * found.half_width
        value -= found.unsaved if end == "low" else 0.0  # it may still be lost
        ends[end] = min(max(value, 0.0), 1.0)
    ended_s = exact_sum(middle.ended_R) / laws.TICKS_PER_SECOND
    count = int(middle.column("interruptions").sum())
    results = {
        "goodput": middle.goodput,
        "goodput_low": ends["low"],
        "goodput_high": ends["high"],
        "checkpoint_interval_s": interval_s,
        "optimal_checkpoint_interval_s": best_s,
        **frequency(inputs, ended_s / count if count else float("inf"), interruptions),
        "method": "simulate",
        "replicas": middle.ticks_RF.shape[0],
        "seed": inputs.seed,
    }
    gpu_s = None if inputs.gpus is None else inputs.gpus * inputs.duration_s
    why = f"simulated: {beyond}" if beyond else "simulated, as requested"
    days = inputs.duration_s / DAY_S
    notes = f"{why}; {counted(results['replicas'], 'replica')} of {days:g} d, seed {inputs.seed}"
    notes += "; jobs with equal seeds meet the same failures (common random numbers)"
    return Answer(
        command="goodput",
        scenario={},
        results=results | lost_hours(inputs, middle.goodput),
        breakdown=bucket_rows(middle.shares(), gpu_s),
        evidence=Evidence(
            tier="simulate",
            assumptions=(
                notes,
                half_width_text(inputs.half_width, middle),
                *_optimum_notes(inputs, best_s),
                *_initial_ages_notes(inputs),
                *simple_assumptions(inputs, interruptions),
            ),
        ),
        warnings=(
            *middle.remarks(),
            *_lost_work_remarks(inputs, interruptions, middle),
        ),
    )


def _lost_work_remarks(
    inputs: SimpleGoodput, interruptions: Interruptions, found: JobOutcome
) -> list[str]:
    """Return a remark on an MTTI shorter than a restart."""
    if inputs.restart_s <= interruptions.mtti_s:
        return []
    return [f"{FASTER}: {what_is_lost(found.goodput)}"]


def _initial_ages_notes(inputs: SimpleGoodput) -> list[str]:
    if inputs.failure_shape == 1.0:
        return []
    notes = (
        "nodes have mixed ages at the start of the job (steady state); use a fleet file with"
        ' ages = "new" or an age to change this'
    )
    return [notes]


def _optimum_notes(inputs: SimpleGoodput, best_s: float | None) -> list[str]:
    """Return the basis of the optimal interval."""
    if not inputs.checkpoint_write_s:
        return []
    if inputs.failure_shape == 1.0:
        return ["the optimal interval is that of memoryless failures"]
    if best_s is None:
        return [
            "work between checkpoints: no optimum was found, that of memoryless failures is used"
        ]
    return ["the optimal interval is the best found by simulating several with the same failures"]


def _interval(inputs: SimpleGoodput, interruptions: Interruptions) -> tuple[float, float | None]:
    """Return the interval used and the optimum [s]."""
    if not inputs.checkpoint_write_s:
        if inputs.checkpoint_interval_s is None:
            raise InvalidSpecError(
                "checkpoint_write_s = 0: free checkpoints have no optimal interval; set"
                " checkpoint_interval_s"
            )
        return inputs.checkpoint_interval_s, None
    likely_s = float(optimal_interval_s(inputs.checkpoint_write_s, interruptions.mtti_s))
    best_s: float | None = likely_s
    if inputs.failure_shape != 1.0:
        job, strategy = _posed(inputs, interruptions.mtti_s, likely_s)
        best_s, _ = chosen_interval_s(job, strategy, inputs.seed)
    return inputs.checkpoint_interval_s or best_s or likely_s, best_s


def run(inputs: SimpleGoodput, mtti_s: float, interval_s: float) -> JobOutcome:
    """Return enough replicas of the job for the requested half-width."""
    expected = inputs.duration_s / mtti_s
    most = int(min(MAX_FAILURES / max(expected, 1.0), MAX_REPLICAS))
    if most < 2:
        raise InvalidSpecError(
            f"duration_s = {inputs.duration_s:g} has {expected:.1e} failures, one every"
            f" {significant(mtti_s)} s: too many to simulate; shorten duration_s to"
            f" {significant(MAX_FAILURES / 100 * mtti_s)} or use method exact"
        )
    job, strategy = _posed(inputs, mtti_s, interval_s)
    return simulate_until(
        job, strategy, half_width=inputs.half_width, most_replicas=most, seed=inputs.seed
    )


def _posed(
    inputs: SimpleGoodput, mtti_s: float, interval_s: float
) -> tuple[model.Job, model.Strategy]:
    nodes = nodes_of(inputs) if inputs.gpus is not None else 1
    if nodes == 1 and inputs.gpus is None and (inputs.failure_shape != 1.0 or inputs.spares):
        nodes = nodes_of(inputs)  # raises: gpus is missing
    strategy = model.Strategy(
        interval_s=interval_s,
        levels=(model.Level(write_s=inputs.checkpoint_write_s),),
        restarts=(model.Restart(name="restart", phases={"restart": inputs.restart_s}),),
        spares=model.Spares(count=inputs.spares),
    )
    job = model.Job(fleet=_fleet(inputs, mtti_s, nodes), units=nodes, horizon_s=inputs.duration_s)
    return job, strategy


def _fleet(inputs: SimpleGoodput, mtti_s: float, nodes: int) -> model.Fleet:
    ageless = inputs.failure_shape == 1.0
    lifetime: laws.Law = laws.Exponential(mean_s=mtti_s * nodes)
    if not ageless:
        lifetime = laws.weibull_of_mean(mtti_s * nodes, inputs.failure_shape)
    cause = model.Cause(
        name="node",
        lifetime=lifetime,
        per_unit=1.0,
        takes="nothing" if inputs.spares is None else "unit",
        ages="new" if ageless else "mixed",
        detection=laws.Constant(value_s=inputs.detection_s),
    )
    if inputs.spares is not None and inputs.repair_s is None:
        raise InvalidSpecError(
            f"spares = {inputs.spares}: set repair_s, the repair time of a node, such as 86400"
        )
    stage = model.RepairStage(name="repair", lasts=laws.Exponential(mean_s=inputs.repair_s or 1.0))
    return model.Fleet(
        units=nodes + (inputs.spares or 0),
        causes=(cause,),
        repairs=(model.Repair(name="repair", stages=(stage,)),),
        gpus_per_unit=inputs.gpus_per_node,
    )
