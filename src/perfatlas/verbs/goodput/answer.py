"""`goodput`: the productive share of a job's time between failures, by closed forms."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.answer import Answer, Evidence
from perfatlas.declarations import signature_of, verb_fields
from perfatlas.quantities import InvalidSpecError, significant
from perfatlas.reliability.fleet.closed_form import (
    daly_higher_order_s,
    linear_goodput,
    meta_ettr,
    optimal_interval_s,
    renewal_efficiency,
    saxena_availability,
    saxena_interval_s,
    young_interval_s,
)
from perfatlas.reliability.fleet.laws import Validity
from perfatlas.scenario.fields import complete_scenario, refuse_unused, unused_warnings
from perfatlas.verbs.goodput.energy import with_energy
from perfatlas.verbs.goodput.interruptions import (
    Interruptions,
    bucket_rows,
    frequency,
    interruptions_of,
    lost_hours,
    simple_assumptions,
)
from perfatlas.verbs.goodput.predicted_step import PredictedStep, predicted_step, with_training
from perfatlas.verbs.goodput.question import Goodput, SimpleGoodput
from perfatlas.verbs.goodput.seeds import over_seeds, seeds_of
from perfatlas.verbs.goodput.topology import of_system, topology_notes
from perfatlas.verbs.goodput.training_step import measured_step
from perfatlas.vocabulary.fields import Missing

if TYPE_CHECKING:
    from collections.abc import Callable


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
    refuse_unused(dict(whole), verb_fields("goodput"))
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
    scenario = complete_scenario(verb_fields("goodput"), whole, **decided)
    return with_training(replace(answer, evidence=evidence, scenario=scenario), predicted)


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
        from perfatlas.verbs.goodput.simulated import simulated_goodput

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


class _Form(NamedTuple):
    """A closed form.

    Args:
        interval: Its optimum from write, MTTI and restart [s].
        value: Its goodput from interval, write, restart, MTTI and detection [s].
        note: Its description.
    """

    interval: Callable[[float, float, float], Validity]
    value: Callable[[float, float, float, float, float], Validity]
    note: str


def _exact_interval(write_s: float, mtti_s: float, _: float) -> Validity:
    value = optimal_interval_s(write_s, mtti_s)
    return Validity(value, np.ones(value.shape, np.bool_), np.zeros(value.shape, "U1"))


_FORMS: Final[dict[str, _Form]] = {
    "exact": _Form(
        _exact_interval,
        renewal_efficiency,
        "exact renewal efficiency (Daly 2006): exponential failures, also during restart,"
        " constant times, unlimited spares, steady state",
    ),
    "young": _Form(
        lambda write_s, mtti_s, _: young_interval_s(write_s, mtti_s),
        lambda tau, write, restart, mtti, lag: linear_goodput(tau, write, restart + lag, mtti),
        "Young 1974: lost time to first order, 1 - write/interval - (restart + interval/2)/MTTI",
    ),
    "daly": _Form(
        lambda write_s, mtti_s, _: daly_higher_order_s(write_s, mtti_s),
        renewal_efficiency,
        "Daly 2006: his higher-order interval in his complete model",
    ),
    "saxena": _Form(
        saxena_interval_s,
        lambda tau, write, restart, mtti, lag: saxena_availability(tau, write, restart + lag, mtti),
        "Saxena et al., arXiv 2410.18124: availability to first order",
    ),
    "meta": _Form(
        lambda write_s, mtti_s, _: young_interval_s(write_s, mtti_s),
        lambda tau, write, restart, mtti, lag: meta_ettr(tau, write, restart + lag, mtti),
        "expected ETTR of arXiv 2410.21680 without queue time",
    ),
}


def _closed_form(inputs: SimpleGoodput, interruptions: Interruptions) -> Answer:
    method = "exact" if inputs.method == "auto" else inputs.method
    form = _FORMS[method]
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
        dict(inputs), verb_fields("goodput"), {"simulation": lambda: simulated}
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
        command="goodput",
        scenario={},
        results=results | lost_hours(inputs, results["goodput"]),
        breakdown=_buckets(inputs, interruptions, interval_s)
        if method in ("exact", "daly")
        else [],
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


def _cut_short_s(inputs: SimpleGoodput, mtti_s: float, interval_s: float) -> float:
    """Return the mean time in an interrupted write, per failure [s].

    Source: after a successful restart (e^(-R/M)) the time into a segment at the failure is a
        truncated exponential; its part beyond the work is the write.
    """
    write = inputs.checkpoint_write_s / mtti_s
    segment = (interval_s + inputs.checkpoint_write_s) / mtti_s
    into = -float(np.expm1(-write)) - write * float(np.exp(-write))
    reached = float(np.exp(-(inputs.restart_s + interval_s) / mtti_s))
    return mtti_s * reached * into / -float(np.expm1(-segment))


def _buckets(
    inputs: SimpleGoodput, interruptions: Interruptions, interval_s: float
) -> list[dict[str, Any]]:
    """Return the time by category, exact in steady state.

    Source: failures come once per MTTI and detection; each is followed by one attempt to restart,
        of mean M (1 - e^(-R/M)); one write per completed interval, and interrupted writes; the rest
        is lost.
    """
    mtti_s, cycle_s = interruptions.mtti_s, interruptions.mtti_s + inputs.detection_s
    productive = float(
        renewal_efficiency(
            interval_s, inputs.checkpoint_write_s, inputs.restart_s, mtti_s, inputs.detection_s
        ).value_C
    )
    shares = {
        "productive": productive,
        "checkpoint": productive * inputs.checkpoint_write_s / interval_s
        + _cut_short_s(inputs, mtti_s, interval_s) / cycle_s,
        "detection": inputs.detection_s / cycle_s,
        "restart": mtti_s * -float(np.expm1(-inputs.restart_s / mtti_s)) / cycle_s,
    }
    shares["lost_work"] = max(1.0 - sum(shares.values()), 0.0)
    return bucket_rows(shares, None if inputs.gpus is None else inputs.gpus * inputs.duration_s)
