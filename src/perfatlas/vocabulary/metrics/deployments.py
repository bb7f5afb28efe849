"""Metrics of worker pools, kinds of replicas, replica operation, cache tiers and memory."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.metrics.metric import Metric, reported_by
from perfatlas.vocabulary.metrics.serving import ESTIMATE, SERVING_VERBS, SIMULATE

POOLS: Final = reported_by(
    Metric(
        name="prefill_utilization",
        label="prefill worker busy time",
        short="prefill busy time",
        shown="share",
        description="Share of the makespan in which a prefill worker runs steps, the mean.",
    ),
    Metric(
        name="decode_utilization",
        label="decode worker busy time",
        short="decode busy time",
        shown="share",
        description="Share of the makespan in which a decode worker runs steps, the mean.",
    ),
    Metric(
        name="prefill_kv_capacity_tokens",
        label="prefill KV cache capacity [tokens]",
        short="prefill KV tokens",
        unit="tokens",
        better="higher",
        holds="count",
        description="KV cache capacity of one prefill worker, in tokens.",
    ),
    Metric(
        name="prefill_kv_blocks",
        label="KV cache blocks of a prefill worker",
        short="prefill KV blocks",
        better="higher",
        holds="count",
        description="Blocks of that KV cache.",
    ),
    verbs=SIMULATE,
)
KINDS: Final = reported_by(
    Metric(
        name="kind",
        label="kind of replicas",
        short="kind",
        holds="object",
        description="Results of one kind of replicas, as kind_1, kind_2 and so on.",
    ),
    Metric(
        name="kind.system",
        label="system",
        holds="text",
        description="System of the kind.",
    ),
    Metric(
        name="kind.engine",
        label="engine",
        holds="text",
        description="Engine of the kind, with its version.",
    ),
    Metric(
        name="kind.tier",
        label="tier",
        holds="text",
        description="Pricing tier of the kind; times of tier bound are lower limits.",
    ),
    Metric(
        name="kind.replicas",
        label="replicas",
        holds="count",
        description="Number of replicas of the kind.",
    ),
    Metric(
        name="kind.requests",
        label="requests",
        holds="count",
        description="Number of requests routed to the kind.",
    ),
    Metric(
        name="kind.request_share",
        label="share of requests",
        shown="share",
        description="Share of all routed requests that went to the kind.",
    ),
    verbs=SIMULATE,
)
OPERATED: Final = reported_by(
    Metric(
        name="replica_time_s",
        label="total replica time",
        short="replica time",
        description="Time in which replicas were provisioned or in service, over all replicas.",
    ),
    Metric(
        name="replica_availability",
        label="replica availability",
        short="availability",
        shown="share",
        better="higher",
        description="Share of the time in which a replica is in service, the mean over replicas.",
    ),
    Metric(
        name="replicas_on_average",
        label="average replicas",
        short="replicas mean",
        better="lower",
        description="Replicas provisioned by the autoscaler, averaged over time.",
    ),
    Metric(
        name="replicas_at_most",
        label="peak replicas",
        better="lower",
        holds="count",
        description="Maximum of replicas provisioned by the autoscaler.",
    ),
    Metric(
        name="requests_sent_again",
        label="requests retried",
        short="retried",
        better="lower",
        holds="count",
        description="Requests sent to another replica after theirs failed.",
    ),
    Metric(
        name="requests_lost",
        label="requests lost",
        short="lost",
        better="lower",
        holds="count",
        description="Requests lost with a replica that failed.",
    ),
    Metric(
        name="requests_unserved",
        label="requests never served",
        short="never served",
        better="lower",
        holds="count",
        description="Requests that no replica had served by the end.",
    ),
    Metric(
        name="output_tokens_wasted",
        label="wasted output tokens",
        short="wasted tokens",
        better="lower",
        holds="count",
        description="Output tokens of attempts that failed with their replica.",
    ),
    verbs=SIMULATE,
)
CACHE_TIERS: Final = reported_by(
    Metric(
        name="gpu_hit_rate",
        label="GPU cache hit rate",
        short="GPU hit rate",
        shown="share",
        better="higher",
        description="Share of prompt tokens found in the KV cache of a GPU.",
    ),
    Metric(
        name="host_hit_rate",
        label="host memory cache hit rate",
        short="host hit rate",
        shown="share",
        better="higher",
        description="Share of prompt tokens found in host memory.",
    ),
    Metric(
        name="ssd_hit_rate",
        label="SSD cache hit rate",
        short="SSD hit rate",
        shown="share",
        better="higher",
        description="Share of prompt tokens found on the SSD.",
    ),
    Metric(
        name="host_loaded_bytes",
        label="loaded from host memory",
        short="from host",
        description="KV cache copied from host memory to GPUs.",
    ),
    Metric(
        name="ssd_loaded_bytes",
        label="loaded from the SSD",
        short="from SSD",
        description="KV cache copied from the SSD to GPUs.",
    ),
    Metric(
        name="stored_bytes",
        label="offloaded from the GPU",
        short="offloaded",
        description="KV cache copied from GPUs to host memory or the SSD.",
    ),
    Metric(
        name="host_held_bytes",
        label="in host memory at the end",
        short="in host",
        description="KV cache in host memory at the end of the run.",
    ),
    Metric(
        name="ssd_held_bytes",
        label="on the SSD at the end",
        short="on SSD",
        description="KV cache on the SSD at the end of the run.",
    ),
    verbs=SIMULATE,
)
MEMORY: Final = reported_by(
    Metric(
        name="memory",
        label="memory",
        holds="object",
        description="Memory of the fullest GPU of a replica, a decode worker or a training job.",
    ),
    Metric(
        name="prefill_memory",
        label="prefill memory",
        holds="object",
        verbs=("estimate", *SIMULATE),
        description="Memory of the fullest GPU of a prefill worker, with the same members.",
    ),
    Metric(
        name="feed_forward_memory",
        label="feed-forward memory",
        holds="object",
        verbs=("estimate",),
        description="Memory of the fullest device of `feed_forward_system`, likewise.",
    ),
    Metric(
        name="memory.weights_bytes",
        label="weights",
        better="lower",
        description="Weights of the model on the GPU.",
    ),
    Metric(
        name="memory.kv_bytes",
        label="KV cache",
        verbs=SERVING_VERBS,
        description="KV cache of the sequences in flight; in a simulation the whole cache.",
    ),
    Metric(
        name="memory.activation_bytes",
        label="activations",
        better="lower",
        description="Activation memory at the peak of a step.",
    ),
    Metric(
        name="memory.other_bytes",
        label="other",
        better="lower",
        description="CUDA context, communication buffers, CUDA graphs, sampler, gathered weights.",
    ),
    Metric(
        name="memory.total_bytes",
        label="total",
        better="lower",
        description="Weights, KV cache, activations and other memory.",
    ),
    Metric(
        name="memory.capacity_bytes",
        label="capacity",
        better="higher",
        description="GPU memory that the engine may use.",
    ),
    Metric(
        name="memory.kv_capacity_tokens",
        label="KV tokens",
        unit="tokens",
        better="higher",
        holds="count",
        verbs=SERVING_VERBS,
        has_interval=True,
        description="KV cache capacity in tokens; the interval of an estimate is that of the"
        " memory which engines leave for the cache in start-up logs.",
    ),
    Metric(
        name="memory.fits",
        label="fits",
        better="higher",
        holds="flag",
        description="Whether the total is within the capacity.",
    ),
    verbs=(*SERVING_VERBS, "train"),
)
FRONTIER: Final = (
    Metric(
        name="frontier",
        label="points of the frontier",
        short="frontier",
        holds="rows",
        verbs=("estimate --frontier", "search"),
        description="One point per batch, smallest first; of search, points that no other exceeds.",
    ),
    Metric(
        name="frontier.batch",
        label="batch",
        holds="count",
        verbs=("estimate --frontier", "search"),
        description="Sequences per replica, or requests in flight over the deployment.",
    ),
    Metric(
        name="frontier.clock_ratio",
        label="clock",
        unit="1",
        verbs=("estimate --frontier",),
        description="Clock over the sustained clock.",
    ),
    Metric(
        name="frontier.power_cap_w",
        label="limit [W]",
        verbs=("estimate --frontier",),
        description="Power limit of every GPU.",
    ),
    *(
        Metric(
            name=f"frontier.{name}",
            label=label,
            holds="text",
            verbs=("estimate --frontier", *(("search",) if name == "tier" else ())),
            description=text,
        )
        for name, label, text in (
            ("tier", "tier", "Pricing tier of the point; times of tier bound are lower limits."),
            ("prefill_bound", "prefill bound", "What binds most of the prefill step."),
            ("decode_bound", "decode bound", "What binds most of the decode step."),
            ("warnings", "warnings", "Warnings of the point, joined."),
        )
    ),
)
DOES_NOT_FIT: Final = (
    Metric(
        name="advice",
        label="changes that would fit",
        holds="texts",
        verbs=ESTIMATE,
        description="Changes with which a scenario that does not fit would fit.",
    ),
)
DEPLOYMENTS: Final = (*POOLS, *KINDS, *OPERATED, *CACHE_TIERS, *MEMORY, *FRONTIER, *DOES_NOT_FIT)
