"""Requests of the traffic: read from a file, or generated."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.quantities import InvalidSpecError, counted
from perfatlas.scenario.deployments.generated import generated
from perfatlas.serving.requests import (
    Requests,
    scale_lengths,
    scale_rate,
    session_of,
    session_pool,
    spread_batches,
    whole_ticks,
)
from perfatlas.serving.traces import TraceWindow, read_requests

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.scenario.fields import Scenario, Traffic

MIDDLE: Final = (0.25, 0.75)  # of the requests of a session


class ResolvedTraffic(NamedTuple):
    """Requests of the traffic, and their provenance."""

    requests: Requests
    # Requests, or sessions, in flight in a closed loop, 0 for timed arrivals
    concurrency: int
    assumptions: tuple[str, ...]  # Sentences for the evidence
    warnings: tuple[str, ...]
    # Whether the session of a request has others that are not simulated (N,), empty for none
    partial_N: NDArray[np.bool_] = np.zeros(0, np.bool_)


def resolve_traffic(traffic: Traffic, scenario: Scenario) -> ResolvedTraffic:
    """Return the requests of the traffic; lengths and concurrency come from the scenario.

    Args:
        scenario: Gives isl, osl and concurrency of generated requests.

    Raises:
        InvalidSpecError: Two fields contradict each other, or the request file is invalid.
    """
    _refuse_contradictions(traffic, scenario)
    closed = is_closed(traffic, scenario)
    concurrency = (traffic.sessions or scenario.concurrency or 0) if closed else 0
    if traffic.requests is not None:
        resolved = _read(traffic)._replace(concurrency=concurrency)
    else:
        drawn = generated(traffic, scenario, closed=closed)
        resolved = ResolvedTraffic(drawn.requests, concurrency, (drawn.note,), ())
    return resolved if traffic.sessions is None else _pool_of_sessions(traffic, resolved)


def starts_in_the_middle(traffic: Traffic) -> bool:
    """Return whether the first sessions of a pool begin at a random request."""
    start = traffic.session_start or ("beginning" if traffic.requests is None else "middle")
    return traffic.sessions is not None and start == "middle"


def _pool_of_sessions(traffic: Traffic, resolved: ResolvedTraffic) -> ResolvedTraffic:
    """Return the traffic of a closed pool, whose first sessions may begin in the middle.

    Source: AIPerf, scenario inferencex-agentx-mvp: the first session of each lane begins at a
    uniform point between 25% and 75%; a sub-agent does not take a lane.
    """
    begins = starts_in_the_middle(traffic)
    share = MIDDLE if begins else (0.0, 0.0)
    most = None if traffic.requests is None else traffic.num_requests
    requests = session_pool(resolved.requests, resolved.concurrency, share, traffic.seed, most)
    session_N, number = session_of(resolved.requests), int(requests.session_N.max()) + 1
    partial_S = np.bincount(session_N)[:number] > np.bincount(requests.session_N)
    given_N = session_N[: resolved.partial_N.size][resolved.partial_N]
    partial_S[given_N[given_N < number]] = True
    lanes = min(resolved.concurrency, number)
    notes = [
        f"{lanes:,} of {counted(number, 'session')} in flight: the next begins when another ends"
    ]
    if begins:
        notes.append(
            f"the sessions in flight at the start ({lanes:,}) begin at a random request between"
            f" {MIDDLE[0]:.0%} and {MIDDLE[1]:.0%} of their requests (seed {traffic.seed}): the"
            " earlier ones are left out, no cache has their context until it is computed again, and"
            " session times are those of later sessions"
        )
    warnings = []
    if number < resolved.concurrency:
        warnings.append(
            f"{counted(number, 'session')} to simulate, fewer than sessions ="
            f" {resolved.concurrency:,}{'; raise num_requests' if most else ''}"
        )
    return resolved._replace(
        requests=requests,
        assumptions=(*resolved.assumptions, *notes),
        warnings=(*resolved.warnings, *warnings),
        partial_N=partial_S[requests.session_N],
    )


def is_closed(traffic: Traffic, scenario: Scenario) -> bool:
    """Return whether requests arrive when others end."""
    if traffic.sessions is not None:
        return True
    if traffic.arrival is not None:
        return traffic.arrival == "closed"
    return scenario.concurrency is not None and traffic.request_rate is None


def _refuse_contradictions(traffic: Traffic, scenario: Scenario) -> None:
    closed = is_closed(traffic, scenario)
    if traffic.sessions is not None:
        _refuse_beside_sessions(traffic, scenario)
        return
    if closed and scenario.concurrency is None:
        raise InvalidSpecError("arrival = closed needs concurrency, the requests in flight")
    if closed and traffic.request_rate is not None:
        raise InvalidSpecError(
            f"arrival = closed and request_rate = {traffic.request_rate:g} exclude each other: in a"
            " closed loop a request starts when another ends; leave one of the two out"
        )
    if not closed and scenario.concurrency is not None:
        raise InvalidSpecError(
            f"concurrency = {scenario.concurrency} and request_rate exclude each other: requests"
            " arrive at a rate or in a closed loop; set one of the two"
        )
    if traffic.requests is None and not closed and traffic.request_rate is None:
        raise InvalidSpecError(
            "no traffic specified: set request_rate (requests/s, inf for all at once), concurrency"
            " for a closed loop, or requests, a file"
        )
    if traffic.requests is not None and not closed and traffic.request_rate is not None:
        raise InvalidSpecError(
            "request_rate applies only to generated requests: requests from a file have arrival"
            " times; to change their rate, set rate_scale, such as 2 for twice the rate"
        )


def _refuse_beside_sessions(traffic: Traffic, scenario: Scenario) -> None:
    arrival = None if traffic.arrival == "closed" else traffic.arrival
    for name, value in (
        ("request_rate", traffic.request_rate),
        ("concurrency", scenario.concurrency),
        ("arrival", arrival),
        ("rate_scale", None if traffic.rate_scale == 1.0 else traffic.rate_scale),
    ):
        if value is not None:
            raise InvalidSpecError(
                f"sessions = {traffic.sessions} and {name} = {value} exclude each other: in a pool"
                " of sessions the next session begins when another ends; leave one of the two out"
            )


def _read(traffic: Traffic) -> ResolvedTraffic:
    window = TraceWindow(
        first=None if traffic.sessions else traffic.num_requests,
        start_s=traffic.requests_from_s,
        end_s=math.inf if traffic.requests_to_s is None else traffic.requests_to_s,
    )
    trace = read_requests(str(traffic.requests), traffic.request_format, window)
    requests = spread_batches(trace.requests) if traffic.spread_batches else trace.requests
    requests = scale_rate(requests, traffic.rate_scale)
    requests = scale_lengths(requests, traffic.length_scale, traffic.length_scale)
    if traffic.max_pause_s is not None:
        longest = int(whole_ticks(traffic.max_pause_s))
        requests = requests._replace(pause_N=np.minimum(requests.pause_N, longest))
    count = requests.isl_N.shape[0]
    note = f"{counted(count, 'request')} from {traffic.requests} ({traffic.request_format})"
    scaled = [
        f"{name} {value:g}"
        for name, value in (
            ("rate_scale", traffic.rate_scale),
            ("length_scale", traffic.length_scale),
        )
        if value != 1.0
    ]
    if traffic.max_pause_s is not None:
        scaled.append(f"pauses of at most {traffic.max_pause_s:g} s")
    if traffic.spread_batches:
        scaled.append("equal arrival times spread evenly up to the next")
    if traffic.requests_from_s or traffic.requests_to_s is not None:
        scaled.append(f"seconds {window.start_s:g} to {window.end_s:g} of the file")
    begin_S = requests.arrival_N[np.unique(requests.session_N, return_index=True)[1]]
    warnings = trace.warnings
    if traffic.sessions is None and begin_S.size > 1 and not begin_S.any():
        warnings += (
            f"all {begin_S.size:,} sessions begin at once; sessions limits how many are in flight",
        )
    notes = (", ".join((note, *scaled)),)
    return ResolvedTraffic(requests, 0, notes, warnings, trace.partial_N)
