"""`goodput stragglers`: slowdown of a synchronous step by the slowest of many GPUs."""

from __future__ import annotations

from typing import Any, Final

from perfatlas.answer import Answer, Evidence
from perfatlas.declarations import signature_of, verb_fields
from perfatlas.quantities import InvalidSpecError, counted
from perfatlas.reliability.fleet.closed_form import largest_normal, slowest_step
from perfatlas.scenario.fields import complete_scenario
from perfatlas.verbs.goodput.question import Stragglers
from perfatlas.verbs.goodput.unused_options import unused_straggler_options

LARGEST: Final = (
    2.0  # slowdown at which the fastest GPU of a normal distribution would take no time
)


@signature_of("goodput stragglers")
def goodput_stragglers(**fields: Any) -> Answer:  # noqa: ANN401 - checked by schema
    """Return the slowdown of a step in which all GPUs wait for the slowest.

    Args:
        **fields: gpus (that synchronise), persistent_cv (persistent standard deviation between
            GPUs, over the mean step), transient_cv (of one GPU between steps, over the mean step),
            synchronisations (per step; default: 1) and step_time_s (of an average GPU).

    Raises:
        InvalidSpecError: A name or value is invalid, or there is no variation between GPUs.

    Source: expected maximum of normals (`slowest_step`).

    Example:
        >>> from perfatlas.verbs.goodput import goodput_stragglers
        >>> found = goodput_stragglers(gpus=16384, persistent_cv=0.01).results
        >>> print(f"{found['step_slowdown']:.4f}")  # 3.971 standard deviations
        1.0397
    """
    inputs = Stragglers.read(fields)
    if not inputs.persistent_cv and not inputs.transient_cv:
        raise InvalidSpecError(
            "no variation between GPUs: set persistent_cv (always slower GPUs), transient_cv"
            " (temporarily slower GPUs), or both, such as 0.01"
        )
    found = slowest_step(
        1.0, inputs.persistent_cv, inputs.transient_cv, inputs.gpus, inputs.synchronisations
    )
    slowdown = float(found.step_s)
    shares = {
        "productive": 1.0 / slowdown,
        "persistent": float(found.persistent_s) / slowdown,
        "transient": float(found.transient_s) / slowdown,
    }
    mean_s = inputs.step_time_s
    results: dict[str, Any] = {
        "step_slowdown": slowdown,
        "waiting_share": 1.0 - shares["productive"],
        "slowest_step_time_s": None if mean_s is None else mean_s * slowdown,
        "slowest_deviations": float(largest_normal(inputs.gpus)),
    }
    return Answer(
        command="goodput stragglers",
        scenario=complete_scenario(verb_fields("goodput stragglers"), inputs),
        results=results,
        breakdown=[{"name": name, "share": share} for name, share in shares.items() if share],
        evidence=Evidence(tier="order_statistics", assumptions=_assumptions(inputs)),
        warnings=(*_warnings(slowdown), *unused_straggler_options(inputs)),
    )


def _assumptions(inputs: Stragglers) -> tuple[str, ...]:
    waits = (
        "once per step" if inputs.synchronisations == 1 else f"{inputs.synchronisations:,} times"
    )
    noise = (
        f"{counted(inputs.gpus, 'GPU')} synchronise {waits}, after equal parts of the step; times"
        " are normal and independent between GPUs and between parts"
    )
    beyond = (
        "not valid where a few GPUs are far slower than a normal distribution predicts: model them"
        ' as a fleet cause with effect = "slows", which goodput simulates'
    )
    return (noise, beyond)


def _warnings(slowdown: float) -> tuple[str, ...]:
    if slowdown < LARGEST:
        return ()
    wide = (
        "not valid here: with this spread the normal distribution has negative times; simulate"
        " slowdowns as causes of a fleet"
    )
    return (wide,)
