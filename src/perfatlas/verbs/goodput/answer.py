"""`goodput`: the productive share of a job's time between failures, by closed forms."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.answer import Answer, Evidence
from perfatlas.declarations import signature_of, verb_fields
from perfatlas.quantities import InvalidSpecError, PerfatlasError, significant
from perfatlas.reliability.fleet.closed_form import (
    CLOSED_FORMS,
    renewal_efficiency,
    renewal_shares,
)
from perfatlas.scenario.fields import complete_scenario, refuse_unused, unused_warnings
from perfatlas.scenario.interrupted_jobs import (
    Goodput,
    Interruptions,
    PredictedStep,
    SimpleGoodput,
    bucket_rows,
    frequency,
    interruptions_of,
    lost_hours,
    measured_step,
    of_system,
    over_seeds,
    predicted_step,
    seeds_of,
    simple_assumptions,
    topology_notes,
    with_energy,
    with_training,
)
from perfatlas.verbs.goodput.metrics import COMMAND
from perfatlas.vocabulary.fields import Missing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.reliability.fleet.laws import Validity


MOST_SEEDS: Final = 1000  # of one row


@signature_of("goodput")
def goodput(**fields: Any) -> Answer:  # noqa: ANN401 - checked by schema
    """Return the goodput of a job and its checkpoint interval.

    Args:
        **fields: checkpoint_write_s, restart_s, and the rate of interruptions: mtti_s, or
            node_mtbf_s with gpus, or failure_rate (a published one) with gpus; and
            checkpoint_interval_s (default: the optimum), detection_s, method, duration_s, gpus,
            failures_seen, failure_shape, spares, repair_s, usd_per_gpu_hour. Instead of
            checkpoint_write_s: checkpoint_bytes_per_s with checkpoint_bytes, model or train. train
                is a file of a training step, tokens its budget. With fleet,
                the file or name of a fleet, all fields of `fleet_goodput`.

    Raises:
        InvalidSpecError: A name or value is invalid, or a closed form does not apply.
        InfeasibleError: The job is larger than the fleet.

    Example:
        >>> from perfatlas.verbs.goodput import goodput
        >>> found = goodput(mtti_s=7.9 * 3600, checkpoint_write_s=60, restart_s=300)
        >>> print(f"{found.results['goodput']:.4f}")
        0.9266
    """
    if fields.get("fleet") is not None:
        from perfatlas.verbs.goodput.fleet_answer import fleet_goodput

        return fleet_goodput(**fields).answer
    predicted, fields = predicted_step(fields)
    whole = Goodput.read(fields)
    facts = measured_step(whole)
    refuse_unused(dict(whole), verb_fields(COMMAND))
    derived: dict[str, Any] = {"detection_s": whole.detection_s or 0.0} | of_system(whole)
    if facts.write_s is not None:
        derived["checkpoint_write_s"] = facts.write_s
    inputs = _not_before_saved(SimpleGoodput.read({**fields, **derived}), predicted)
    seeds = seeds_of(inputs) if is_simulated(inputs) else [inputs.seed]
    seeded = (inputs.model_copy(update={"seed": seed}) for seed in seeds)
    answer = over_seeds([with_energy(_answered(one), one) for one in seeded])
    decided = {"method": answer.results["method"], "detection_s": inputs.detection_s}
    decided["gpus_per_node"] = inputs.gpus_per_node
    if answer.results["method"] == "simulate":
        decided["seed"] = inputs.seed
        decided["num_seeds"] = inputs.num_seeds
    notes = (*answer.evidence.assumptions, *facts.notes, *topology_notes(whole))
    evidence = replace(answer.evidence, assumptions=notes)
    scenario = complete_scenario(verb_fields(COMMAND), whole, **decided)
    return with_training(replace(answer, evidence=evidence, scenario=scenario), predicted)


def goodput_row(number: int, fields: Mapping[str, Any]) -> Answer:
    """Return the answer of a row; a simulated one without a seed has its number as seed.

    Rows are then independent, also with several seeds each. Rows with the same seed, set by a
    column or for all rows, meet the same failures.

    Args:
        number: The row, from 0.
        fields: Its fields, without empty cells.

    Raises:
        PerfatlasError: The row cannot be answered.
    """
    if "seed" in fields:
        return goodput(**fields)
    try:
        inputs = Goodput.read(fields)
    except PerfatlasError:
        return goodput(**fields)  # raises the same error
    if not is_simulated(inputs):
        return goodput(**fields)
    first = number if inputs.num_seeds == 1 else (1 + number) * MOST_SEEDS
    return goodput(**fields, seed=first)


def _not_before_saved(inputs: SimpleGoodput, predicted: PredictedStep | None) -> SimpleGoodput:
    """Return a job whose checkpoints begin when storage has the one before.

    Args:
        predicted: Its training step, which may say how long storage takes.

    Raises:
        InvalidSpecError: The given interval is shorter.
    """
    least_s = 0.0 if predicted is None else predicted.least_interval_s
    given_s = inputs.checkpoint_interval_s
    if given_s is not None and given_s < least_s:
        raise InvalidSpecError(
            f"checkpoint_interval_s = {given_s:g} is shorter than the {significant(least_s, 4)} s"
            " in which"
            " storage takes a checkpoint; raise it, or checkpoint_bytes_per_s of train"
        )
    if given_s is not None or least_s == 0.0 or is_simulated(inputs):
        return inputs
    best_s = _answered(inputs).results["optimal_checkpoint_interval_s"]
    if best_s is None or best_s >= least_s:
        return inputs
    return inputs.model_copy(update={"checkpoint_interval_s": least_s})


def is_simulated(inputs: Goodput) -> bool:
    """Return whether a job is simulated rather than answered by a closed form."""
    if inputs.fleet is not None or inputs.method == "simulate":
        return True
    return inputs.method == "auto" and bool(_beyond_closed_forms(inputs))


def _answered(inputs: SimpleGoodput) -> Answer:
    """Return the answer of the simple form, without its scenario."""
    interruptions = interruptions_of(inputs)
    beyond = _beyond_closed_forms(inputs)
    if is_simulated(inputs):
        from perfatlas.scenario.interrupted_jobs import simulated_goodput

        return simulated_goodput(inputs, interruptions, beyond)
    if beyond:
        raise InvalidSpecError(
            f"method = {inputs.method} is not valid here: {beyond}; use method simulate, or auto,"
            " which switches to the simulator automatically"
        )
    return _closed_form(inputs, interruptions)


def _beyond_closed_forms(inputs: Goodput) -> str:
    """Return the feature that no closed form covers, "" where all are covered."""
    if inputs.failure_shape != 1.0:
        return (
            f"failure_shape = {inputs.failure_shape:g}: nodes age, and failures are not memoryless"
        )
    if inputs.spares is not None:
        return f"spares = {inputs.spares}: the job may wait for a repair"
    return ""


def _closed_form(inputs: SimpleGoodput, interruptions: Interruptions) -> Answer:
    method = "exact" if inputs.method == "auto" else inputs.method
    form = CLOSED_FORMS[method]
    write_s, restart_s = inputs.checkpoint_write_s, inputs.restart_s
    best = form.interval(write_s, interruptions.mtti_s, restart_s) if write_s > 0.0 else None
    interval_s = inputs.checkpoint_interval_s
    warnings = []
    if interval_s is None:
        if best is None:
            raise InvalidSpecError(
                "checkpoint_write_s = 0: free checkpoints have no optimal interval; set"
                " checkpoint_interval_s"
            )
        interval_s = float(best.value_C)
        warnings.append(f"the interval of {method} {best.reason_C}" if str(best.reason_C) else "")

    def value(mtti_s: float | None) -> Validity | None:
        if mtti_s is None:
            return None
        return form.value(interval_s, write_s, restart_s, mtti_s, inputs.detection_s)

    middle = form.value(interval_s, write_s, restart_s, interruptions.mtti_s, inputs.detection_s)
    low, high = value(interruptions.low_s), value(interruptions.high_s)
    warnings += [str(middle.reason_C), *_instead(method, middle, inputs, interruptions, interval_s)]
    simulated = Missing("a closed form is used", "set method = simulate")
    warnings += unused_warnings(
        dict(inputs), verb_fields(COMMAND), {"simulation": lambda: simulated}
    )
    results = {
        "goodput": float(middle.value_C),
        "goodput_low": None if low is None else float(low.value_C),
        "goodput_high": None if high is None else float(high.value_C),
        "checkpoint_interval_s": interval_s,
        "optimal_checkpoint_interval_s": None if best is None else float(best.value_C),
        **frequency(inputs, interruptions.mtti_s + inputs.detection_s, interruptions),
        "method": method,
    }
    return Answer(
        command=COMMAND,
        scenario={},
        results=results | lost_hours(inputs, results["goodput"]),
        breakdown=_buckets(inputs, interruptions, interval_s) if form.renewal else [],
        evidence=Evidence(
            tier=method, assumptions=(form.note, *simple_assumptions(inputs, interruptions))
        ),
        warnings=tuple(text for text in dict.fromkeys(warnings) if text),
    )


def _instead(
    method: str,
    found: Validity,
    inputs: SimpleGoodput,
    interruptions: Interruptions,
    interval_s: float,
) -> list[str]:
    """Return the result of the exact form where an estimate is not valid."""
    if bool(found.valid_C):
        return []
    exact = renewal_efficiency(
        interval_s,
        inputs.checkpoint_write_s,
        inputs.restart_s,
        interruptions.mtti_s,
        inputs.detection_s,
    )
    return [f"method {method} is not valid here; method exact gives {float(exact.value_C):.3g}"]


def _buckets(
    inputs: SimpleGoodput, interruptions: Interruptions, interval_s: float
) -> list[dict[str, Any]]:
    """Return the time by category as rows."""
    shares = renewal_shares(
        interval_s,
        inputs.checkpoint_write_s,
        inputs.restart_s,
        interruptions.mtti_s,
        inputs.detection_s,
    )
    return bucket_rows(shares, None if inputs.gpus is None else inputs.gpus * inputs.duration_s)
