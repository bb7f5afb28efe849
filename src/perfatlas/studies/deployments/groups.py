"""Fields of a search: the space, the lengths of requests, and the objective with its limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final, Literal

from perfatlas.quantities import did_you_mean, repr_for_error
from perfatlas.vocabulary import fields

Limit = Annotated[float, fields.Number(unit="s", above=0.0, finite=False)]
MAX_PLANS: Final = 100
# Metric of each SLO; the mean inter-token latency of a request is its TPOT.
LATENCIES: Final = {
    "slo_ttft_s": "ttft_s",
    "slo_tpot_s": "tpot_s",
    "slo_itl_s": "tpot_s",
    "slo_request_latency_s": "request_latency_s",
}
LIMITS: Final = (
    *LATENCIES,
    "max_usd_per_million_tokens",
    "max_accuracy_loss",
    "max_deployment_power_w",
    "request_rate",
)  # fields that a deployment must meet
ONLY: Final = "sets a single format"
MIXED: Final = fields.AllOf(
    fields.TOKENS, fields.Equals("mode", "aggregated", "disaggregated")
)  # static batches have equal requests
OBJECTIVES: Final = (
    "output_tokens_per_s_per_gpu",
    "gpus",
    "request_latency_s",
    "usd_per_million_output_tokens",
    "energy_per_output_token_j",
    "accuracy_delta",
)
MAX_OBJECTIVES: Final = 4
SIMULATED_SLO: Final = fields.AllOf(
    fields.AnySet(*LATENCIES, example="1"),
    fields.NotEqual("mode", "static"),
    fields.WithMessage(
        fields.NotEqual("num_simulated", 0),
        "num_simulated = 0, and closed forms have no percentiles",
        "set num_simulated",
        "num_simulated above 0",
    ),
)


def _read_objectives(value: object) -> object:
    """Return the objectives divided by commas, as they are written in an answer."""
    names = fields.read_names(value)
    if not isinstance(names, tuple):
        return names
    objectives = [str(name).strip().casefold().replace("-", "_") for name in names]
    for name in objectives:
        if name not in OBJECTIVES:
            raise ValueError(
                f"{repr_for_error(name)} is not one of {', '.join(OBJECTIVES)}"
                f"{did_you_mean(name, OBJECTIVES)}"
            )
    if len(set(objectives)) < len(objectives) or not 1 <= len(objectives) <= MAX_OBJECTIVES:
        raise ValueError(
            f"{repr_for_error(','.join(objectives))}: expected one to {MAX_OBJECTIVES} different"
            " objectives, divided by commas"
        )
    return ",".join(objectives)


@fields.group("Search", 1)
class SearchSpace:
    """What is searched."""

    mode: Literal["static", "aggregated", "disaggregated"] = "aggregated"
    systems: fields.Names | None = None
    max_gpus: Annotated[int, fields.Number(at_least=1, at_most=10**9)] | None = None
    formats: Annotated[
        fields.Names | None,
        fields.AllOf(fields.NotSet("format", ONLY), fields.NotSet("gemm_format", ONLY)),
    ] = None
    kv_formats: Annotated[
        fields.Names | None, fields.AllOf(fields.TOKENS, fields.NotSet("kv_format", ONLY))
    ] = None
    choices: fields.Names | None = None


@fields.group("Load", 2)
class RequestLengths:
    """Requests of several lengths."""

    request_mix: Annotated[
        fields.Names | None,
        fields.AllOf(MIXED, fields.NotSet("lengths_from", "gives the lengths too")),
    ] = None
    lengths_from: Annotated[fields.File | None, MIXED] = None
    request_format: Annotated[str, fields.AnySet("lengths_from", example="trace.jsonl")] = (
        "perfatlas"
    )
    routing: Annotated[
        Literal["round_robin", "prefix_aware"],
        fields.AllOf(
            fields.AnySet("lengths_from", example="trace.jsonl"),
            fields.Equals("mode", "aggregated"),
        ),
    ] = "round_robin"
    prefix_caching: Annotated[
        bool | None,
        fields.WithMessage(
            fields.AnyOf(
                fields.NotEqual("prefix", 0),
                fields.AnySet("lengths_from", example="trace.jsonl"),
            ),
            "prefix = 0, and prompts share nothing",
            "set prefix, the cached part of a prompt, or lengths_from, a trace with repeated"
            " prompts",
            "prefix",
        ),
    ] = None


@fields.group("Objective", 2)
class BestPlan:
    """What the best plan is, and the latencies that it must keep."""

    objective: Annotated[str, fields.Written(_read_objectives)] = "output_tokens_per_s_per_gpu"
    slo_ttft_s: Annotated[Limit | None, fields.TOKENS] = None
    slo_tpot_s: Annotated[Limit | None, fields.TOKENS] = None
    slo_itl_s: Annotated[Limit | None, fields.TOKENS] = None
    slo_request_latency_s: Limit | None = None


@fields.group("Objective", 2)
class SearchObjective(BestPlan):
    """What the best deployment is."""

    slo_percentile: Annotated[
        Annotated[float, fields.Number(unit="percent", at_least=50.0, at_most=99.9)] | None,
        SIMULATED_SLO,
    ] = None
    max_usd_per_million_tokens: Annotated[
        Annotated[float, fields.Number(above=0.0, at_most=1e9)] | None, fields.TOKENS
    ] = None
    max_accuracy_loss: Annotated[
        Annotated[float, fields.Number(unit="points", at_least=0.0, at_most=100.0)] | None,
        fields.TOKENS,
    ] = None
    max_deployment_power_w: Annotated[
        Annotated[float, fields.Number(unit="W", above=0.0, at_most=1e11)] | None,
        fields.AllOf(fields.TOKENS, fields.Equals("mode", "static", "aggregated")),
    ] = None
    solve: Annotated[fields.Names | None, fields.TOKENS] = None
    max_power_w: Annotated[
        Annotated[float, fields.Number(above=0.0, at_most=1e6)] | None,
        fields.AnySet("solve", example="device.memory.bandwidth"),
    ] = None
    max_die_area_mm2: Annotated[
        Annotated[float, fields.Number(above=0.0, at_most=1e6)] | None,
        fields.AnySet("solve", example="device.memory.bandwidth"),
    ] = None
    request_rate: Annotated[float, fields.Number(unit="1/s", above=0.0)] | None = None
    availability: Annotated[
        Annotated[float, fields.Number(unit="fraction", above=0.0, below=1.0)] | None,
        fields.AllOf(fields.Equals("objective", "gpus"), fields.Equals("mode", "aggregated")),
    ] = None
    node_mtbf_s: Annotated[
        fields.Duration | None,
        replace(
            fields.NODE_MTBF, needs=fields.AnySet("availability", example="0.999"), common=False
        ),
    ] = None
    repair_s: Annotated[
        fields.Duration | None,
        replace(
            fields.NODE_REPAIR, needs=fields.AnySet("availability", example="0.999"), common=False
        ),
    ] = None
    min_slo_probability: Annotated[
        Annotated[float, fields.Number(unit="fraction", above=0.0, below=1.0)],
        fields.WithMessage(
            fields.AnySet(*LIMITS), "there is no limit", "set an SLO or request_rate"
        ),
    ] = 0.8
    emit: Annotated[Literal["vllm", "sglang", "trtllm", "dynamo"] | None, fields.TOKENS] = None
    num_simulated: Annotated[int, fields.Number(at_least=0, at_most=MAX_PLANS)] = 20
    num_plans: Annotated[int, fields.Number(at_least=1, at_most=MAX_PLANS)] = 5
