"""Remarks on options whose other values give the same run, found by running it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.quantities import PerfatlasError
from perfatlas.scenario.deployments import reseeded, resolve_traffic, run_traffic, service
from perfatlas.serving.config import Control
from perfatlas.verbs.simulate.unused_in_run import unused_in_run
from perfatlas.vocabulary.fields import value_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from perfatlas.scenario.deployments import Priced
    from perfatlas.scenario.fields import Scenario, Traffic
    from perfatlas.serving.outcome import Outcome
    from perfatlas.verbs.simulate.run_length import Run

MOST: Final = 20_000  # requests of a run that is repeated: tenths of a second
CHOICES: Final[Mapping[str, Sequence[Any]]] = {
    "mixed_chunk": (True, False),
    "measured_at": ("client", "engine"),
    "autoscale_metric": ("waiting", "requests"),
    "requests_to_s": (None,),
}
# their other values are half and twice as much
NUMBERS: Final = (
    *("autoscale_target", "autoscale_period_s", "autoscale_tolerance", "autoscale_down_after_s"),
    *("balance_abs_threshold", "balance_rel_threshold", "cache_threshold"),
    *("ssd_cache_bytes", "prefill_batch"),
)
SAME: Final = ("arrival_N", "first_token_N", "finished_N", "replica_N", "cached_N")


def probed_options(
    run: Run,
    outcome: Outcome,
    scenario: Scenario,
    again: Callable[[Mapping[str, Any]], tuple[Traffic, Scenario]],
    known: Priced,
) -> list[str]:
    """Return the options whose other values give the same run, as sentences.

    Args:
        run: What ran, of one seed.
        outcome: What happened to its requests.
        scenario: What serves it.
        again: Returns traffic and scenario with some fields changed.
        known: Tables of prices of earlier calls.

    Limits: Options that other remarks name are left out. Longer runs than `MOST` requests are not
        repeated. Numbers are compared with half and twice as much, where these are legal, so that
        a value between them may still have an effect.
    """
    if outcome.arrival_N.size > MOST or outcome.interrupted:
        return []
    notes, told = [], " ".join(unused_in_run(run.traffic, scenario, outcome))
    for name, value in _given((run.traffic, scenario), (*CHOICES, *NUMBERS)).items():
        if f"{name} = " in told:
            continue
        tried = {
            other: _runs_alike(run, outcome, again, {name: other}, known)
            for other in _others(name, value)
        }
        same = [other for other, alike in tried.items() if alike is not None]
        if same and all(tried[other] for other in same):
            listed = " or ".join("none" if one is None else value_text(one) for one in same)
            notes.append(f"{name} = {value_text(value)} (also {listed})")
    if not notes:
        return []
    return [f"without effect on this run: {', '.join(notes)}; all requests have the same times"]


def _given(inputs: tuple[Traffic, Scenario], names: Collection[str]) -> dict[str, Any]:
    """Return the options that are set."""
    return {
        name: getattr(one, name)
        for one in inputs
        for name in names
        if name in one.model_fields_set and getattr(one, name) is not None
    }


def _others(name: str, value: Any) -> list[Any]:  # noqa: ANN401 - of any field
    if name in CHOICES:
        return [other for other in CHOICES[name] if other != value]
    if isinstance(value, int):
        return sorted({max(value // 2, 1), 2 * value} - {value})
    return [value / 2.0, 2.0 * value]


def _runs_alike(
    run: Run,
    outcome: Outcome,
    again: Callable[[Mapping[str, Any]], tuple[Traffic, Scenario]],
    change: Mapping[str, Any],
    known: Priced,
) -> bool | None:
    """Return whether a change gives the same times of all requests, None if it is not legal."""
    try:
        traffic, scenario = again(change)
        traffic = traffic.model_copy(
            update={"num_requests": run.traffic.num_requests, "seed": run.traffic.seed}
        )
        resolved = resolve_traffic(traffic, scenario)
        ready = reseeded(service(scenario, traffic, resolved, known), traffic.seed)
        other = run_traffic(ready, resolved, Control())
    except PerfatlasError:
        return None
    if ready.seen != run.ready.seen or other.preemptions != outcome.preemptions:
        return False
    return all(np.array_equal(getattr(other, one), getattr(outcome, one)) for one in SAME)
