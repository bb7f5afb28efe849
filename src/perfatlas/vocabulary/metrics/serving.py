"""Metrics of inference: `estimate` and `simulate`."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.metrics.metric import Metric, reported_by

ESTIMATE: Final = ("estimate", "estimate --frontier", "estimate --explain")
FIND: Final = "simulate --find-rate"
FIND_REPLICAS: Final = "simulate --find-replicas"
# parts of the time of a request, in chronological order
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
SIMULATE: Final = ("simulate", FIND, FIND_REPLICAS)
SERVING_VERBS: Final = (*ESTIMATE, *SIMULATE)
IMAGES: Final = {"model": "Qwen/Qwen3-VL-8B-Instruct", "images": 1}

LATENCIES: Final = reported_by(
    Metric(
        name="ttft_s",
        label="time to first token (TTFT)",
        short="TTFT",
        better="lower",
        has_interval=True,
        statistics_of=SIMULATE,
        description="From the arrival of a request to its first output token.",
    ),
    Metric(
        name="tpot_s",
        label="time per output token (TPOT)",
        short="TPOT",
        better="lower",
        has_interval=True,
        statistics_of=SIMULATE,
        description="(request latency - TTFT) / (output tokens - 1) of a request.",
    ),
    Metric(
        name="itl_s",
        label="inter-token latency (ITL)",
        short="ITL",
        better="lower",
        has_interval=True,
        verbs=SIMULATE,
        statistics_of=SIMULATE,
        description="Time between output tokens of a request; statistics are over all tokens.",
    ),
    Metric(
        name="request_latency_s",
        label="request latency",
        short="latency",
        better="lower",
        has_interval=True,
        statistics_of=SIMULATE,
        description="From the arrival of a request to its last output token.",
    ),
    Metric(
        name="queue_s",
        label="queueing time",
        short="queue",
        better="lower",
        has_interval=True,
        verbs=SIMULATE,
        statistics_of=SIMULATE,
        description="From entry into the engine's queue to the first step of the request.",
    ),
    Metric(
        name="attention_busy",
        label="attention busy time",
        short="attention",
        shown="share",
        verbs=("estimate",),
        description="Share of a decode step in which the attention machines of split layers run.",
    ),
    Metric(
        name="feed_forward_busy",
        label="feed-forward busy time",
        short="feed-forward",
        shown="share",
        verbs=("estimate",),
        description="Share in which their feed-forward machines run; equal shares match the rates.",
    ),
    Metric(
        name="kv_transfer_s",
        label="KV cache transfer time",
        short="transfer",
        better="lower",
        has_interval=True,
        verbs=("estimate", *SIMULATE),
        statistics_of=SIMULATE,
        description="From the end of prefill to the arrival of the KV cache at a decode worker.",
    ),
    verbs=(*SERVING_VERBS, "search"),
)
OF_ITEMS: Final = ("estimate", "train", *SIMULATE)
PASSES: Final = reported_by(
    Metric(
        name="latency_s",
        label="latency of a batch",
        short="batch latency",
        better="lower",
        has_interval=True,
        description="Time of one pass of a network over a batch of items.",
    ),
    Metric(
        name="throughput_per_s",
        verbs=OF_ITEMS,
        label="items/s",
        better="higher",
        has_interval=True,
        description="Items per second over all copies of a network: images, sequences or others.",
    ),
    Metric(
        name="throughput_per_s_per_gpu",
        verbs=OF_ITEMS,
        label="items/s per GPU",
        short="items/s/GPU",
        better="higher",
        has_interval=True,
        description="Items per second over all GPUs of the deployment.",
    ),
    Metric(
        name="energy_per_item_j",
        verbs=OF_ITEMS,
        label="energy per item",
        short="J/item",
        better="lower",
        has_interval=True,
        description="Energy of all GPUs over the items.",
    ),
    Metric(
        name="usd_per_million_items",
        verbs=OF_ITEMS,
        label="cost per million items",
        short="cost/M items",
        better="lower",
        has_interval=True,
        description="Cost of the deployment per million items.",
    ),
    Metric(
        name="gco2_per_million_items",
        verbs=OF_ITEMS,
        label="carbon per million items",
        short="carbon/M items",
        better="lower",
        description="Carbon of the electricity of the deployment per million items.",
    ),
    Metric(
        name="item",
        verbs=OF_ITEMS,
        label="item",
        holds="text",
        asked_with={"model": "resnet-50"},
        description="What the items of a pass are, as the network declares it.",
    ),
    Metric(
        name="items_per_pass",
        verbs=SIMULATE,
        label="items per pass",
        better="higher",
        description="Mean number of requests that a pass of a network runs.",
    ),
    Metric(
        name="pass_mfu",
        label="MFU of a pass",
        shown="share",
        better="higher",
        description="FLOP of a pass over its time at the dense peak of the GEMM format.",
    ),
    Metric(
        name="pass_mbu",
        label="MBU of a pass",
        shown="share",
        better="higher",
        description="Bytes that kernels of a pass move over its time at the memory bandwidth.",
    ),
    verbs=("estimate",),
)
TAILS: Final = (
    Metric(
        name="tail_ttft_s",
        label="TTFT of the slowest 1% of requests",
        short="tail TTFT",
        better="lower",
        holds="object",
        parts=TO_FIRST_TOKEN,
        verbs=SIMULATE,
        description="Mean TTFT of the slowest 1% of requests by TTFT, by cause.",
    ),
    Metric(
        name="tail_request_latency_s",
        label="latency of the slowest 1% of requests",
        short="tail latency",
        better="lower",
        holds="object",
        parts=SPENT,
        verbs=SIMULATE,
        description="Mean latency of the slowest 1% of requests by latency, by cause.",
    ),
)
RATES: Final = reported_by(
    Metric(
        name="output_tokens_per_s_per_gpu",
        label="output tokens/s per GPU",
        short="tokens/s/GPU",
        better="higher",
        has_interval=True,
        verbs=(*SERVING_VERBS, "search"),
        description="Output tokens per second over all GPUs of the deployment.",
    ),
    Metric(
        name="output_tokens_per_s_per_user",
        label="output tokens/s per user",
        short="tokens/s/user",
        better="higher",
        has_interval=True,
        verbs=(*ESTIMATE, "search"),
        description="Output tokens per second for one user: 1 / TPOT.",
    ),
    Metric(
        name="output_tokens_per_s",
        label="output tokens/s",
        short="tokens/s",
        better="higher",
        has_interval=True,
        description="Output tokens of completed requests over the makespan.",
    ),
    Metric(
        name="requests_per_s",
        label="requests/s",
        better="higher",
        has_interval=True,
        description="Completed requests over the makespan.",
    ),
    Metric(
        name="goodput_requests_per_s",
        label="goodput (requests/s within SLOs)",
        short="goodput /s",
        better="higher",
        has_interval=True,
        description="Completed requests that meet all SLOs over the makespan.",
    ),
    Metric(
        name="slo_attainment",
        label="SLO attainment",
        shown="share",
        better="higher",
        has_interval=True,
        description="Share of requests that complete and meet all SLOs.",
    ),
    Metric(
        name="max_requests_per_s",
        label="largest request rate within SLOs [1/s]",
        short="largest rate /s",
        better="higher",
        has_interval=True,
        verbs=(FIND,),
        description="Largest request rate at which all SLOs are met; null if interrupted.",
    ),
    Metric(
        name="met_requests_per_s",
        label="largest rate known to meet SLOs [1/s]",
        short="met at /s",
        better="higher",
        verbs=(FIND,),
        description="After an interrupted search: largest rate known to meet all SLOs.",
    ),
    Metric(
        name="missed_requests_per_s",
        label="smallest rate known to miss SLOs [1/s]",
        short="missed at /s",
        better="higher",
        verbs=(FIND,),
        description="After an interrupted search: smallest rate known to miss an SLO.",
    ),
    verbs=SIMULATE,
)
REQUIRED: Final = {
    "replicas": (
        "smallest number of replicas within SLOs",
        "replicas needed",
        "Smallest number of",
    ),
    **{
        f"{pool}_workers": (f"{pool} workers needed", f"{pool} needed", "Of the fewest GPUs,")
        for pool in ("prefill", "decode")
    },
}
SIZES: Final = (
    *(
        Metric(
            name=f"required_{name}",
            label=label,
            short=short,
            better="lower",
            has_interval=True,
            holds="count",
            verbs=(FIND_REPLICAS,),
            description=f"{which} {name.replace('_', ' ')} with which all SLOs are met with 95%"
            " confidence.",
        )
        for name, (label, short, which) in REQUIRED.items()
    ),
)
RUN: Final = reported_by(
    Metric(
        name="makespan_s",
        label="makespan",
        better="lower",
        has_interval=True,
        description="From the first arrival to the last output token.",
    ),
    Metric(
        name="requests_completed",
        label="requests completed",
        short="completed",
        better="higher",
        holds="count",
        description="Requests that received their last output token.",
    ),
    Metric(
        name="requests_rejected",
        label="requests rejected",
        short="rejected",
        better="lower",
        holds="count",
        description="Requests that need more KV cache than the capacity.",
    ),
    Metric(
        name="preemptions",
        label="preemptions",
        better="lower",
        holds="count",
        verbs=(*SIMULATE, "fleet schedule"),
        description="Number of preemptions of running requests or jobs.",
    ),
    Metric(
        name="steps",
        label="steps",
        holds="count",
        description="Number of engine steps.",
    ),
    Metric(
        name="prefix_hit_rate",
        label="prefix hit rate",
        shown="share",
        better="higher",
        description="Share of the prompt tokens of completed requests found in a cache.",
    ),
    Metric(
        name="saturated",
        label="saturated",
        better="lower",
        holds="flag",
        description="Whether the request rate exceeds the capacity, so that the queue grows.",
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
        label="replica busy time",
        short="busy time",
        shown="share",
        description="Share of the makespan in which an engine runs steps, mean over engines. It is"
        " not the load: an engine with one request is busy too.",
    ),
    Metric(
        name="seeds_simulated",
        label="seeds simulated",
        short="seeds",
        holds="count",
        verbs=(*SIMULATE, "goodput"),
        description="Number of seeds that results are averaged over.",
    ),
    Metric(
        name="series",
        label="state over time",
        holds="object",
        description="State of all schedulers over time, in bins of equal width.",
    ),
    verbs=SIMULATE,
)
DEPLOYMENT: Final = (
    Metric(
        name="gpus",
        label="GPUs",
        holds="count",
        verbs=(
            *SERVING_VERBS,
            "search",
            "goodput",
            "goodput --frontier",
            "fleet schedule",
            "train",
            "search training",
        ),
        description="GPUs of the deployment, the job or the cluster.",
    ),
    Metric(
        name="method",
        label="method",
        holds="text",
        verbs=("estimate", "estimate --explain", "search", "goodput"),
        description="How the answer was computed: name of a closed form, or simulate.",
    ),
    Metric(
        name="prefill_steps",
        label="prefill steps",
        holds="count",
        verbs=ESTIMATE,
        description="Number of steps to prefill a prompt.",
    ),
    Metric(
        name="image_tokens",
        label="tokens of images",
        unit="tokens",
        holds="count",
        verbs=(*SERVING_VERBS, "search"),
        asked_with=IMAGES,
        description="Tokens that the images of a request add to its prompt.",
    ),
    Metric(
        name="encoder_time_s",
        label="vision encoder, in the prefill",
        short="vision encoder",
        better="lower",
        verbs=ESTIMATE,
        asked_with=IMAGES,
        description="Time to encode the images of a prompt, or of a static batch, in its prefill.",
    ),
    Metric(
        name="kv_capacity_tokens",
        label="KV cache capacity [tokens]",
        short="KV tokens",
        unit="tokens",
        better="higher",
        holds="count",
        verbs=SIMULATE,
        description="KV cache capacity of one replica or decode worker, in tokens.",
    ),
    Metric(
        name="kv_blocks",
        label="KV cache blocks",
        short="KV blocks",
        better="higher",
        holds="count",
        verbs=SIMULATE,
        description="Blocks of that KV cache.",
    ),
)
SERVING: Final = (*LATENCIES, *PASSES, *TAILS, *RATES, *SIZES, *RUN, *DEPLOYMENT)


UTILIZATION: Final = reported_by(
    Metric(
        name="prefill_mfu",
        label="MFU of a full prefill chunk",
        short="prefill MFU",
        shown="share",
        better="higher",
        description=(
            "Model FLOP utilization of a full prefill chunk on one GPU: FLOP of its tokens with"
            " causal attention over its time at the dense peak of the GEMM format."
        ),
    ),
    Metric(
        name="prefill_mbu",
        label="MBU of a full prefill chunk",
        short="prefill MBU",
        shown="share",
        better="higher",
        description=(
            "Model bandwidth utilization of a full prefill chunk on one GPU: bytes of weights and"
            " KV cache that it reads, of graphs of operators all that kernels move, over its time"
            " at the memory bandwidth."
        ),
    ),
    Metric(
        name="decode_mfu",
        label="MFU of a decode step",
        short="decode MFU",
        shown="share",
        better="higher",
        description=(
            "Model FLOP utilization of a decode step on one GPU: FLOP of its tokens, without the"
            " padding of the batch, over its time at the dense peak of the GEMM format."
        ),
    ),
    Metric(
        name="decode_mbu",
        label="MBU of a decode step",
        short="decode MBU",
        shown="share",
        better="higher",
        description=(
            "Model bandwidth utilization of a decode step on one GPU: bytes of weights and"
            " KV cache that it reads, of graphs of operators all that kernels move, over its time"
            " at the memory bandwidth."
        ),
    ),
    verbs=ESTIMATE,
)
