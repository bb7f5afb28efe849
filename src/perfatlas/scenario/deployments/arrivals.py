"""The requests of some traffic: read from a file, or generated."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.deployments.generated import generated, seeds_said
from perfatlas.serving.requests import Requests, scale_lengths, scale_rate, spread_batches
from perfatlas.serving.traces import Span, Window, generate_servegen, read_requests

if TYPE_CHECKING:
    from perfatlas.scenario.fields import Scenario, Traffic


class Arriving(NamedTuple):
    """Requests, and what is known of how they came to be.

    Args:
        requests: What arrives.
        concurrency: Requests in flight of a closed loop, 0 for arrivals by time.
        assumptions: Sentences for the evidence.
        warnings: What a reader should know.
    """

    requests: Requests
    concurrency: int
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]


def arriving(traffic: Traffic, scenario: Scenario) -> Arriving:
    """Return the requests of some traffic; lengths and concurrency are those of the scenario.

    Args:
        traffic: What arrives.
        scenario: isl, osl and concurrency of generated requests.

    Raises:
        InvalidSpecError: Two fields contradict each other, or the file of requests is wrong.
    """
    _refuse_contradictions(traffic, scenario)
    closed = is_closed(traffic, scenario)
    concurrency = (scenario.concurrency or 0) if closed else 0
    if traffic.requests is not None:
        return _read(traffic)._replace(concurrency=concurrency)
    drawn = generated(traffic, scenario, closed=closed)
    return Arriving(drawn.requests, concurrency, (drawn.said,), ())


def is_closed(traffic: Traffic, scenario: Scenario) -> bool:
    """Return whether requests arrive when others end.

    Args:
        traffic: The arrival process, where it is set.
        scenario: The concurrency.
    """
    if traffic.arrival is not None:
        return traffic.arrival == "closed"
    return scenario.concurrency is not None and traffic.request_rate is None


def _refuse_contradictions(traffic: Traffic, scenario: Scenario) -> None:
    closed = is_closed(traffic, scenario)
    if closed and scenario.concurrency is None:
        raise InvalidSpecError("arrival = closed: give concurrency, the requests in flight")
    if closed and traffic.request_rate is not None:
        raise InvalidSpecError(
            f"arrival = closed has no request_rate ({traffic.request_rate:g}): the next request"
            " comes when one ends; leave request_rate or arrival out"
        )
    if not closed and scenario.concurrency is not None:
        raise InvalidSpecError(
            f"concurrency = {scenario.concurrency} and request_rate: requests arrive by their"
            " times or when one ends; give one of the two"
        )
    if traffic.requests is None and not closed and traffic.request_rate is None:
        raise InvalidSpecError(
            "nothing arrives: give request_rate (requests/s, inf for all at once), concurrency for"
            " a closed loop, or requests, a file"
        )
    if traffic.requests is not None and not closed and traffic.request_rate is not None:
        raise InvalidSpecError(
            "requests arrive by the times in their file; rate_scale = 2 lets them come twice as"
            " fast, and request_rate is for generated requests"
        )


def _of_clients(traffic: Traffic) -> Arriving:
    """Return requests generated from ServeGen's clients."""
    if traffic.requests_to_s is None:
        raise InvalidSpecError(
            "request_format = servegen describes clients over days: give requests_to_s, and"
            " requests_from_s where it is not 0, the seconds to generate"
        )
    for name in ("num_requests", "spread_batches"):
        if getattr(traffic, name):
            raise InvalidSpecError(f"{name} does not go with request_format = servegen")
    span = Span(
        start_s=traffic.requests_from_s,
        end_s=traffic.requests_to_s,
        rate_factor=traffic.rate_scale,
    )
    trace = generate_servegen(str(traffic.requests), span, traffic.seed)
    requests = scale_lengths(trace.requests, traffic.length_scale, traffic.length_scale)
    said = (
        f"{requests.isl_N.shape[0]:,} requests generated from the ServeGen clients of"
        f" {traffic.requests}, seconds {span.start_s:g} to {span.end_s:g}, rate times"
        f" {span.rate_factor:g}, lengths times {traffic.length_scale:g}, {seeds_said(traffic)}"
    )
    return Arriving(requests, 0, (said,), trace.warnings)


def _read(traffic: Traffic) -> Arriving:
    if traffic.request_format == "servegen":
        return _of_clients(traffic)
    window = Window(
        first=traffic.num_requests,
        start_s=traffic.requests_from_s,
        end_s=math.inf if traffic.requests_to_s is None else traffic.requests_to_s,
    )
    trace = read_requests(str(traffic.requests), traffic.request_format, window)
    requests = spread_batches(trace.requests) if traffic.spread_batches else trace.requests
    requests = scale_rate(requests, traffic.rate_scale)
    requests = scale_lengths(requests, traffic.length_scale, traffic.length_scale)
    count = requests.isl_N.shape[0]
    named = "1 request" if count == 1 else f"{count:,} requests"
    said = f"{named} of {traffic.requests} ({traffic.request_format})"
    scaled = [
        f"{name} {value:g}"
        for name, value in (
            ("rate_scale", traffic.rate_scale),
            ("length_scale", traffic.length_scale),
        )
        if value != 1.0
    ]
    if traffic.spread_batches:
        scaled.append("those of one time of arrival spread evenly to the next")
    if traffic.requests_from_s or traffic.requests_to_s is not None:
        scaled.append(f"of the seconds {window.start_s:g} to {window.end_s:g} of the file")
    return Arriving(requests, 0, (", ".join((said, *scaled)),), trace.warnings)
