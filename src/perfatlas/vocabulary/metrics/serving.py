"""Metrics of inference: `estimate` and `simulate`."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.metrics.metric import Metric

ESTIMATE: Final = ("estimate", "estimate --frontier")
FIND: Final = "simulate --find-rate"
SIMULATE: Final = ("simulate", FIND)
BOTH: Final = (*ESTIMATE, *SIMULATE)
# parts of the time of a request, in the order in which they pass
SPENT: Final = {
    "http": "HTTP",
    "tokenize": "tokenization (incl. queueing)",
    "stream": "output streaming (incl. queueing)",
    "queue": "queue",
    "prompt": "own prefill",
    "shared": "batched steps",
    "decode": "own decode",
    "interference": "prefill interference",
    "preemption": "preemption",
    "transfer": "KV cache transfer",
    "join": "joining the decode batch",
    "failure": "failed attempts",
    "load": "KV cache offload transfers",
}
TO_FIRST_TOKEN: Final = {
    name: label
    for name, label in SPENT.items()
    if name not in ("decode", "interference", "preemption")
}

LATENCIES: Final = (
    Metric(
        name="ttft_s",
        label="time to first token (TTFT)",
        short="TTFT",
        unit="s",
        shown="scaled",
        better="lower",
        has_interval=True,
        verbs=BOTH,
        statistics_of=SIMULATE,
        description="From the arrival of a request to its first output token.",
    ),
    Metric(
        name="tpot_s",
        label="time per output token (TPOT)",
        short="TPOT",
        unit="s",
        shown="scaled",
        better="lower",
        has_interval=True,
        verbs=BOTH,
        statistics_of=SIMULATE,
        description="(request latency - TTFT) / (output tokens - 1) of a request.",
    ),
    Metric(
        name="itl_s",
        label="inter-token latency (ITL)",
        short="ITL",
        unit="s",
        shown="scaled",
        better="lower",
        has_interval=True,
        verbs=SIMULATE,
        statistics_of=SIMULATE,
        description="Between two output tokens of a request; statistics are over all tokens.",
    ),
    Metric(
        name="request_latency_s",
        label="request latency",
        short="latency",
        unit="s",
        shown="scaled",
        better="lower",
        has_interval=True,
        verbs=BOTH,
        statistics_of=SIMULATE,
        description="From the arrival of a request to its last output token.",
    ),
    Metric(
        name="queue_s",
        label="queueing time",
        short="queue",
        unit="s",
        shown="scaled",
        better="lower",
        has_interval=True,
        verbs=SIMULATE,
        statistics_of=SIMULATE,
        description="From the queue of an engine to the first step with a token of the request.",
    ),
    Metric(
        name="kv_transfer_s",
        label="KV cache transfer time",
        short="transfer",
        unit="s",
        shown="scaled",
        better="lower",
        has_interval=True,
        verbs=("estimate", *SIMULATE),
        statistics_of=SIMULATE,
        description="From the end of a prompt to the arrival of its cache at a decode worker.",
    ),
)
TAILS: Final = (
    Metric(
        name="tail_ttft_s",
        label="TTFT of the slowest 1 % of requests",
        short="tail TTFT",
        unit="s",
        shown="scaled",
        better="lower",
        holds="object",
        parts=TO_FIRST_TOKEN,
        verbs=SIMULATE,
        description="Mean time to first token of the slowest 1 % of requests by TTFT, by cause.",
    ),
    Metric(
        name="tail_request_latency_s",
        label="latency of the slowest 1 % of requests",
        short="tail latency",
        unit="s",
        shown="scaled",
        better="lower",
        holds="object",
        parts=SPENT,
        verbs=SIMULATE,
        description="Mean latency of the slowest 1 % of requests by latency, by cause.",
    ),
)
RATES: Final = (
    Metric(
        name="output_tokens_per_s_per_gpu",
        label="output tokens/s per GPU",
        short="tokens/s/GPU",
        unit="tokens/s/GPU",
        better="higher",
        has_interval=True,
        verbs=BOTH,
        description="Output tokens per second over all GPUs of the deployment.",
    ),
    Metric(
        name="output_tokens_per_s_per_user",
        label="output tokens/s per user",
        short="tokens/s/user",
        unit="tokens/s/user",
        better="higher",
        has_interval=True,
        verbs=ESTIMATE,
        description="Output tokens per second that one user sees: 1 / TPOT.",
    ),
    Metric(
        name="output_tokens_per_s",
        label="output tokens/s",
        short="tokens/s",
        unit="tokens/s",
        better="higher",
        has_interval=True,
        verbs=SIMULATE,
        description="Output tokens of completed requests over the makespan.",
    ),
    Metric(
        name="requests_per_s",
        label="requests/s",
        unit="requests/s",
        better="higher",
        has_interval=True,
        verbs=SIMULATE,
        description="Completed requests over the makespan.",
    ),
    Metric(
        name="goodput_requests_per_s",
        label="goodput (requests/s within SLOs)",
        short="goodput /s",
        unit="requests/s",
        better="higher",
        has_interval=True,
        verbs=SIMULATE,
        description="Completed requests that meet all objectives over the makespan.",
    ),
    Metric(
        name="slo_attainment",
        label="SLO attainment",
        unit="1",
        shown="share",
        better="higher",
        has_interval=True,
        verbs=SIMULATE,
        description="Share of requests that complete and meet all objectives.",
    ),
    Metric(
        name="max_requests_per_s",
        label="largest request rate within SLOs [1/s]",
        short="largest rate /s",
        unit="requests/s",
        better="higher",
        has_interval=True,
        verbs=(FIND,),
        description="Largest request rate at which all objectives are met; null if interrupted.",
    ),
    Metric(
        name="met_requests_per_s",
        label="largest rate known to meet SLOs [1/s]",
        short="met at /s",
        unit="requests/s",
        better="higher",
        verbs=(FIND,),
        description="Of an interrupted search: the largest rate known to meet all objectives.",
    ),
    Metric(
        name="missed_requests_per_s",
        label="smallest rate known to miss SLOs [1/s]",
        short="missed at /s",
        unit="requests/s",
        better="higher",
        verbs=(FIND,),
        description="Of an interrupted search: the smallest rate known to miss an objective.",
    ),
)
UTILIZATION: Final = (
    Metric(
        name="prefill_mfu",
        label="MFU of a full prefill chunk",
        short="prefill MFU",
        unit="1",
        shown="share",
        better="higher",
        verbs=ESTIMATE,
        description=(
            "Model FLOP utilization of a full prefill chunk on one GPU: FLOP of its tokens with"
            " causal attention over its time at the dense peak of the GEMM format."
        ),
    ),
    Metric(
        name="prefill_mbu",
        label="MBU of a full prefill chunk",
        short="prefill MBU",
        unit="1",
        shown="share",
        better="higher",
        verbs=ESTIMATE,
        description=(
            "Model bandwidth utilization of a full prefill chunk on one GPU: bytes of weights and"
            " KV cache that it reads over its time at the memory bandwidth."
        ),
    ),
    Metric(
        name="decode_mfu",
        label="MFU of a decode step",
        short="decode MFU",
        unit="1",
        shown="share",
        better="higher",
        verbs=ESTIMATE,
        description=(
            "Model FLOP utilization of a decode step on one GPU: FLOP of its tokens, without the"
            " padding of the batch, over its time at the dense peak of the GEMM format."
        ),
    ),
    Metric(
        name="decode_mbu",
        label="MBU of a decode step",
        short="decode MBU",
        unit="1",
        shown="share",
        better="higher",
        verbs=ESTIMATE,
        description=(
            "Model bandwidth utilization of a decode step on one GPU: bytes of weights and"
            " KV cache that it reads over its time at the memory bandwidth."
        ),
    ),
)
RUN: Final = (
    Metric(
        name="makespan_s",
        label="makespan",
        unit="s",
        shown="scaled",
        better="lower",
        has_interval=True,
        verbs=SIMULATE,
        description="From the first arrival to the last output token.",
    ),
    Metric(
        name="requests_completed",
        label="requests completed",
        short="completed",
        better="higher",
        holds="count",
        verbs=SIMULATE,
        description="Requests whose last output token was generated.",
    ),
    Metric(
        name="requests_rejected",
        label="requests rejected",
        short="rejected",
        better="lower",
        holds="count",
        verbs=SIMULATE,
        description="Requests that need more KV cache than there is.",
    ),
    Metric(
        name="preemptions",
        label="preemptions",
        better="lower",
        holds="count",
        verbs=(*SIMULATE, "fleet schedule"),
        description="How often running requests, or jobs, were preempted.",
    ),
    Metric(
        name="steps",
        label="steps",
        holds="count",
        verbs=SIMULATE,
        description="Steps that engines ran.",
    ),
    Metric(
        name="prefix_hit_rate",
        label="prefix hit rate",
        unit="1",
        shown="share",
        better="higher",
        verbs=SIMULATE,
        description="Share of the prompt tokens of completed requests found in a cache.",
    ),
    Metric(
        name="saturated",
        label="saturated",
        better="lower",
        holds="flag",
        verbs=SIMULATE,
        description="Whether requests come faster than they are served: the queue grows.",
    ),
    Metric(
        name="interrupted",
        label="interrupted",
        better="lower",
        holds="flag",
        verbs=(*SIMULATE, "fleet schedule"),
        description="Whether the run was stopped before its end.",
    ),
    Metric(
        name="utilization",
        label="replica utilization",
        short="utilization",
        unit="1",
        shown="share",
        verbs=SIMULATE,
        description="Share of the makespan in which an engine runs steps, the mean over engines.",
    ),
    Metric(
        name="seeds_simulated",
        label="seeds simulated",
        short="seeds",
        holds="count",
        verbs=SIMULATE,
        description="Seeds that results are means over.",
    ),
    Metric(
        name="series",
        label="state over time",
        holds="object",
        verbs=SIMULATE,
        description="The state of all schedulers over time, in bins of equal width.",
    ),
)
DEPLOYMENT: Final = (
    Metric(
        name="gpus",
        label="GPUs",
        holds="count",
        verbs=(*BOTH, "goodput", "fleet schedule"),
        description="GPUs of the deployment, the job or the cluster.",
    ),
    Metric(
        name="method",
        label="method",
        holds="text",
        verbs=("estimate", "goodput"),
        description="How the answer was computed: a closed form by name, or simulate.",
    ),
    Metric(
        name="prefill_steps",
        label="prefill steps",
        holds="count",
        verbs=ESTIMATE,
        description="Steps that a prompt is computed in.",
    ),
    Metric(
        name="kv_capacity_tokens",
        label="KV cache capacity [tokens]",
        short="KV tokens",
        unit="tokens",
        better="higher",
        holds="count",
        verbs=SIMULATE,
        description="Tokens that the KV cache of one replica or decode worker holds.",
    ),
    Metric(
        name="kv_blocks",
        label="KV cache blocks",
        short="KV blocks",
        better="higher",
        holds="count",
        verbs=SIMULATE,
        description="Blocks of that cache.",
    ),
)
SERVING: Final = (*LATENCIES, *TAILS, *RATES, *UTILIZATION, *RUN, *DEPLOYMENT)
