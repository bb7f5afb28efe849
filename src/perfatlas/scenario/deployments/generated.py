"""Generated requests: arrival times, lengths, shared prefixes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from perfatlas.networks import is_graph
from perfatlas.quantities import InvalidSpecError, counted
from perfatlas.scenario.resolution import image_tokens
from perfatlas.serving.requests import (
    Requests,
    Turns,
    all_at_once,
    constant_arrivals,
    empirical_lengths,
    fixed_lengths,
    gamma_arrivals,
    lognormal,
    lognormal_lengths,
    plain_requests,
    poisson_arrivals,
    ramp_arrivals,
    range_around,
    sessions,
    think_times,
    uniform_lengths,
)
from perfatlas.serving.traces import read_requests
from perfatlas.vocabulary.fields import MAX_GENERATED_REQUESTS, MAX_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.scenario.fields import Scenario, Traffic

DEFAULT_REQUESTS: Final = 1000
SPAN: Final = 0.5  # of the longest time that a simulation may last
ROUNDS: Final = 10  # requests per one in flight in a closed loop, as in benchmark clients
HASH_BLOCK: Final = 16  # tokens per prefix hash of session prompts
OF_RAMPS: Final = ("ramp_to_rate", "ramp_s")


class Generated(NamedTuple):
    """Generated requests, and a sentence that describes them."""

    requests: Requests
    note: str


def generated(traffic: Traffic, scenario: Scenario, *, closed: bool) -> Generated:
    """Return requests drawn as the traffic specifies."""
    _refuse_contradictions(traffic)
    count = traffic.num_requests
    in_flight = traffic.sessions or scenario.concurrency or 0
    if count is None:
        count = max(DEFAULT_REQUESTS, ROUNDS * in_flight * (traffic.turns if closed else 1))
        if not closed and traffic.arrival != "ramp":
            in_time = int(min(count, most_in_time(traffic.request_rate)))
            count = max(in_time, min(traffic.turns, count))
    if count > MAX_GENERATED_REQUESTS:
        raise InvalidSpecError(
            f"{count:,} requests exceed the limit of {MAX_GENERATED_REQUESTS:,} per simulation;"
            " lower num_requests (default in a closed loop: ten per request in flight)"
        )
    shares = traffic.turns > 1 or traffic.shared_prefix > 0
    starts = count // traffic.turns  # number of sessions, each with `turns` requests
    if not starts:
        raise InvalidSpecError(
            f"num_requests = {count:,} is less than one session of turns = {traffic.turns:,}; raise"
            " num_requests or lower turns"
        )
    times_S = all_at_once(starts) if closed else _times(traffic, starts)
    isl_N, osl_N = _lengths(traffic, scenario, starts * traffic.turns)
    lengths: str = traffic.length_distribution or "fixed"
    flying = "sessions in flight" if traffic.turns > 1 or traffic.sessions else "in flight"
    how = f"{in_flight} {flying}" if closed else f"{traffic.request_rate:g} requests/s"
    arrival = "closed" if closed else traffic.arrival or "poisson"
    if arrival == "ramp":
        how += f" to {traffic.ramp_to_rate:g} in {traffic.ramp_s:g} s"
    spread = "" if traffic.length_spread is None else f" {traffic.length_spread:g}"
    note = f"{counted(starts * traffic.turns, 'generated request')}, {arrival}, {how}"
    if is_graph(scenario.model):
        note = f"{note}, {seeds_text(traffic)}"
    else:
        note = f"{note}, lengths {lengths}{spread}, {seeds_text(traffic)}; {_shared(traffic)}"
    if not shares:
        return Generated(plain_requests(times_S, isl_N, osl_N), note)
    pause_N = np.zeros(isl_N.shape[0], np.int64)
    if traffic.think_time_s:
        pause_N = think_times(isl_N.shape[0], traffic.think_time_s, traffic.seed)
    talk = sessions(
        times_S,
        np.full(starts, traffic.turns),
        Turns(asked_N=isl_N, osl_N=osl_N, pause_N=pause_N),
        hash_block=HASH_BLOCK,
        shared_prefix=traffic.shared_prefix,
    )
    return Generated(talk, note)


def most_in_time(request_rate: float | None) -> float:
    """Return how many requests surely arrive in the longest time of a simulation, 1 at least.

    Args:
        request_rate: Requests per second; None is all at once.
    """
    return max(SPAN * MAX_S * (request_rate or math.inf), 1.0)


def seeds_text(traffic: Traffic) -> str:
    """Return "seed 0", or "seeds 0 to 4" for several simulations."""
    if traffic.num_seeds == 1:
        return f"seed {traffic.seed}"
    return f"seeds {traffic.seed} to {traffic.seed + traffic.num_seeds - 1}"


def _shared(traffic: Traffic) -> str:
    prefix = (
        f"a prefix of {traffic.shared_prefix:,} tokens" if traffic.shared_prefix else "no prefix"
    )
    if traffic.turns == 1:
        return f"prompts share {prefix}"
    think = f"{traffic.think_time_s:g} s (exponential)" if traffic.think_time_s else "0"
    return (
        f"sessions of {traffic.turns} turns whose prompts contain the conversation so far, mean"
        f" think time {think}; sessions share {prefix}"
    )


def _refuse_contradictions(traffic: Traffic) -> None:
    for name in OF_RAMPS if traffic.arrival == "ramp" else ():
        if getattr(traffic, name) is None:
            raise InvalidSpecError(
                f"arrival = ramp needs request_rate, ramp_to_rate and ramp_s; {name} is not set"
            )
    _refuse_lengths(traffic)


def _refuse_lengths(traffic: Traffic) -> None:
    if traffic.length_distribution in ("uniform", "lognormal") and traffic.length_spread is None:
        raise InvalidSpecError(
            f"length_distribution = {traffic.length_distribution} needs length_spread: the relative"
            " half-width of uniform, or sigma of lognormal"
        )
    if (traffic.length_distribution == "empirical") == (traffic.lengths_from is None):
        raise InvalidSpecError(
            "length_distribution = empirical and lengths_from belong together: lengths are drawn"
            " from the rows of that file of requests; set both or neither"
        )


def _times(traffic: Traffic, starts: int) -> NDArray[Any]:
    """Return the start times of sessions; request_rate counts all their turns."""
    rate = (traffic.request_rate or math.inf) / traffic.turns
    if math.isinf(rate) and traffic.arrival != "ramp":
        return all_at_once(starts)
    match traffic.arrival:
        case "constant":
            return constant_arrivals(starts, rate)
        case "gamma":
            return gamma_arrivals(starts, rate, (traffic.burstiness or 1.0) ** -0.5, traffic.seed)
        case "ramp":
            rates = (rate, (traffic.ramp_to_rate or 0.0) / traffic.turns)
            return ramp_arrivals(starts, rates, traffic.ramp_s or 0.0, 1.0, traffic.seed)
    return poisson_arrivals(starts, rate, traffic.seed)


def _lengths(traffic: Traffic, scenario: Scenario, count: int) -> tuple[NDArray[Any], NDArray[Any]]:
    if traffic.lengths_from is not None:
        sample = read_requests(traffic.lengths_from, traffic.request_format).requests
        return empirical_lengths(count, sample.isl_N, sample.osl_N, traffic.seed)
    isl_N = _drawn(traffic, scenario.isl, "isl", count) + image_tokens(scenario.values)
    return isl_N, _drawn(traffic, scenario.osl, "osl", count)


def _drawn(traffic: Traffic, mean: int, column: Literal["isl", "osl"], count: int) -> NDArray[Any]:
    spread = traffic.length_spread or 0.0
    if traffic.length_distribution == "uniform":
        return uniform_lengths(count, range_around(mean, spread), column, traffic.seed)
    if traffic.length_distribution == "lognormal":
        return lognormal_lengths(count, lognormal(mean=mean, sigma=spread), column, traffic.seed)
    return fixed_lengths(count, mean)
