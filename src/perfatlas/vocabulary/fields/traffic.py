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
from perfatlas.vocabulary.fields.rows import Checked, InputFile, Row, Text, group

MOST_GENERATED_REQUESTS: Final = 20_000_000  # of a simulation: about 8 GB of rows
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

    mode: Annotated[
        Literal["aggregated", "disaggregated"],
        Row(
            "Serving mode: continuous batching, or separate prefill and decode pools.", common=True
        ),
    ] = "aggregated"


@group("Traffic", 2)
class Arrivals:
    """Requests read from a file, or generated."""

    requests: Annotated[
        RequestFile | None,
        Row(
            "Request trace: CSV, Parquet or JSON Lines with arrival_s, isl and osl.",
            elsewhere=("trace_file", "dataset", "dataset_path", "workload"),
            common=True,
        ),
    ] = None
    request_format: Annotated[
        str,
        Row(
            "Format of the trace: perfatlas, azure, mooncake, vllm or aiperf.",
            needs=conditions.AnySet("requests", "lengths_from", example="trace.jsonl"),
        ),
    ] = "perfatlas"
    request_rate: Annotated[
        Rate | None,
        Row(
            "Rate of generated requests [1/s]; inf sends all at once.",
            elsewhere=("rate", "qps", "rps"),
            common=True,
        ),
    ] = None
    num_requests: Annotated[
        Count | None,
        Row(
            f"Requests to generate, at most {MOST_GENERATED_REQUESTS:,}, or to read from the trace."
            " Setting it keeps a fixed sample that starts from an empty system.",
            default="as many as sampling_precision needs; 10 per request in flight, at least 1000",
            elsewhere=("num_prompts", "request_count"),
            common=True,
        ),
    ] = None
    sampling_precision: Annotated[
        Annotated[float, Number(unit="fraction", at_least=0.001, at_most=1.0)],
        Row(
            "Relative half-width of the 90% confidence interval of mean TTFT and TPOT that sets the"
            " number of requests; twice that for the p99 of TTFT.",
            needs=conditions.Fact("steady rate"),
        ),
    ] = 0.05
    arrival: Annotated[
        Literal["poisson", "gamma", "constant", "ramp", "closed"] | None,
        Row(
            "Arrival process of generated requests.",
            default="poisson, closed with concurrency",
            needs=conditions.AllOf(
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
        ),
    ] = None
    burstiness: Annotated[
        Positive | None,
        Row(
            "Burstiness of gamma arrivals (1 = Poisson, below 1 = bursty).",
            needs=conditions.AllOf(GENERATED, conditions.Equals("arrival", "gamma")),
        ),
    ] = None
    ramp_to_rate: Annotated[
        Annotated[float, Number(unit="1/s", at_least=0.0)] | None,
        Row("Final rate of ramp arrivals [1/s].", needs=RAMP),
    ] = None
    ramp_s: Annotated[
        Elapsed | None, Row("Duration of the ramp from request_rate to ramp_to_rate.", needs=RAMP)
    ] = None
    turns: Annotated[
        Count,
        Row(
            "Turns per session; each prompt contains the conversation so far, and is sent after"
            " the previous answer.",
            needs=GENERATED_TOKENS,
        ),
    ] = 1
    think_time_s: Annotated[
        Elapsed,
        Row(
            "Mean think time between an answer and the next turn, exponentially distributed.",
            needs=conditions.AllOf(
                GENERATED,
                conditions.WithMessage(conditions.NotEqual("turns", 1), "turns = 1", "set turns"),
            ),
        ),
    ] = 0.0
    shared_prefix: Annotated[
        SizeOrZero,
        Row(
            "Prefix tokens shared by all generated prompts, in addition to isl.",
            needs=GENERATED_TOKENS,
        ),
    ] = 0
    length_distribution: Annotated[
        Literal["fixed", "uniform", "lognormal", "empirical"] | None,
        Row(
            "Distribution of generated lengths.",
            "fixed",
            GENERATED_TOKENS,
        ),
    ] = None
    length_spread: Annotated[
        Annotated[float, Number(unit="ratio", at_least=0.0, finite=False)] | None,
        Row(
            "Spread of generated lengths: relative half-width (uniform), or sigma (lognormal).",
            needs=conditions.AllOf(
                GENERATED, conditions.Equals("length_distribution", "uniform", "lognormal")
            ),
        ),
    ] = None
    lengths_from: Annotated[
        File | None,
        Row("Trace from which empirical lengths are drawn.", needs=GENERATED_TOKENS),
    ] = None
    rate_scale: Annotated[
        Positive, Row("Speed-up factor of trace arrival times.", needs=FROM_FILE)
    ] = 1.0
    length_scale: Annotated[
        Positive, Row("Scale factor of trace request lengths.", needs=FROM_FILE)
    ] = 1.0
    requests_from_s: Annotated[
        Elapsed, Row("Start of the used window of the trace.", needs=FROM_FILE)
    ] = 0.0
    requests_to_s: Annotated[
        Objective | None,
        Row("End of the used window of the trace.", "the end", FROM_FILE),
    ] = None
    spread_batches: Annotated[
        bool,
        Row(
            "Spread trace requests with equal timestamps evenly up to the next timestamp.",
            needs=FROM_FILE,
        ),
    ] = False
    seed: Annotated[
        Annotated[int, Number(at_least=0, at_most=2**63 - 1)],
        replace(SEED, needs=conditions.Noted(conditions.Fact("random draws"))),
    ] = 0
    num_seeds: Annotated[
        Annotated[int, Number(at_least=1, at_most=1000)],
        Row(
            "Number of simulations, with seeds seed, seed + 1, ...: means with confidence"
            " intervals.",
            needs=conditions.Fact("random draws"),
        ),
    ] = 1
    prompt_text: Annotated[
        Literal["natural", "random"],
        Row(
            "Prompt text: natural language, or random tokens, which tokenize more slowly.",
            needs=FRONT_END,
        ),
    ] = "natural"


@group("Scheduler", 3)
class Scheduling:
    """Scheduling in the engine."""

    prefix_caching: Annotated[
        bool | None,
        Row(
            "Reuse KV blocks of shared prefixes.",
            default="on if prompts share prefixes",
            needs=TOKENS,
            elsewhere=("enable_prefix_caching", "enable_radix_cache"),
        ),
    ] = None
    scheduler: Annotated[Scheduler | None, Row("Scheduling policy.", "the engine's", TOKENS)] = None
    chunked_prefill: Annotated[
        bool | None,
        Row(
            "Split prompts over several steps.",
            default="the engine's",
            needs=TOKENS,
            elsewhere=("enable_chunked_prefill", "enable_chunked_context"),
        ),
    ] = None
    measured_at: Annotated[
        Literal["client", "engine"],
        Row("Where latencies are measured: at an HTTP client, or inside the engine."),
    ] = "client"


@group("Service-level objectives", 4)
class Objectives:
    """Latency objectives."""

    slo_ttft_s: Annotated[
        Objective | None,
        Row(
            "SLO: maximum time to first token.",
            "none",
            TOKENS,
            elsewhere=("ttft", "max_ttft"),
            common=True,
        ),
    ] = None
    slo_tpot_s: Annotated[
        Objective | None,
        Row(
            "SLO: maximum time per output token after the first.",
            "none",
            TOKENS,
            elsewhere=("tpot", "max_tpot"),
            common=True,
        ),
    ] = None
    slo_itl_s: Annotated[
        Objective | None, Row("SLO: maximum mean inter-token latency of a request.", "none", TOKENS)
    ] = None
    slo_request_latency_s: Annotated[
        Objective | None, Row("SLO: maximum end-to-end latency of a request.", "none")
    ] = None
    slo_percentile: Annotated[
        Annotated[float, Number(unit="percent", above=0.0, below=100.0)] | None,
        Row(
            "Percentile that must meet the SLOs in a search for a rate or for replicas.",
            default="the mean",
            needs=conditions.Fact("search"),
        ),
    ] = None
