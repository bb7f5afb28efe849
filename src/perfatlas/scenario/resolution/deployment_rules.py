"""Rules of deployments: which models an engine runs, in which formats, batches and plans.

Shape legend: N rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.engines import engine_names, resolve_engine
from perfatlas.quantities import Rule, UnsupportedError
from perfatlas.scenario.fields import OF_TOKENS, generation_error, graph_error, tokens_error
from perfatlas.scenario.resolution import default_limits, default_plans, resolved_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.engines import EngineProfile
    from perfatlas.networks import Model
    from perfatlas.operators import FloatArray
    from perfatlas.scenario.fields import BoolArray
    from perfatlas.scenario.resolution.workers import Workers

_RUNS: Final = {"graphs": "graphs of operators", "language_models": "language models"}


@dataclass(frozen=True, kw_only=True)
class Deployed:
    """Workers of all rows, and what the rows of a group share."""

    workers: Workers
    model: Model
    profile: EngineProfile
    gemm: str  # Format of matrix products
    fields: Mapping[str, Any]  # The fields that they share

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.workers.columns.size

    def row(self, row: int) -> Mapping[str, Any]:
        """Return the fields of a row."""
        return self.workers.columns.row(row)

    def numbers(self, name: str, missing: float = np.nan) -> FloatArray:
        """Return a field as numbers (N,)."""
        return self.workers.columns.numbers(name, missing)

    @property
    def is_graph(self) -> bool:
        """Whether the model is a graph of operators."""
        return bool(self.model.network.item)

    @property
    def needs(self) -> tuple[str, str]:
        """What an engine must run: one of `_RUNS`, and all."""
        return "graphs" if self.is_graph else "language_models", "all"

    @property
    def queued(self) -> BoolArray:
        """Where requests of a graph queue (N,)."""
        return (self.workers.aggregated_N | self.workers.pooled) & self.is_graph

    def sequences(self) -> FloatArray:
        """Return the sequences of a static batch (N,)."""
        batch_N, concurrency_N = self.numbers("batch"), self.numbers("concurrency", 1.0)
        spread_N = np.ceil(concurrency_N / self.workers.plan.dp)
        sequences_N: FloatArray = np.where(np.isnan(batch_N), spread_N, batch_N)
        return sequences_N


def _engine_message(d: Deployed, _: int) -> str:
    others = (resolve_engine(name) for name in engine_names())
    names = dict.fromkeys(other.name for other in others if other.runs in d.needs)
    what = "a graph of operators" if d.is_graph else "a language model"
    return (
        f"{d.profile.name} runs {_RUNS[d.profile.runs]}, and {d.model.name} is {what}; set engine ="
        f" {', '.join(names)}"
    )


def _format_message(d: Deployed, _: int) -> str:
    own = d.profile.runs_on
    others = (resolve_engine(name) for name in sorted(engine_names(), key="ideal".__eq__))
    names = [
        other.name
        for other in others
        if other.runs in d.needs
        and not other.graph_formats
        and (own is None or other.runs_on is None or {*own.vendors} & {*other.runs_on.vendors})
    ]
    return (
        f"{d.profile.name} runs graphs in {', '.join(d.profile.graph_formats)}, not in {d.gemm};"
        f" set engine = {' or '.join(names)}, or another format"
    )


def _longer(d: Deployed) -> BoolArray:
    """Return where a network that does not decode without end has longer outputs (N,)."""
    network = d.model.network
    ends = bool(network.item) or not network.decodes
    longer_N: BoolArray = (d.workers.load.osl > network.longest_output) & ends
    return longer_N


def _output_message(d: Deployed, row: int) -> str:
    most = d.model.network.longest_output
    why = (
        f"generates at most {most:,} tokens; set osl = {most} or less"
        if d.model.network.decodes
        else "generates its output_length in one pass; set this size of the model, and osl = 1"
        if np.any(d.model.network.pass_tokens)
        else "runs one pass per request and decodes nothing; set osl = 1"
    )
    return f"osl = {d.workers.load.osl[row]:g}: {d.model.name} {why}"


def _tokens(d: Deployed) -> FloatArray:
    """Return the tokens of a prompt and its output (N,)."""
    return d.workers.load.isl + d.workers.load.osl


def _beyond_context(d: Deployed) -> BoolArray:
    """Return where the tokens of images exceed the context length of the model (N,)."""
    longest = d.model.network.max_position_embeddings
    beyond_N: BoolArray = (_tokens(d) > (longest or np.inf)) & (d.model.network.images is not None)
    return beyond_N


def _images_message(d: Deployed, row: int) -> str:
    images, longest = d.model.network.images, d.model.network.max_position_embeddings
    number, each = (images.number, images.tokens) if images else (0, 0)
    return (
        f"images = {number}: a prompt with {number:,} x {each:,} tokens of images and its output"
        f" have {_tokens(d)[row]:,.0f} tokens, and the context length of {d.model.name} is"
        f" {longest:,}; set fewer or smaller images"
    )


def _has_windows(d: Deployed) -> bool:
    layouts = d.model.network.cache_layouts(1.0)
    return any(layout.token_limit and layout.kind == "attention" for layout in layouts)


def _drafts_by_dspark(d: Deployed) -> bool:
    curve = resolved_names.curve_of_drafts(d.fields)
    return curve is not None and curve.drafter == "DSpark"


def _sum_message(d: Deployed, row: int) -> str:
    plan, fields = d.workers.plan, d.workers.columns.row(row)
    sizes = [fields[name] for name in ("pp", "cp", "attention_dp")]
    sizes = [int(plan.tp[row]), *sizes, int(plan.dp[row])]
    return (
        f"gpus = {fields['gpus']}, but tp x pp x cp x attention_dp x dp ="
        f" {' x '.join(map(str, sizes))} = {np.prod(sizes)}; leave gpus out, or make the product"
        " match"
    )


def _of_other_sum(d: Deployed) -> BoolArray:
    """Return where a plan does not match gpus (N,)."""
    plan, gpus_N = d.workers.plan, d.numbers("gpus")
    total_N = plan.tp * plan.pp * plan.cp * plan.attention_dp * plan.dp
    free_N = default_plans.has_free_plan(d.workers.columns)
    rest_N = np.where(free_N, np.mod(gpus_N, total_N), gpus_N - total_N)
    other_N: BoolArray = d.workers.columns.is_set("gpus") & (rest_N != 0.0)
    return other_N


def _too_many(d: Deployed) -> BoolArray:
    """Return where a static batch exceeds the limit of the engine (N,)."""
    each_N = np.ceil(d.sequences() / d.workers.plan.attention_dp)
    many_N: BoolArray = each_N > d.numbers("max_num_seqs", np.inf)
    return many_N & d.workers.columns.equals("mode", "static")


def _batch_message(d: Deployed, row: int) -> str:
    fields, batch = d.workers.columns.row(row), int(d.sequences()[row])
    ranks, most = fields["attention_dp"], fields["max_num_seqs"]
    return (
        f"max_num_seqs = {most}, but a batch of {batch} needs {-(-batch // ranks)} concurrent"
        f" sequences; use a batch of at most {most * ranks} per replica, raise max_num_seqs, or use"
        " mode aggregated, in which requests queue"
    )


DEPLOYMENTS: Final[tuple[Rule[Deployed], ...]] = (
    *(
        Rule(
            partial(
                lambda name, d: (
                    np.isfinite(d.numbers(name, np.inf)) & (d.fields["tier"] == "bound")
                ),
                name,
            ),
            f"{name} = {{{name}:g}} W needs measured kernels: the clock under a power limit follows"
            " from a model, so that a roofline time at that clock is no lower limit",
            f"leave {name} out, or choose a tier with measured kernels",
        )
        for name in default_limits.LIMITS_OF_POWER
    ),
    Rule(lambda d: d.profile.runs not in d.needs, _engine_message, error=UnsupportedError),
    Rule(
        lambda d: d.is_graph and d.gemm not in (d.profile.graph_formats or (d.gemm,)),
        _format_message,
        error=UnsupportedError,
    ),
    Rule(
        lambda d: (d.workers.load.isl > 1.0) & d.is_graph,
        lambda d, row: (
            f"isl = {d.workers.load.isl[row]:g}: {d.model.name} runs over items of one size; leave"
            f" isl out, and change its sizes as in {d.model.base}{{name=value}}"
        ),
    ),
    Rule(
        lambda d: d.queued & d.model.network.decodes,
        lambda d, _: str(generation_error(d.model.name)),
        error=UnsupportedError,
    ),
    Rule(
        lambda d: d.queued & (d.workers.pooled or not d.workers.queues),
        lambda d, _: str(graph_error(d.model.name, pools=d.workers.pooled)),
        error=UnsupportedError,
    ),
    Rule(
        lambda d: (
            d.queued
            & ~d.workers.columns.is_set("max_num_seqs")
            & ~d.workers.columns.is_set("concurrency")
        ),
        lambda d, _: (
            f"a queue of {d.model.name} needs the largest batch of a pass; set max_num_seqs, such"
            " as 16"
        ),
    ),
    Rule(
        lambda d: ~d.workers.aggregated_N & d.workers.columns.is_set("max_num_seqs") & d.is_graph,
        "max_num_seqs is the largest batch of a queue, and mode = static runs one batch",
        "set batch, or ask simulate",
    ),
    *(
        Rule(
            partial(lambda d, name: d.workers.columns[name].differs & d.is_graph, name=name),
            partial(lambda name, d, _: str(tokens_error(name, d.model.name)), name),
        )
        for name in OF_TOKENS
    ),
    Rule(
        lambda d: (d.numbers("speculative_depth") == 0.0) & (d.model.network.draft_vocab_size > 0),
        "the drafter of the model has no effect with speculative_depth = 0",
        "set speculative_depth, such as 3, or leave drafter out",
    ),
    *(
        Rule(
            partial(
                lambda name, ahead, d: (
                    (d.numbers(name) > 0.0) & (d.fields["tier"] == "bound") & ~ahead(d)
                ),
                *(name, ahead),
            ),
            f"{name} = {{{name}:g}} has no lower limit: what is fetched ahead from a second memory"
            " is not known",
            remedy,
        )
        for name, ahead, remedy in (
            (
                "weight_offload",
                lambda d: d.workers.prefetch_N,
                "set offload_prefetch, or choose another tier",
            ),
            ("kv_offload", lambda d: np.zeros_like(d.workers.prefetch_N), "choose another tier"),
        )
    ),
    Rule(_longer, _output_message),
    Rule(_beyond_context, _images_message),
    Rule(
        lambda d: (
            (d.workers.plan.pp > 1.0) & (d.workers.pooled and not d.profile.disaggregation.stages)
        ),
        lambda d, row: (
            f"pp = {d.workers.plan.pp[row]:g}: {d.profile.id} does not start workers of prefill and"
            " decode pools with pipeline stages; set pp = 1, or another engine"
        ),
        error=UnsupportedError,
    ),
    *(
        Rule(
            partial(
                lambda engine, holds, d: (
                    (d.workers.plan.dcp > 1.0) & (d.profile.name == engine and holds(d))
                ),
                *(engine, holds),
            ),
            f"dcp: {engine} {why} ({source})",
            "set dcp = 1, or another engine",
            UnsupportedError,
        )
        for engine, holds, why, source in (
            (
                *("vllm", _has_windows, "does not stripe the keys of sliding windows"),
                "vLLM 0.30, v1/kv_cache_interface.py, SlidingWindowSpec.max_memory_usage_bytes",
            ),
            (
                *("vllm", _drafts_by_dspark, "does not run DSpark drafters with striped keys"),
                "vLLM 0.28, and its pull requests 48392 and 52188",
            ),
            (
                *("sglang", _has_windows, "does not stripe the keys of sliding windows"),
                'SGLang documentation, "Decode Context Parallelism", Current boundaries',
            ),
            (
                *("trtllm", lambda d: not d.workers.pooled),
                "runs Helix on generation workers of two pools alone",
                'TensorRT-LLM 1.3 documentation, "Helix Parallelism"',
            ),
        )
    ),
)
# checked after the systems
SIZES: Final = (Rule(_of_other_sum, _sum_message), Rule(_too_many, _batch_message))
