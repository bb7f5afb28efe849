"""Metrics that `search` alone reports."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from perfatlas.studies.deployments import POOL_SIZES, percentile_name
from perfatlas.vocabulary.metrics import Metric, declare_metrics

# of plans and the frontier; other keys of their rows are fields, or metrics of an estimate
COUNTS: Final = {
    "spare_replicas": "spare replicas",
    "node_gpus": "GPUs of the occupied nodes",
}
TEXTS: Final = {
    f"{role}_{name}_format": f"format of {name} layers of {role} workers"
    for role in POOL_SIZES
    for name in ("gemm", "moe")
}
ROWS: Final = ("plans", "frontier")
OF_BOTH: Final = (  # of the best plans and of the frontier
    Metric(
        name="slo_probability",
        label="probability of meeting all SLOs",
        short="P(SLO)",
        shown="share",
        better="higher",
        description="Least probability with which an SLO or the request rate is met.",
    ),
    Metric(
        name="prefix_hit_rate",
        label="prefix hit rate",
        short="hits",
        shown="share",
        better="higher",
        description="Share of the prompt tokens of a trace that its prefix caches have.",
    ),
    Metric(
        name="availability",
        label="availability",
        shown="share",
        better="higher",
        description="Share of time in which as many replicas work as serve the request rate.",
    ),
)
RESULTS: Final = declare_metrics(
    Metric(
        name="plans.tier",
        label="tier",
        holds="text",
        description="Pricing tier of the deployment; times of tier bound are lower limits.",
    ),
    Metric(
        name="plans",
        label="best plans",
        short="plans",
        holds="rows",
        description="The deployments with the best objective that meet all SLOs, best first.",
    ),
    *(
        Metric(
            name=f"{rows}.{name}",
            label=label,
            short=name,
            holds="count",
            description=f"{label[0].upper()}{label[1:]} of the deployment.",
        )
        for rows in ROWS
        for name, label in COUNTS.items()
    ),
    *(
        Metric(
            name=f"{rows}.{name}",
            label=label,
            short=name,
            holds="text",
            description=f"{label[0].upper()}{label[1:]} of the deployment.",
        )
        for rows in ROWS
        for name, label in TEXTS.items()
    ),
    *(replace(metric, name=f"{rows}.{metric.name}") for metric in OF_BOTH for rows in ROWS),
    *(
        Metric(
            name=f"plans.{percentile_name(name)}",
            label=f"{label} at the percentile of the SLOs",
            short=f"{label} at the percentile",
            unit="s",
            shown="scaled",
            better="lower",
            has_interval=True,
            description=f"The percentile slo_percentile of {label} over the simulated requests.",
        )
        for name, label in {
            "ttft_s": "TTFT",
            "tpot_s": "TPOT",
            "request_latency_s": "latency",
        }.items()
    ),
    Metric(
        name="plans.closed_form_rank",
        label="rank by closed forms",
        holds="count",
        description="Rank of the plan before the simulation of the best plans.",
    ),
    Metric(
        name="launch",
        label="launch commands",
        short="launch",
        holds="texts",
        description="Commands that launch the best plan, one for each kind of worker.",
    ),
    Metric(
        name="ranking",
        label="changes of the ranking",
        short="ranking",
        holds="texts",
        description="How the simulation of the best plans changed their ranking, and why.",
    ),
    Metric(
        name="machine",
        label="cheapest machine",
        holds="object",
        asked_with={"solve": "device.memory.bandwidth", "concurrency": 1, "slo_tpot_s": 1.0},
        description="The cheapest machine that meets all limits, of --solve.",
    ),
    Metric(
        name="machine.system",
        label="machine",
        holds="text",
        description="The base with the solved fields as overrides.",
    ),
    Metric(
        name="chip_usd",
        label="cost of a chip",
        unit="USD",
        better="lower",
        has_interval=True,
        description="What a chip costs to make.",
    ),
    Metric(
        name="die_mm2",
        label="area of a die",
        unit="mm2",
        better="lower",
        has_interval=True,
        description="Predicted area of a die.",
    ),
    Metric(
        name="dies",
        label="cheapest machine by dies",
        holds="rows",
        asked_with={"solve": "device.dies=1:2", "concurrency": 1, "slo_tpot_s": 1.0},
        description="The cheapest machine of each number of dies, where device.dies is solved.",
    ),
    Metric(
        name="dies.dies",
        label="dies",
        holds="count",
        description="Compute dies of a device.",
    ),
    Metric(
        name="dies.reason",
        label="why not",
        holds="text",
        description="Why no machine of so many dies meets all limits, empty where one does.",
    ),
    Metric(
        name="unknowns.field",
        label="field",
        holds="text",
        description="Field of the device.",
    ),
    *(
        Metric(
            name=f"unknowns.{name}",
            label=label,
            description=f"{label[0].upper()}{label[1:]} of the field.",
        )
        for name, label in {
            "value": "solved value",
            "base_value": "value of the base",
            "least": "least value",
            "most": "largest value",
        }.items()
    ),
    Metric(
        name="unknowns.held_by",
        label="held by",
        holds="texts",
        description="Limits that less of the field misses; range at the least of its range.",
    ),
    Metric(
        name="limit_costs.limit",
        label="limit",
        holds="text",
        description="Metric that is limited.",
    ),
    *(
        Metric(
            name=f"limit_costs.{name}",
            label=label,
            description=f"{label[0].upper()}{label[1:]}.",
        )
        for name, label in {"most": "limit of the metric", "value": "value of the metric"}.items()
    ),
    *(
        Metric(
            name=f"limit_costs.{side}_chip_usd",
            label=f"cost of a chip, a tenth {side}",
            unit="USD",
            better="lower",
            description=f"Cost of a chip with the limit a tenth {side}; none if nothing meets it.",
        )
        for side in ("tighter", "looser")
    ),
    Metric(
        name="unknowns",
        label="solved fields",
        holds="rows",
        description=(
            "Each solved field: value, that of the base, its range, and the limits that less of it"
            " misses."
        ),
    ),
    Metric(
        name="limit_costs",
        label="costs of limits",
        holds="rows",
        description="Each limit, and the cost of a chip with it a tenth tighter and looser.",
    ),
    Metric(
        name="plans.binding_constraint",
        label="binding constraint",
        holds="text",
        description="What prevents a higher load: an SLO, a limit of the engine, or the objective.",
    ),
    Metric(
        name="plans.placement",
        label="placement",
        holds="text",
        description="Nodes of the plan, or larger scale-up domains, and what crosses them.",
    ),
    Metric(
        name="plans.why",
        label="why not a higher load",
        short="no higher load",
        holds="text",
        description="The binding constraint and what bounds both phases, in a sentence.",
    ),
    Metric(
        name="plans.ties",
        label="ties with the best",
        holds="flag",
        description="Whether the objective differs from the best one by less than predictions tell"
        " plans apart (`python -m validation plans`); the simplest of such plans is first.",
    ),
    Metric(
        name="plans.runner_up_deficit",
        label="deficit of the next plan",
        short="next plan",
        shown="share",
        description="How much worse the objective of the next plan is, relative to this plan.",
    ),
    Metric(
        name="candidates",
        label="candidates",
        holds="count",
        description="Legal combinations of plan, formats and limits, each priced at all its loads.",
    ),
    Metric(
        name="candidates_within_slos",
        label="candidates that meet all SLOs",
        short="meet all SLOs",
        holds="count",
        description="Candidates that meet all SLOs with the required probability at some load.",
    ),
    Metric(
        name="rejected",
        label="rejected candidates",
        short="refused",
        holds="object",
        parts={
            "supported_by_system_and_engine": "formats or settings not supported",
            "system_without_price": "systems without a price",
            "pp_within_layers": "more pipeline stages than layers",
            "images_without_pp": "pipeline stages with images in prompts",
            "tp_of_graphs": "tensor parallelism of graphs of operators",
            "cp_of_graphs": "context parallelism of graphs that are no diffusion transformers",
            "cp_divides_num_heads": "attention heads not divisible by cp",
            "ring_degree_of_denoisers": "ring attention without a diffusion transformer",
            "ring_degree_divides_cp": "ring degrees that do not divide cp",
            "cp_within_tokens": "more GPUs than tokens of a denoiser",
            "guidance_degree_within_passes": "more groups than passes of a denoiser",
            "guidance_degree_divides_cp": "groups of passes that do not divide cp",
            "dcp_of_cached_keys": "striped keys of models without a growing KV cache",
            "dcp_divides_copies_of_keys": "keys striped over ranks that hold no copies of them",
            "dcp_without_cp": "striped keys of divided prompts",
            "recurrent_mixers_without_cp": "context parallelism of recurrent mixers",
            "experts_on_the_ranks_of_attention": "experts on other ranks than attention",
            "dense_without_ep": "expert parallelism of a dense model",
            "dense_without_attention_dp": "attention data parallelism of a dense model",
            "dense_without_moe_tp": "tensor-parallel experts of a dense model",
            "tp_divides_num_heads": "attention heads not divisible by tp",
            "tp_divides_num_kv_heads": "KV heads neither divisible nor replicated by tp",
            "tp_divides_linear_attention_key_heads": "linear-attention key heads by tp",
            "tp_divides_linear_attention_value_heads": "linear-attention value heads by tp",
            "tp_divides_mamba_2_heads": "Mamba-2 heads not divisible by tp",
            "tp_divides_mamba_2_num_groups": "Mamba-2 groups not divisible by tp",
            "tp_divides_mamba_intermediate_size": "Mamba width not divisible by tp",
            "tp_divides_intermediate_size": "feed-forward width not divisible by tp",
            "ep_divides_num_experts": "experts not divisible by ep",
            "ep_divides_experts_with_copies": "experts with copies not divisible by ep",
            "redundant_experts_with_ep": "redundant experts without expert parallelism",
            "moe_tp_divides_moe_intermediate_size": "expert width not divisible by moe_tp",
            "tp_divides_shared_expert_width": "shared-expert width not divisible by tp",
            "sizes_supported_by_engine": "sizes that the engine cannot launch",
            "stages_of_pools": "pipeline stages in workers of pools, which the engine refuses",
            "tp_within_scale_up_domain": "tp larger than a scale-up domain",
            "groups_within_nodes": "groups that are priced inside a node cut by nodes",
            "workers_fit_on_nodes": "workers or replicas that the nodes cannot hold whole",
            "fp8_blocks_whole_per_rank": "blocks of 128 of fp8_block weights cut by a rank",
            "fits_in_memory": "does not fit in memory",
            "prompt_within_max_num_batched_tokens": "prompt longer than a step",
            "load_within_max_num_seqs": "load above max_num_seqs",
            "load_within_max_num_batched_tokens": "load above max_num_batched_tokens",
        },
        description="Combinations that are not candidates, by the rule that refuses them.",
    ),
    Metric(
        name="points",
        label="candidates at loads",
        short="points",
        holds="count",
        description="Priced combinations of a candidate and a load.",
    ),
    Metric(
        name="candidates_per_cpu_s",
        label="candidates per CPU-second",
        short="candidates/CPU s",
        description="Candidates over the CPU time of their pricing; only with --verbose.",
    ),
    Metric(
        name="explained",
        label="sensitivities of the best plan",
        holds="object",
        verbs=("search --explain",),
        description="Results of estimate --explain for the best plan, with the SLOs as targets.",
    ),
    verbs=("search",),
)
