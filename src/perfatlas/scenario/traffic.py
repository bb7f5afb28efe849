"""The vocabulary of traffic, and the requests it describes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

from pydantic import ConfigDict, Field, ValidationError

from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.cache_tiers import CacheTiers
from perfatlas.scenario.generated import generated, seeds_said
from perfatlas.scenario.operation import Operation
from perfatlas.scenario.vocabulary import Count, Scenario, Tokens, sentences
from perfatlas.serving.requests import Requests, scale_lengths, scale_rate, spread_batches
from perfatlas.serving.traces import Span, Window, generate_servegen, read_requests

if TYPE_CHECKING:
    from collections.abc import Mapping


Positive = Annotated[float, Field(gt=0.0)]
OF_GENERATED: Final = (
    "ramp_to_rate",
    "ramp_s",
    "turns",
    "think_time_s",
    "shared_prefix",
    "length_distribution",
    "lengths_from",
)
OBJECTIVES: Final = ("ttft_s", "tpot_s", "itl_s", "request_latency_s")


class Traffic(Operation, CacheTiers):
    """What arrives: a file of requests, or generated ones. None means "derive it"."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    requests: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    request_format: str = "perfatlas"
    request_rate: Positive | None = None
    num_requests: Count | None = None
    arrival: Literal["poisson", "gamma", "constant", "ramp", "closed"] | None = None
    burstiness: Positive | None = None
    ramp_to_rate: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = None
    ramp_s: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = None
    turns: Count = 1
    think_time_s: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] = 0.0
    shared_prefix: Tokens = 0
    length_distribution: Literal["fixed", "uniform", "lognormal", "empirical"] = "fixed"
    length_spread: Annotated[float, Field(ge=0.0)] | None = None
    lengths_from: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    rate_scale: Positive = 1.0
    length_scale: Positive = 1.0
    requests_from_s: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] = 0.0
    requests_to_s: Positive | None = None
    spread_batches: bool = False
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = 0
    num_seeds: Annotated[int, Field(ge=1, le=1000)] = 1
    prefix_caching: bool | None = None
    scheduler: (
        Literal["vllm", "sglang", "trtllm_guaranteed_no_evict", "trtllm_max_utilization", "static"]
        | None
    ) = None
    chunked_prefill: bool | None = None
    mixed_chunk: bool = False

    measured_at: Literal["client", "engine"] = "client"
    prompt_text: Literal["natural", "random"] = "natural"

    slo_ttft_s: Positive | None = None
    slo_tpot_s: Positive | None = None
    slo_itl_s: Positive | None = None
    slo_request_latency_s: Positive | None = None
    slo_percentile: Annotated[float, Field(gt=0.0, lt=100.0)] | None = None

    def objectives(self) -> dict[str, float]:
        """Return the objectives that are set, by metric [s]."""
        asked = {name: getattr(self, f"slo_{name}") for name in OBJECTIVES}
        return {name: value for name, value in asked.items() if value is not None}


TRAFFIC_NAMES: Final = tuple(Traffic.model_fields)


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


def parse_traffic(fields: Mapping[str, Any]) -> Traffic:
    """Return the traffic of named fields; None and empty text count as not given.

    Raises:
        InvalidSpecError: A name is unknown or a value breaks its rule; all of them are named.

    Example:
        >>> from perfatlas.scenario import parse_traffic
        >>> parse_traffic({"request_rate": "4", "arrival": None}).request_rate
        4.0
    """
    given = {
        name: value
        for name, value in fields.items()
        if value is not None and not (isinstance(value, str) and not value.strip())
    }
    try:
        return Traffic.model_validate(given)
    except ValidationError as error:
        raise InvalidSpecError(sentences(error, (*TRAFFIC_NAMES, *Scenario.model_fields))) from None


def arriving(traffic: Traffic, scenario: Scenario) -> Arriving:
    """Return the requests of some traffic; lengths and concurrency are those of the scenario.

    Args:
        traffic: What arrives.
        scenario: isl, osl and concurrency of generated requests.

    Raises:
        InvalidSpecError: Two fields contradict each other, or the file of requests is wrong.
    """
    _refuse_contradictions(traffic, scenario)
    closed = _is_closed(traffic, scenario)
    concurrency = (scenario.concurrency or 0) if closed else 0
    if traffic.requests is not None:
        return _read(traffic)._replace(concurrency=concurrency)
    drawn = generated(traffic, scenario, closed=closed)
    return Arriving(drawn.requests, concurrency, (drawn.said,), ())


def _is_closed(traffic: Traffic, scenario: Scenario) -> bool:
    if traffic.arrival is not None:
        return traffic.arrival == "closed"
    return scenario.concurrency is not None and traffic.request_rate is None


def _refuse_contradictions(traffic: Traffic, scenario: Scenario) -> None:
    closed = _is_closed(traffic, scenario)
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
    if traffic.burstiness is not None and traffic.arrival != "gamma":
        raise InvalidSpecError(f"burstiness = {traffic.burstiness:g} is that of arrival = gamma")
    if traffic.length_spread is not None and traffic.length_distribution == "fixed":
        raise InvalidSpecError(
            f"length_spread = {traffic.length_spread:g}: lengths are fixed; set"
            " length_distribution to uniform or lognormal"
        )
    if traffic.requests is not None:
        _refuse_lengths_of_files(traffic, scenario)


def _refuse_lengths_of_files(traffic: Traffic, scenario: Scenario) -> None:
    """Refuse what only generated requests read: those of a file have times and lengths."""
    given: list[str] = [name for name in OF_GENERATED if name in traffic.model_fields_set]
    given += [name for name in ("isl", "osl") if name in scenario.model_fields_set]
    if traffic.arrival not in (None, "closed"):
        given.append("arrival")
    if given:
        raise InvalidSpecError(f"{given[0]} is of generated requests, and these are of a file")


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
