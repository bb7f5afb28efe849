"""The vocabulary of traffic, and the requests it describes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, ValidationError

from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.fields.cache_tiers import CacheTiers
from perfatlas.scenario.fields.operation import Operation
from perfatlas.scenario.fields.vocabulary import Count, Scenario, Tokens, sentences

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


def parse_traffic(fields: Mapping[str, Any]) -> Traffic:
    """Return the traffic of named fields; None and empty text count as not given.

    Raises:
        InvalidSpecError: A name is unknown or a value breaks its rule; all of them are named.

    Example:
        >>> from perfatlas.scenario.fields import parse_traffic
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
