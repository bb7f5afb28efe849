"""`goodput` of a job on a fleet, by simulation: interval, time by category, factors, cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from perfatlas.answer import Answer, AnsweredRun, Evidence
from perfatlas.declarations import verb_fields
from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.fleet.closed_form import (
    expected_goodput,
    restart_remark,
)
from perfatlas.reliability.fleet.laws import TICKS_PER_SECOND, Constant
from perfatlas.reliability.fleet.model import rate_interval
from perfatlas.reliability.fleet.simulator import (
    Outcome,
    exact_sum,
    simulate_until,
)
from perfatlas.scenario.fields import complete_scenario
from perfatlas.scenario.interrupted_jobs import (
    FleetGoodput,
    FleetJob,
    Gains,
    bucket_rows,
    check_date,
    closed_form_text,
    deadline_probability,
    deadline_remarks,
    ended_shares,
    fleet_assumptions,
    fleet_job,
    fleet_remarks,
    fleet_results,
    goodput_ends,
    measured_step,
    most_replicas,
    over_seeds,
    predicted_step,
    seeds_of,
    single_changes,
    with_energy,
    with_training,
)

if TYPE_CHECKING:
    from perfatlas.scenario.interrupted_jobs import StepFacts


@dataclass(frozen=True, kw_only=True)
class FleetRun(AnsweredRun):
    """An answer and its replicas.

    Args:
        answer: The envelope.
        outcome: Results of every replica; of several seeds, those of the first.
    """

    outcome: Outcome

    def _beside(self) -> dict[str, Any]:
        return {"columns": self.per_replica()}

    def per_replica(self) -> dict[str, list[float]]:
        """Return goodput and time until the end of every replica, as columns."""
        return {
            "goodput": self.outcome.goodput_R.tolist(),
            "ended_s": (self.outcome.ended_R / TICKS_PER_SECOND).tolist(),
        }


def fleet_goodput(**fields: Any) -> FleetRun:  # noqa: ANN401 - checked by schema
    """Return the simulated goodput of a job on a fleet.

    Args:
        **fields: fleet (a file, llama3 or rsc1), and strategy (one of that file, or of
            strategy_file; the first by default) or checkpoint_write_s and restart_s; gpus and
            spares (default: the whole fleet, and its ratio of spares), fleet_units (overrides the
            file), checkpoint_interval_s, checkpoint_lag_s (time until durable), detection_s
            (overrides the fleet), spare_kind, spare_start_s, fewest_gpus and replica_gpus (elastic
            operation), duration_s or work_s (work to complete) with finish_by_s (deadline), mfu or
            a measured step (`measured_step`), scheduling (share of the time the job is scheduled),
            usd_per_gpu_hour, what_if, more_spares, half_width, seed, num_seeds.

    Raises:
        InvalidSpecError: A name or value is invalid.
        InfeasibleError: The job is larger than the fleet.
    """
    predicted, fields = predicted_step(fields)
    inputs = whole = FleetGoodput.read(fields)
    facts = measured_step(inputs)
    if facts.write_s is not None:
        inputs = inputs.model_copy(update={"checkpoint_write_s": facts.write_s})
    if inputs.what_if and inputs.work_s is not None:
        raise InvalidSpecError("what_if requires duration_s and cannot be combined with work_s")
    ready = fleet_job(inputs, facts.checkpoint_bytes)
    check_date(inputs, ready)
    if (mfu := facts.mfu(ready.gpus)) is not None:
        inputs = inputs.model_copy(update={"mfu": mfu})
    runs = [
        _run(inputs.model_copy(update={"seed": seed}), ready, facts) for seed in seeds_of(inputs)
    ]
    answer = over_seeds([run.answer for run in runs])
    answer = with_training(replace(answer, scenario=decided_fields(whole, ready)), predicted)
    return FleetRun(answer=answer, outcome=runs[0].outcome)


def _run(inputs: FleetGoodput, ready: FleetJob, facts: StepFacts) -> FleetRun:
    """Return the answer of one seed, without the scenario."""
    outcome = simulate_until(
        ready.job,
        ready.strategy,
        half_width=inputs.half_width,
        most_replicas=most_replicas(ready),
        seed=inputs.seed,
    )
    answer = with_energy(_answer(inputs, ready, outcome, facts), inputs)
    return FleetRun(answer=answer, outcome=outcome)


def decided_fields(inputs: FleetGoodput, ready: FleetJob) -> dict[str, Any]:
    """Return the scenario with the fields that the fleet and the strategy decide.

    With what_if, other strategies have their own spares, unless they were given: then they are not
    one number, and None.
    """
    standing = ready.strategy.spares
    spares = {
        "spares": standing.count,
        "spare_kind": standing.kind,
        "spare_start_s": standing.start.value_s if isinstance(standing.start, Constant) else None,
    }
    if inputs.what_if:
        given = inputs.model_fields_set
        spares = {name: value if name in given else None for name, value in spares.items()}
    decided = spares | {
        "gpus": ready.gpus,
        "fleet_units": ready.job.fleet.units,
        "strategy": ready.strategy.name if ready.strategy_is_named else None,
        "seed": inputs.seed,
        "method": "simulate",
    }
    return complete_scenario(verb_fields("goodput"), inputs, **decided)


def _answer(inputs: FleetGoodput, ready: FleetJob, outcome: Outcome, facts: StepFacts) -> Answer:
    """Return the envelope of an answer, without the scenario."""
    rates = rate_interval(ready.job.fleet, ready.job.units, inputs.fleet)
    expected = expected_goodput(ready.job.fleet, ready.job.units, ready.strategy)
    results = fleet_results(inputs, ready, outcome) | goodput_ends(
        inputs, ready, outcome, rates.share
    )
    results["closed_form_goodput"] = expected.goodput
    results["checkpoint_bytes"] = facts.checkpoint_bytes
    results |= deadline_probability(inputs, ready)
    gains = Gains([], [])
    if inputs.what_if:
        gains = single_changes(inputs, ready, outcome)
        results["changes"] = gains.rows
    held_s = ready.gpus * exact_sum(outcome.ended_R) / outcome.ticks_RF.shape[0] / TICKS_PER_SECOND
    return Answer(
        command="goodput",
        scenario={},
        results=results,
        breakdown=bucket_rows(ended_shares(outcome), held_s),
        evidence=Evidence(
            tier="simulate",
            assumptions=(
                *fleet_assumptions(inputs, ready, outcome),
                *gains.text(),
                *facts.notes,
                closed_form_text(expected, outcome),
                rates.text(),
            ),
        ),
        warnings=(
            *outcome.remarks(),
            *filter(None, [restart_remark(ready.strategy, results["mtti_s"], outcome.goodput)]),
            *fleet_remarks(inputs, ready),
            *deadline_remarks(results),
        ),
    )
