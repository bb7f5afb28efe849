"""`goodput stragglers`: what a synchronous step loses by waiting for the slowest of many GPUs."""

from __future__ import annotations

from typing import Any, Final

from perfatlas.answer import Answer, Evidence
from perfatlas.fleet.closed_form import largest_normal, slowest_step
from perfatlas.quantities import InvalidSpecError, counted
from perfatlas.verbs.goodput.question import Stragglers
from perfatlas.verbs.goodput.unused_options import idle_stragglers
from perfatlas.vocabulary.fields import signature_of

LARGEST: Final = 2.0  # slowdown at which the fastest GPU of a normal law would take no time


@signature_of("goodput stragglers")
def goodput_stragglers(**fields: Any) -> Answer:  # noqa: ANN401 - checked by schema
    """Return how much longer a step takes because all wait for the slowest.

    Args:
        **fields: gpus (that wait for one another), persistent_cv (standard deviation between GPUs
            that lasts, over the mean step), transient_cv (of one GPU from step to step, over the
            mean step), synchronisations (in a step, after each of which all wait; default: 1) and
            step_time_s (of an average GPU).

    Raises:
        InvalidSpecError: A name or value breaks a rule, or no GPU differs from another.

    Source: expected maximum of normals (`slowest_step`).

    Example:
        >>> from perfatlas.verbs.goodput import goodput_stragglers
        >>> found = goodput_stragglers(gpus=16384, persistent_cv=0.01).results
        >>> print(f"{found['step_slowdown']:.4f}")  # 3.971 standard deviations
        1.0397
    """
    asked = Stragglers.read(fields)
    if not asked.persistent_cv and not asked.transient_cv:
        raise InvalidSpecError(
            "no GPU differs from another: give persistent_cv (GPUs that are always slower),"
            " transient_cv (each is slower at times), or both, such as 0.01"
        )
    found = slowest_step(
        1.0, asked.persistent_cv, asked.transient_cv, asked.gpus, asked.synchronisations
    )
    slowdown = float(found.step_s)
    shares = {
        "productive": 1.0 / slowdown,
        "persistent": float(found.persistent_s) / slowdown,
        "transient": float(found.transient_s) / slowdown,
    }
    mean_s = asked.step_time_s
    results: dict[str, Any] = {
        "step_slowdown": slowdown,
        "waiting_share": 1.0 - shares["productive"],
        "slowest_step_time_s": None if mean_s is None else mean_s * slowdown,
        "slowest_deviations": float(largest_normal(asked.gpus)),
    }
    return Answer(
        command="goodput stragglers",
        scenario={name: value for name, value in fields.items() if value not in (None, "")},
        results=results,
        breakdown=[{"name": name, "share": share} for name, share in shares.items() if share],
        evidence=Evidence(tier="order_statistics", assumptions=_said(asked)),
        warnings=(*_warnings(slowdown), *idle_stragglers(asked)),
    )


def _said(asked: Stragglers) -> tuple[str, ...]:
    waits = "once a step" if asked.synchronisations == 1 else f"{asked.synchronisations:,} times"
    noise = (
        f"the slowest of {counted(asked.gpus, 'GPU')} is waited for {waits}, after equal pieces of"
        " the step; what a GPU takes is normal, independent of the others and from one piece to"
        " the next"
    )
    beyond = (
        "not valid where a few GPUs are far slower than a normal law says: a slow spell is a cause"
        ' with effect = "slows" of a fleet, which goodput simulates'
    )
    return (noise, beyond)


def _warnings(slowdown: float) -> tuple[str, ...]:
    if slowdown < LARGEST:
        return ()
    wide = (
        "not valid here: with so much spread the fastest GPU of a normal law takes less than no"
        " time; simulate slow spells as causes of a fleet"
    )
    return (wide,)
