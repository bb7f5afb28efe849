"""`goodput`: the productive share of a job's time between failures, by closed forms."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.answer import Answer, Evidence
from perfatlas.fleet.closed_form import (
    daly_higher_order_s,
    linear_goodput,
    meta_ettr,
    optimal_interval_s,
    renewal_efficiency,
    saxena_availability,
    saxena_interval_s,
    young_interval_s,
)
from perfatlas.fleet.laws import Judged
from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.fields import refuse_unused
from perfatlas.verbs.goodput.interruptions import (
    Interruptions,
    bucket_rows,
    frequency,
    interruptions_of,
    lost_hours,
    standing,
)
from perfatlas.verbs.goodput.question import Goodput, SimpleGoodput
from perfatlas.verbs.goodput.training_step import measured_step
from perfatlas.verbs.goodput.unused_options import idle_simple
from perfatlas.vocabulary.fields import signature_of, verb_fields

if TYPE_CHECKING:
    from collections.abc import Callable


@signature_of("goodput")
def goodput(**fields: Any) -> Answer:  # noqa: ANN401 - checked by schema
    """Return the productive share of a job's time, and the interval between its checkpoints.

    Args:
        **fields: checkpoint_write_s, restart_s, and how often the job is interrupted: mtti_s, or
            node_mtbf_s with gpus, or failure_rate (a published one) with gpus; and
            checkpoint_interval_s (default: the optimum), detection_s, method, duration_s, gpus,
            failures_seen, failure_shape, spares, repair_s, usd_per_gpu_hour. In place of
            checkpoint_write_s: checkpoint_bytes_per_s with checkpoint_bytes or model. With fleet,
            the file or name of a fleet, everything else of `fleet_goodput`.

    Raises:
        InvalidSpecError: A name or value breaks a rule, or a closed form is asked for what it
            does not describe.
        InfeasibleError: The job is larger than the fleet.

    Example:
        >>> from perfatlas.verbs.goodput import goodput
        >>> found = goodput(mtti_s=7.9 * 3600, checkpoint_write_s=60, restart_s=300)
        >>> print(f"{found.results['goodput']:.4f}")
        0.9266
    """
    whole = Goodput.read(fields)
    if whole.fleet is not None:
        from perfatlas.verbs.goodput.fleet_answer import fleet_goodput

        return fleet_goodput(**fields).answer
    facts = measured_step(whole)
    refuse_unused(dict(whole), verb_fields("goodput"))
    derived: dict[str, Any] = {"detection_s": whole.detection_s or 0.0}
    if facts.write_s is not None:
        derived["checkpoint_write_s"] = facts.write_s
    asked = SimpleGoodput.read({**fields, **derived})
    answer = _answered(asked, {k: v for k, v in fields.items() if v not in (None, "")})
    evidence = replace(answer.evidence, assumptions=(*answer.evidence.assumptions, *facts.said))
    return replace(answer, evidence=evidence)


def _answered(asked: SimpleGoodput, given: dict[str, Any]) -> Answer:
    """Return the answer of the simple form.

    Args:
        asked: The fields.
        given: As asked, for the envelope.
    """
    told = interruptions_of(asked)
    beyond = _beyond_closed_forms(asked)
    if asked.method == "simulate" or (asked.method == "auto" and beyond):
        from perfatlas.verbs.goodput.simulated import simulated_goodput

        return simulated_goodput(asked, told, given, beyond)
    if beyond:
        raise InvalidSpecError(
            f"method = {asked.method} stops being valid here: {beyond}; use method simulate, or"
            " auto, which hands over to the simulator by itself"
        )
    return _closed_form(asked, told, given)


def _beyond_closed_forms(asked: SimpleGoodput) -> str:
    """Return what no closed form here describes, "" where all is described."""
    if asked.failure_shape != 1.0:
        return f"failure_shape = {asked.failure_shape:g}: nodes age, and failures have memory"
    if asked.spares is not None:
        return f"spares = {asked.spares}: the job may wait for a repair"
    return ""


class _Form(NamedTuple):
    """A closed form.

    Args:
        interval: Its optimum from write, MTTI and restart [s].
        value: Its goodput from interval, write, restart, MTTI and detection [s].
        said: What it is.
    """

    interval: Callable[[float, float, float], Judged]
    value: Callable[[float, float, float, float, float], Judged]
    said: str


def _exact_interval(write_s: float, mtti_s: float, _: float) -> Judged:
    value = optimal_interval_s(write_s, mtti_s)
    return Judged(value, np.ones(value.shape, np.bool_), np.zeros(value.shape, "U1"))


_FORMS: Final[dict[str, _Form]] = {
    "exact": _Form(
        _exact_interval,
        renewal_efficiency,
        "exact renewal efficiency (Daly 2006): memoryless failures that also strike in a restart,"
        " constant times, spares never missing, long run",
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


def _closed_form(asked: SimpleGoodput, told: Interruptions, given: dict[str, Any]) -> Answer:
    method = "exact" if asked.method == "auto" else asked.method
    form = _FORMS[method]
    write_s, restart_s = asked.checkpoint_write_s, asked.restart_s
    best = form.interval(write_s, told.mtti_s, restart_s) if write_s > 0.0 else None
    interval_s = asked.checkpoint_interval_s
    warnings = []
    if interval_s is None:
        if best is None:
            raise InvalidSpecError(
                "checkpoint_write_s = 0: free checkpoints have no optimal interval; give"
                " checkpoint_interval_s"
            )
        interval_s = float(best.value_C)
        warnings.append(f"the interval of {method} {best.reason_C}" if str(best.reason_C) else "")

    def value(mtti_s: float | None) -> Judged | None:
        if mtti_s is None:
            return None
        return form.value(interval_s, write_s, restart_s, mtti_s, asked.detection_s)

    middle = form.value(interval_s, write_s, restart_s, told.mtti_s, asked.detection_s)
    low, high = value(told.low_s), value(told.high_s)
    warnings += [str(middle.reason_C), *_instead(method, middle, asked, told, interval_s)]
    warnings += idle_simple(asked)
    results = {
        "goodput": float(middle.value_C),
        "goodput_low": None if low is None else float(low.value_C),
        "goodput_high": None if high is None else float(high.value_C),
        "checkpoint_interval_s": interval_s,
        "optimal_checkpoint_interval_s": None if best is None else float(best.value_C),
        **frequency(asked, told.mtti_s + asked.detection_s, told),
        "method": method,
    }
    return Answer(
        command="goodput",
        scenario=given,
        results=results | lost_hours(asked, results["goodput"]),
        breakdown=_buckets(asked, told, interval_s) if method in ("exact", "daly") else [],
        evidence=Evidence(tier=method, assumptions=(form.said, *standing(asked, told))),
        warnings=tuple(text for text in dict.fromkeys(warnings) if text),
    )


def _instead(
    method: str, found: Judged, asked: SimpleGoodput, told: Interruptions, interval_s: float
) -> list[str]:
    """Return what the exact form answers where an estimate is not valid."""
    if bool(found.valid_C):
        return []
    exact = renewal_efficiency(
        interval_s, asked.checkpoint_write_s, asked.restart_s, told.mtti_s, asked.detection_s
    )
    return [f"method {method} is not valid here; method exact answers {float(exact.value_C):.3g}"]


def _cut_short_s(asked: SimpleGoodput, mtti_s: float, interval_s: float) -> float:
    """Return the mean time in the write that a failure cuts short, per failure [s].

    Source: after a restart that lasts (e^(-R/M)) the time into a segment at the failure is an
        exponential one cut off at its length; what of it exceeds the work is the write.
    """
    write = asked.checkpoint_write_s / mtti_s
    segment = (interval_s + asked.checkpoint_write_s) / mtti_s
    into = -float(np.expm1(-write)) - write * float(np.exp(-write))
    reached = float(np.exp(-(asked.restart_s + interval_s) / mtti_s))
    return mtti_s * reached * into / -float(np.expm1(-segment))


def _buckets(asked: SimpleGoodput, told: Interruptions, interval_s: float) -> list[dict[str, Any]]:
    """Return where the time goes, exact in the long run.

    Source: failures come once per MTTI and detection; each is followed by one attempt to restart,
        of mean M (1 - e^(-R/M)); a write per interval that lasts, and the part of a write that a
        failure cuts short; what is left was lost.
    """
    mtti_s, cycle_s = told.mtti_s, told.mtti_s + asked.detection_s
    productive = float(
        renewal_efficiency(
            interval_s, asked.checkpoint_write_s, asked.restart_s, mtti_s, asked.detection_s
        ).value_C
    )
    shares = {
        "productive": productive,
        "checkpoint": productive * asked.checkpoint_write_s / interval_s
        + _cut_short_s(asked, mtti_s, interval_s) / cycle_s,
        "detection": asked.detection_s / cycle_s,
        "restart": mtti_s * -float(np.expm1(-asked.restart_s / mtti_s)) / cycle_s,
    }
    shares["lost_work"] = max(1.0 - sum(shares.values()), 0.0)
    return bucket_rows(shares, None if asked.gpus is None else asked.gpus * asked.duration_s)
