"""Fields of traffic: arrivals, lengths, scheduler and objectives."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Final, Literal

from perfatlas.quantities import InvalidSpecError
from perfatlas.vocabulary.fields import conditions
from perfatlas.vocabulary.fields.clusters import SEED
from perfatlas.vocabulary.fields.limits import FRONT_END
from perfatlas.vocabulary.fields.numbers import Count, Number, SizeOrZero
from perfatlas.vocabulary.fields.rows import Checked, InputFile, Text, group

MAX_GENERATED_REQUESTS: Final = 20_000_000  # of a simulation: about 8 GB of rows
Positive = Annotated[float, Number(above=0.0)]
Rate = Annotated[float, Number(unit="1/s", above=0.0, finite=False)]
Objective = Annotated[float, Number(unit="s", above=0.0, finite=False)]
Elapsed = Annotated[float, Number(unit="s", at_least=0.0)]
File = Annotated[str, Text(), InputFile()]
Scheduler = Literal[
    "vllm", "sglang", "trtllm_guaranteed_no_evict", "trtllm_max_utilization", "static"
]
GENERATED: Final = conditions.NotSet("requests", "replaces generated requests")
FROM_FILE: Final = conditions.AnySet("requests", example="trace.jsonl")
TOKENS: Final[conditions.Fact] = conditions.Fact("tokens")
GENERATED_TOKENS: Final = conditions.AllOf(GENERATED, TOKENS)
ARRIVALS_WITHOUT_SPACING: Final = ("poisson", "ramp", "closed")
RAMP: Final = conditions.AllOf(GENERATED, conditions.Equals("arrival", "ramp"))


def check_request_file(text: str) -> str:
    """Return the name of a request trace unchanged."""
    if text.strip().isdecimal():
        raise InvalidSpecError(
            f"{text} is a number: requests takes the file of a request trace, such as trace.jsonl;"
            f" for a number of generated requests use num_requests = {text}"
        )
    return text


RequestFile = Annotated[str, Text(), InputFile(), Checked(check_request_file)]


@group("Serving", 1)
class SimulatedServing:
    """Serving mode."""

    mode: Literal["aggregated", "disaggregated"] = "aggregated"


@group("Traffic", 2)
class Arrivals:
    """Requests read from a file, or generated."""

    requests: RequestFile | None = None
    request_format: Annotated[
        str, conditions.AnySet("requests", "lengths_from", example="trace.jsonl")
    ] = "perfatlas"
    request_rate: Rate | None = None
    num_requests: Count | None = None
    sampling_precision: Annotated[
        Annotated[float, Number(unit="fraction", at_least=0.001, at_most=1.0)],
        conditions.Fact("steady rate"),
    ] = 0.05
    arrival: Annotated[
        Literal["poisson", "gamma", "constant", "ramp", "closed"] | None,
        conditions.AllOf(
            conditions.AnyOf(GENERATED, conditions.Equals("arrival", "closed")),
            conditions.WithMessage(
                conditions.AnyOf(
                    conditions.NotEqual("request_rate", math.inf),
                    conditions.Equals("arrival", *ARRIVALS_WITHOUT_SPACING),
                ),
                "request_rate = inf sends all at once",
                "set a finite request_rate",
                "a finite request_rate",
            ),
        ),
    ] = None
    sessions: Annotated[Count | None, TOKENS] = None
    session_start: Annotated[
        Literal["beginning", "middle"] | None, conditions.AnySet("sessions", example="64")
    ] = None
    max_pause_s: Annotated[Elapsed | None, FROM_FILE] = None
    burstiness: Annotated[
        Positive | None, conditions.AllOf(GENERATED, conditions.Equals("arrival", "gamma"))
    ] = None
    ramp_to_rate: Annotated[Annotated[float, Number(unit="1/s", at_least=0.0)] | None, RAMP] = None
    ramp_s: Annotated[Elapsed | None, RAMP] = None
    turns: Annotated[Count, GENERATED_TOKENS] = 1
    think_time_s: Annotated[
        Elapsed,
        conditions.AllOf(
            GENERATED,
            conditions.WithMessage(conditions.NotEqual("turns", 1), "turns = 1", "set turns"),
        ),
    ] = 0.0
    shared_prefix: Annotated[SizeOrZero, GENERATED_TOKENS] = 0
    length_distribution: Annotated[
        Literal["fixed", "uniform", "lognormal", "empirical"] | None, GENERATED_TOKENS
    ] = None
    length_spread: Annotated[
        Annotated[float, Number(unit="ratio", at_least=0.0, finite=False)] | None,
        conditions.AllOf(
            GENERATED, conditions.Equals("length_distribution", "uniform", "lognormal")
        ),
    ] = None
    lengths_from: Annotated[File | None, GENERATED_TOKENS] = None
    rate_scale: Annotated[Positive, FROM_FILE] = 1.0
    length_scale: Annotated[Positive, FROM_FILE] = 1.0
    requests_from_s: Annotated[Elapsed, FROM_FILE] = 0.0
    requests_to_s: Annotated[Objective | None, FROM_FILE] = None
    spread_batches: Annotated[bool, FROM_FILE] = False
    seed: Annotated[
        Annotated[int, Number(at_least=0, at_most=2**63 - 1)],
        replace(SEED, needs=conditions.Noted(conditions.Fact("random draws"))),
    ] = 0
    num_seeds: Annotated[
        Annotated[int, Number(at_least=1, at_most=1000)], conditions.Fact("random draws")
    ] = 1
    prompt_text: Annotated[Literal["natural", "random"], FRONT_END] = "natural"


@group("Scheduler", 3)
class Scheduling:
    """Scheduling in the engine."""

    prefix_caching: Annotated[bool | None, TOKENS] = None
    scheduler: Annotated[Scheduler | None, TOKENS] = None
    chunked_prefill: Annotated[bool | None, TOKENS] = None
    measured_at: Literal["client", "engine"] = "client"


@group("Service-level objectives", 4)
class Objectives:
    """Latency objectives."""

    slo_ttft_s: Annotated[Objective | None, TOKENS] = None
    slo_tpot_s: Annotated[Objective | None, TOKENS] = None
    slo_itl_s: Annotated[Objective | None, TOKENS] = None
    slo_request_latency_s: Objective | None = None
    slo_percentile: Annotated[
        Annotated[float, Number(unit="percent", above=0.0, below=100.0)] | None,
        conditions.Fact("search"),
    ] = None
