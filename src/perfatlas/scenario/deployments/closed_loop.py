"""Steady state of a closed loop, from a short simulation.

Closed forms do not model queueing of prompts, nor decode steps delayed by prefill.

Shape legend: N requests.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.inference import client_note, prompt_rejection, rejects_prompts
from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.deployments.arrivals import ResolvedTraffic
from perfatlas.scenario.deployments.services import (
    Service,
    check_room,
    run_traffic,
    service,
)
from perfatlas.scenario.deployments.step_interval import price_ends, slowed
from perfatlas.scenario.fields import Traffic
from perfatlas.scenario.resolution import ROUNDS, WARM_ROUNDS, image_tokens, planned_scenario
from perfatlas.serving.config import Control
from perfatlas.serving.outcome import request_latencies
from perfatlas.serving.requests import (
    all_at_once,
    cached_start,
    drawn_rows,
    empirical_lengths,
    plain_requests,
    range_around,
    uniform_lengths,
)
from perfatlas.vocabulary.metrics import output_tokens_per_s_per_gpu, output_tokens_per_s_per_user

if TYPE_CHECKING:
    from perfatlas.operators import IntArray
    from perfatlas.scenario.deployments.engine_deployment import Priced
    from perfatlas.scenario.fields import Scenario
    from perfatlas.serving.requests import Requests

MAX_IN_FLIGHT: Final = 1_000_000  # a simulation stores all of them and ten times as many requests
MAX_REQUESTS: Final = 11_000_000  # in one simulation
MAX_BLOCKS: Final = 50_000_000  # of all their prompts, if these have a cached prefix
MIN_REQUESTS: Final = 24  # minimum number of measured requests
MIN_REQUESTS_BEYOND_TAIL: Final = 10  # measured requests beyond a percentile
SEED: Final = 0  # of lengths drawn from a sample
NAMES: Final = ("ttft_s", "tpot_s", "request_latency_s")
RATES: Final = ("output_tokens_per_s_per_gpu", "output_tokens_per_s_per_user")
SIMULATED_NOTE: Final = (
    "method simulate: mean over {count:,} requests of a closed loop {loop}, {lengths};"
    " {rules}; {client}"
)

SIMULTANEOUS_START_NOTE: Final = (
    "clients are spread evenly over their outputs; the intervals of TTFT and TPOT also hold clients"
    " that start together, whose prompts this scheduler keeps together"
)


class RequestSample(NamedTuple):
    """Requests to draw from."""

    isl_E: IntArray  # Input tokens (E,)
    osl_E: IntArray  # Output tokens (E,)
    cached_E: IntArray  # Input tokens that a prefix cache has (E,)
    hash_block: int = 0  # Tokens per hashed block of their prompts, 0 if they share nothing


class SteadyState(NamedTuple):
    """Steady state of a closed loop."""

    results: dict[str, Any]  # Results by name, with `_low` and `_high` if an interval is known
    note: str  # Description of the method, a sentence
    # Latencies at the percentile, by name as the results, empty without one
    at_percentile: dict[str, Any]


def steady_state(
    scenario: Scenario,
    known: Priced | None = None,
    percentile: float | None = None,
    sample: RequestSample | None = None,
) -> SteadyState:
    """Return latencies and throughput of a closed loop at the concurrency of a scenario.

    Args:
        scenario: In mode aggregated (default concurrency: one request per replica) or
            disaggregated (default: the batches of its decode workers, or one request each).
        known: Price tables of earlier calls, to reuse and extend.
        percentile: Also return this percentile of latencies, of as many requests as leave 10
            beyond it.
        sample: Requests to draw from, by default those of the scenario for all.

    Raises:
        InvalidSpecError: A name, value or plan is invalid.
        InfeasibleError: The model and one request do not fit.
        UnsupportedError: No scheduler, model or data for the combination.
    """
    scenario = planned_scenario(scenario)
    concurrency = _in_flight(scenario)
    if concurrency > MAX_IN_FLIGHT:
        raise InvalidSpecError(
            f"concurrency = {concurrency:,}: a steady state is simulated with at most"
            f" {MAX_IN_FLIGHT:,} requests in flight; reduce it, or set method = formula"
        )
    resolved, window = _closed_loop(scenario, concurrency, percentile, sample)
    ready = service(scenario, Traffic.read({"routing": "least_loaded"}), resolved, known)
    if rejects_prompts(ready.entry.question)[0]:
        raise prompt_rejection(ready.entry.question)
    requests = resolved.requests
    check_room(int(requests.isl_N.max()), int(requests.osl_N.max()), ready)
    results, at_percentile = _measured(ready, resolved, window, percentile)
    for found in (results, at_percentile):
        found |= {f"{name}_{end}": None for name in found for end in ("low", "high")}
    together = None
    if price_ends(ready) and scenario.requests_per_client is None:
        together = _together(ready, resolved)
    _add_ends(ready, (resolved, together), (window, percentile), (results, at_percentile))
    _widen(results)
    _widen(at_percentile)
    note = SIMULATED_NOTE.format(
        count=window.stop - window.start,
        loop=_loop_note(scenario),
        lengths=_lengths_note(scenario, sample),
        rules="; ".join(ready.descriptions()),
        client=client_note(ready.entry.question),
    )
    note += "" if together is None else f"; {SIMULTANEOUS_START_NOTE}"
    return SteadyState(results | {"gpus": ready.gpus}, note, at_percentile)


def latencies_from_start(
    scenario: Scenario,
    known: Priced | None = None,
    percentile: float | None = None,
    sample: RequestSample | None = None,
) -> dict[str, Any]:
    """Return the latencies of a closed loop whose clients start together.

    Means include the first prompts, as in `simulate`; percentiles leave them out.

    Args:
        scenario: As for `steady_state`, as all arguments.
        known: Price tables.

    Returns:
        Means, or percentiles, with `_low` and `_high`.
    """
    scenario = planned_scenario(scenario)
    clients = _in_flight(scenario)
    resolved, _ = _closed_loop(scenario, clients, percentile, sample)
    osl_N = resolved.requests.osl_N.copy()
    osl_N[:clients] = osl_N[-clients:]  # the first outputs of spread clients are cut
    resolved = resolved._replace(requests=resolved.requests._replace(osl_N=osl_N))
    ready = service(scenario, Traffic.read({"routing": "least_loaded"}), resolved, known)
    # a tail would be that of the first prompts alone
    warm = 0 if percentile is None else WARM_ROUNDS * clients
    measured = slice(warm, osl_N.size - clients), percentile
    results, at_percentile = _measured(ready, resolved, *measured)
    _add_ends(ready, (resolved, None), measured, (results, at_percentile))
    found = {name: value for name, value in results.items() if name.startswith(NAMES)}
    found |= at_percentile
    _widen(found)
    return found


def _add_ends(
    ready: Service,
    traffic: tuple[ResolvedTraffic, ResolvedTraffic | None],
    measured: tuple[slice, float | None],
    found: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    """Add both ends of the interval to means and percentiles, for clients of either phase."""
    (resolved, together), (results, at_percentile) = traffic, found
    for end, factor in price_ends(ready).items():
        other = {"low": "high", "high": "low"}[end]
        moved = slowed(ready, factor)
        means, tails = _measured(moved, resolved, *measured)
        for name, value in means.items():
            rate = name.startswith("output_tokens")
            results[f"{name}_{other if rate else end}"] = value
        at_percentile |= {f"{name}_{end}": value for name, value in tails.items()}
        if together is not None:
            _span(found, end, _measured(moved, together, *measured))


def _together(ready: Service, resolved: ResolvedTraffic) -> ResolvedTraffic | None:
    """Return the requests of clients that start together, None where their phase is lost soon.

    A scheduler that mixes prompts with decodes spreads the clients; one that runs prompts first
    keeps the prompts of all together, as long as their lengths are equal.
    """
    if ready.named or ready.entry.question.profile.scheduler.mixes or resolved.concurrency < 2:
        return None
    osl_N = np.full_like(resolved.requests.osl_N, resolved.requests.osl_N[-1])
    requests = plain_requests(all_at_once(osl_N.size), resolved.requests.isl_N, osl_N)
    return resolved._replace(requests=requests)


def _span(
    found: tuple[dict[str, Any], dict[str, Any]],
    end: str,
    others: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    """Extend the interval of TPOT to the low, and that of TTFT to the high end of other clients.

    The rate per user follows TPOT.
    """
    name, outer = {"low": ("tpot_s", min), "high": ("ttft_s", max)}[end]
    for held, other in zip(found, others, strict=True):
        if other.get(name) is not None and held.get(f"{name}_{end}") is not None:
            held[f"{name}_{end}"] = outer(held[f"{name}_{end}"], other[name])
        if end == "low" and held.get("output_tokens_per_s_per_user_high") is not None:
            rate = output_tokens_per_s_per_user(held["tpot_s_low"])
            held["output_tokens_per_s_per_user_high"] = rate


def _widen(results: dict[str, Any]) -> None:
    """Extend every interval to include all simulated values.

    A closed loop of equal requests may settle into a different phase with slower steps, so that
    faster steps can give longer times.
    """
    for name in (*NAMES, *RATES):
        ends = [key for key in (f"{name}_low", f"{name}_high") if results.get(key) is not None]
        known = [results[key] for key in (name, *ends) if results.get(name) is not None]
        for key in ends if known else ():  # a lower limit on time has one end
            results[key] = min(known) if key.endswith("_low") else max(known)


def _closed_loop(
    scenario: Scenario,
    concurrency: int,
    percentile: float | None,
    sample: RequestSample | None,
) -> tuple[ResolvedTraffic, slice]:
    """Return the requests of a closed loop, and which of them are measured.

    In the steady state, clients are evenly spread over their output at the start, and the last
    requests run while the loop drains. All requests of clients that start together are measured.
    """
    rounds = scenario.requests_per_client
    if rounds is not None:
        total, window = rounds * concurrency, slice(0, rounds * concurrency)
    else:
        count = max(ROUNDS * concurrency, MIN_REQUESTS, _enough_for(percentile))
        first = WARM_ROUNDS * concurrency
        total, window = first + count + concurrency, slice(first, first + count)
    if total > MAX_REQUESTS:
        raise InvalidSpecError(
            f"{total:,} requests of {concurrency:,} clients: at most {MAX_REQUESTS:,} are"
            " simulated; reduce requests_per_client or concurrency, or set method = formula"
        )
    isl_N, osl_N = _lengths(scenario, total, sample)
    if rounds is None:
        spread_N = np.arange(1, concurrency + 1) / concurrency
        osl_N[:concurrency] = np.ceil(osl_N[:concurrency] * spread_N)
    requests = plain_requests(all_at_once(total), isl_N, osl_N)
    if scenario.prefix:
        requests = _with_cached_prefix(requests, scenario, sample)
    return ResolvedTraffic(requests, concurrency, (), ()), window


def _with_cached_prefix(
    requests: Requests, scenario: Scenario, sample: RequestSample | None
) -> Requests:
    """Return requests whose prompts begin with what a prefix cache has."""
    cached_N, block = np.full_like(requests.isl_N, scenario.prefix), scenario.prefix
    if sample is not None and sample.hash_block:
        row_N = drawn_rows(requests.isl_N.size, sample.isl_E.size, SEED)
        cached_N, block = sample.cached_E[row_N], sample.hash_block
    blocks = int((-(-requests.isl_N // block)).sum())
    if blocks > MAX_BLOCKS:
        raise InvalidSpecError(
            f"prefix = {scenario.prefix:,}: the prompts of {requests.isl_N.size:,} requests have"
            f" {blocks:,} blocks of {block:,} tokens, and at most {MAX_BLOCKS:,} are simulated;"
            " reduce concurrency, or set method = formula"
        )
    return cached_start(requests, cached_N, block)


def _lengths(
    scenario: Scenario, total: int, sample: RequestSample | None
) -> tuple[IntArray, IntArray]:
    """Return the input and output tokens of requests (N,)."""
    if sample is not None:
        return empirical_lengths(total, sample.isl_E, sample.osl_E, SEED)
    isl_N = np.full(total, scenario.isl + image_tokens(scenario.values))
    if scenario.osl_spread == 0.0:
        return isl_N, np.full(total, scenario.osl)
    bounds = range_around(scenario.osl, scenario.osl_spread)
    return isl_N, uniform_lengths(total, bounds, "osl", SEED)


def _loop_note(scenario: Scenario) -> str:
    """Return which part of the closed loop is measured."""
    if scenario.requests_per_client is None:
        return "after warm-up"
    return f"of clients that start together and send {scenario.requests_per_client:,} each"


def _lengths_note(scenario: Scenario, sample: RequestSample | None) -> str:
    """Return the lengths of the requests."""
    if sample is not None:
        return f"with lengths drawn from {sample.isl_E.size:,} requests"
    if scenario.osl_spread > 0.0:
        low, high = range_around(scenario.osl, scenario.osl_spread)
        return f"all with {scenario.isl:,} input and {low:,} to {high:,} output tokens (uniform)"
    return f"all with {scenario.isl:,} input and {scenario.osl:,} output tokens"


def _in_flight(scenario: Scenario) -> int:
    """Return the requests in flight."""
    if scenario.concurrency:
        return scenario.concurrency
    if scenario.mode == "disaggregated":
        return (scenario.decode_batch or 1) * scenario.decode_workers
    return (scenario.batch or 1) * (scenario.dp or 1)


def _enough_for(percentile: float | None) -> int:
    """Return the requests that leave `MIN_REQUESTS_BEYOND_TAIL` beyond a percentile."""
    if percentile is None:
        return 0
    return math.ceil(MIN_REQUESTS_BEYOND_TAIL / (1.0 - percentile / 100.0))


def _measured(
    ready: Service, resolved: ResolvedTraffic, window: slice, percentile: float | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return means over the measured requests, and their latencies at a percentile.

    Throughput is that of the steady state, or, where all requests are measured, from the start to
    the last response.
    """
    outcome = run_traffic(ready, resolved, Control())
    found = request_latencies(resolved.requests, outcome, ready.seen)
    counted_N = (found.place_N >= window.start) & (found.place_N < window.stop)
    latencies = {name: getattr(found, name)[counted_N] for name in NAMES}
    several_N = resolved.requests.osl_N[found.place_N[counted_N]] > 1
    if several_N.any():  # a single output token has no time between tokens
        latencies["tpot_s"] = latencies["tpot_s"][several_N]
    means: dict[str, Any] = {name: _finite(float(s_N.mean())) for name, s_N in latencies.items()}
    at_percentile: dict[str, Any] = {}
    if percentile is not None:
        at_percentile = {
            name: _finite(float(np.percentile(s_N, percentile))) for name, s_N in latencies.items()
        }
    if ready.named:
        transfer_s = found.kv_transfer_s[counted_N]
        means["kv_transfer_s"] = _finite(float(transfer_s.mean()))
    if window == slice(0, resolved.requests.osl_N.size):  # clients that start together
        rate = counted_N.sum() / float((found.arrival_s + found.request_latency_s).max())
    else:  # Little's law, including the time between client and engine
        rate = resolved.concurrency / (means["request_latency_s"] + ready.seen.response_s)
    tokens = float(resolved.requests.osl_N[found.place_N[counted_N]].mean())
    tpot_s = means["tpot_s"]
    means |= {
        "output_tokens_per_s_per_gpu": output_tokens_per_s_per_gpu(rate * tokens, ready.gpus),
        "output_tokens_per_s_per_user": output_tokens_per_s_per_user(tpot_s),
    }
    return means, at_percentile


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
