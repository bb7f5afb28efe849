"""Fields of a search: the space, the lengths of requests, and the objective with its limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final, Literal

from perfatlas.quantities import did_you_mean, repr_for_error
from perfatlas.vocabulary import fields

Limit = Annotated[float, fields.Number(unit="s", above=0.0, finite=False)]
MOST_PLANS: Final = 100
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
MOST_OBJECTIVES: Final = 4
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
    known = [str(name).strip().casefold().replace("-", "_") for name in names]
    for name in known:
        if name not in OBJECTIVES:
            raise ValueError(
                f"{repr_for_error(name)} is not one of {', '.join(OBJECTIVES)}"
                f"{did_you_mean(name, OBJECTIVES)}"
            )
    if len(set(known)) < len(known) or not 1 <= len(known) <= MOST_OBJECTIVES:
        raise ValueError(
            f"{repr_for_error(','.join(known))}: expected one to {MOST_OBJECTIVES} different"
            " objectives, divided by commas"
        )
    return ",".join(known)


@fields.group("Search", 1)
class SearchSpace:
    """What is searched."""

    mode: Annotated[
        Literal["static", "aggregated", "disaggregated"],
        fields.Row(
            "Serving mode of the deployments: one batch, continuous batching, or separate prefill"
            " and decode pools.",
            common=True,
        ),
    ] = "aggregated"
    systems: Annotated[
        fields.Names | None,
        fields.Row(
            "Further systems to search besides system, such as b200_sxm,gb200; without system, all"
            " that are searched.",
            "none",
            common=True,
        ),
    ] = None
    max_gpus: Annotated[
        Annotated[int, fields.Number(at_least=1, at_most=10**9)] | None,
        fields.Row(
            "Maximum GPUs of a deployment, instead of gpus, up to 4096: as many replicas as fit, or"
            " as few as serve request_rate.",
            default="gpus",
            common=True,
        ),
    ] = None
    formats: Annotated[
        fields.Names | None,
        fields.Row(
            "Number formats of weights and matrix products to search, such as bf16,fp8.",
            default="format",
            needs=fields.AllOf(fields.NotSet("format", ONLY), fields.NotSet("gemm_format", ONLY)),
        ),
    ] = None
    kv_formats: Annotated[
        fields.Names | None,
        fields.Row(
            "Number formats of the KV cache to search, such as bf16,fp8.",
            default="kv_format",
            needs=fields.AllOf(fields.TOKENS, fields.NotSet("kv_format", ONLY)),
        ),
    ] = None
    choices: Annotated[
        fields.Names | None,
        fields.Row(
            "Values to search of other fields, such as tp=2:4,engine=vllm:sglang,"
            "redundant_experts=0:32: sizes of the plan, engine, expert_exchange, batch_overlap,"
            " redundant_experts, max_num_batched_tokens, speculative_depth.",
            default="all sizes and the values that are set",
        ),
    ] = None


@fields.group("Load", 2)
class RequestLengths:
    """Requests of several lengths."""

    request_mix: Annotated[
        fields.Names | None,
        fields.Row(
            "Classes of requests as input tokens:output tokens:weight, such as"
            " 4000:500:0.7,500:100:0.3, instead of isl and osl.",
            default="isl and osl",
            needs=fields.AllOf(MIXED, fields.NotSet("lengths_from", "gives the lengths too")),
        ),
    ] = None
    lengths_from: Annotated[
        fields.File | None,
        fields.Row(
            "Trace whose lengths of prompts and outputs the requests have, instead of isl and osl;"
            " its arrivals are not used.",
            default="isl and osl",
            needs=MIXED,
            elsewhere=("requests",),
        ),
    ] = None
    request_format: Annotated[
        str,
        fields.Row(
            "Format of the trace: perfatlas, azure, mooncake, vllm or aiperf.",
            needs=fields.AnySet("lengths_from", example="trace.jsonl"),
        ),
    ] = "perfatlas"
    routing: Annotated[
        Literal["round_robin", "prefix_aware"],
        fields.Row(
            "Which prefix cache a request of a trace meets: round_robin, that of each replica and"
            " attention-DP rank in turn, or prefix_aware, as if all were one cache.",
            needs=fields.AllOf(
                fields.AnySet("lengths_from", example="trace.jsonl"),
                fields.Equals("mode", "aggregated"),
            ),
        ),
    ] = "round_robin"
    prefix_caching: Annotated[
        bool | None,
        fields.Row(
            "Reuse KV blocks of the cached prefix of prompts.",
            default="both are searched",
            needs=fields.WithMessage(
                fields.AnyOf(
                    fields.NotEqual("prefix", 0),
                    fields.AnySet("lengths_from", example="trace.jsonl"),
                ),
                "prefix = 0, and prompts share nothing",
                "set prefix, the cached part of a prompt, or lengths_from, a trace with repeated"
                " prompts",
                "prefix",
            ),
            elsewhere=("enable_prefix_caching", "enable_radix_cache"),
        ),
    ] = None


@fields.group("Objective", 2)
class SearchObjective:
    """What the best deployment is."""

    objective: Annotated[
        str,
        fields.Written(_read_objectives),
        fields.Row(
            "Metric that ranks the deployments that meet all SLOs: output_tokens_per_s_per_gpu,"
            " gpus, request_latency_s, usd_per_million_output_tokens, energy_per_output_token_j or"
            " accuracy_delta; two to four of them, divided by commas, for their Pareto set.",
            common=True,
        ),
    ] = "output_tokens_per_s_per_gpu"
    slo_ttft_s: Annotated[
        Limit | None,
        fields.Row("SLO: maximum time to first token.", "none", fields.TOKENS, common=True),
    ] = None
    slo_tpot_s: Annotated[
        Limit | None,
        fields.Row(
            "SLO: maximum time per output token after the first.",
            "none",
            fields.TOKENS,
            common=True,
        ),
    ] = None
    slo_itl_s: Annotated[
        Limit | None,
        fields.Row("SLO: maximum mean inter-token latency of a request.", "none", fields.TOKENS),
    ] = None
    slo_request_latency_s: Annotated[
        Limit | None, fields.Row("SLO: maximum end-to-end latency of a request.", "none")
    ] = None
    slo_percentile: Annotated[
        Annotated[float, fields.Number(unit="percent", at_least=50.0, at_most=99.9)] | None,
        fields.Row(
            "Percentile of requests that must meet the latency SLOs when the best plans are"
            " simulated; closed forms, which have no percentiles, test the mean.",
            default="the mean",
            needs=SIMULATED_SLO,
        ),
    ] = None
    max_usd_per_million_tokens: Annotated[
        Annotated[float, fields.Number(above=0.0, at_most=1e9)] | None,
        fields.Row("Limit of the cost of a million output tokens [USD].", "none", fields.TOKENS),
    ] = None
    max_accuracy_loss: Annotated[
        Annotated[float, fields.Number(unit="points", at_least=0.0, at_most=100.0)] | None,
        fields.Row(
            "Limit of the points that number formats lose of benchmark, against bf16.",
            "none",
            fields.TOKENS,
        ),
    ] = None
    solve: Annotated[
        fields.Names | None,
        fields.Row(
            "Fields of the device to solve: the cheapest machine that meets the SLOs, with a range"
            " each if wanted, such as device.memory.bandwidth=2TB/s:16TB/s,device.l2; device.* for"
            " all that have a cost.",
            default="the machine is that of system",
            needs=fields.TOKENS,
        ),
    ] = None
    max_power_w: Annotated[
        Annotated[float, fields.Number(above=0.0, at_most=1e6)] | None,
        fields.Row(
            "Limit of the mean power of a GPU board of the solved machine [W].",
            default="none",
            needs=fields.AnySet("solve", example="device.memory.bandwidth"),
        ),
    ] = None
    max_die_area_mm2: Annotated[
        Annotated[float, fields.Number(above=0.0, at_most=1e6)] | None,
        fields.Row(
            "Limit of the area of a die of the solved machine [mm2].",
            default="the largest field of a scanner",
            needs=fields.AnySet("solve", example="device.memory.bandwidth"),
        ),
    ] = None
    request_rate: Annotated[
        Annotated[float, fields.Number(unit="1/s", above=0.0)] | None,
        fields.Row("Requests per second that the deployment must serve.", "none", common=True),
    ] = None
    availability: Annotated[
        Annotated[float, fields.Number(unit="fraction", above=0.0, below=1.0)] | None,
        fields.Row(
            "Fraction of time in which enough replicas for request_rate must work, such as 0.999:"
            " adds spare replicas, with node_mtbf_s and repair_s.",
            default="no spare replicas",
            needs=fields.AllOf(
                fields.Equals("objective", "gpus"), fields.Equals("mode", "aggregated")
            ),
        ),
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
        fields.Row(
            "Least probability with which a deployment must meet all SLOs and the request rate, by"
            " the intervals of its predictions; 0.5 tests the predictions themselves.",
            needs=fields.WithMessage(
                fields.AnySet(*LIMITS), "there is no limit", "set an SLO or request_rate"
            ),
        ),
    ] = 0.8
    emit: Annotated[
        Literal["vllm", "sglang", "trtllm", "dynamo"] | None,
        fields.Row(
            "Print the commands that launch the best plan, with the arguments that the"
            " documentation of this engine names; dynamo launches vLLM or"
            " TensorRT-LLM workers.",
            default="none",
            needs=fields.TOKENS,
            common=True,
        ),
    ] = None
    num_simulated: Annotated[
        Annotated[int, fields.Number(at_least=0, at_most=MOST_PLANS)],
        fields.Row(
            "Number of the best plans by closed forms that the serving simulator scores again, in"
            " modes aggregated and disaggregated; 0 for closed forms alone."
        ),
    ] = 20
    num_plans: Annotated[
        Annotated[int, fields.Number(at_least=1, at_most=MOST_PLANS)],
        fields.Row("Number of plans in the answer, best first."),
    ] = 5
