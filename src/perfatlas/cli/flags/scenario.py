"""The scenario vocabulary as flags; None is "not given", so that the scenario decides."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Group, Parameter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cyclopts import Token


def whole(_hint: object, tokens: Sequence[Token]) -> int:
    """Return the whole number a flag names; "1.5" is refused where int() of cyclopts rounds.

    Args:
        _hint: The annotation of the flag.
        tokens: What was written; one token.

    Raises:
        ValueError: It is not a whole number; cyclopts then names the flag.
    """
    text = tokens[0].value
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"unable to convert {text!r} into a whole number") from None


def default(text: str) -> Parameter:
    """Return what --help says of a flag whose default the scenario sets, not the flag.

    Args:
        text: The default.
    """
    return Parameter(show_default=text)


Count = Annotated[int | None, Parameter(converter=whole)]
File = Path  # cyclopts reads it at run time, and shells complete it as a file

_SCENARIO: Final = Group("Scenario", sort_key=1)
_LOAD: Final = Group("Load", sort_key=2)
_PLAN: Final = Group("Plan", sort_key=3)
_FORMATS: Final = Group("Formats", sort_key=4)
_LIMITS: Final = Group("Engine limits", sort_key=5)
_PHASES: Final = Group("Disaggregated serving", sort_key=6)
_TRAFFIC: Final = Group("Traffic", sort_key=2)
SWITCH: Final = Parameter(negative="", show_default=False)
MANY: Final = Parameter(negative="")
_REPLICAS: Final = Parameter(alias="--replicas")


@Parameter(name="*", group=_SCENARIO)
@dataclass(frozen=True, kw_only=True)
class Subject:
    """What runs where.

    Args:
        model: Hugging Face id or catalog name, config.json, or the folder that holds it.
        system: Catalog name, TOML file, or name with changes: h200_sxm{device.tdp=500W}.
        engine: vllm, sglang, trtllm or ideal (no host time); dated as in vllm@0.24.
        tier: Which pricing: a lower limit, physics, physics corrected by measured rows, or the
            best without them.
        silicon_version: Of the tables of tier measured; by default that of the calibrations.
        mode: One static batch, continuous batching, or separate prefill and decode GPUs.
        method: How aggregated and disaggregated serving is answered: by closed forms without
            queues, or a short simulation; auto simulates where prompts wait for each other.
        clock_ratio: Clock over the sustained clock of the device.
    """

    model: str | None = None
    system: str | None = None
    engine: Annotated[str | None, default("vllm")] = None
    tier: Annotated[Literal["auto", "bound", "physics", "measured"] | None, default("auto")] = None
    silicon_version: str | None = None
    mode: Annotated[Literal["static", "aggregated", "disaggregated"] | None, default("static")] = (
        None
    )
    method: Annotated[Literal["auto", "formula", "simulate"] | None, default("auto")] = None
    clock_ratio: Annotated[float | None, default("1")] = None


@Parameter(name="*", group=_LOAD)
@dataclass(frozen=True, kw_only=True)
class Load:
    """What is asked of it.

    Args:
        batch: Sequences in one static batch, per replica.
        concurrency: Requests in flight over the whole deployment.
        isl: Input tokens of a request.
        osl: Output tokens of a request.
        prefix: Cached prefix tokens of the input.
    """

    batch: Annotated[Count, default("1")] = None
    concurrency: Annotated[Count, default("dp")] = None
    isl: Annotated[Count, default("1024")] = None
    osl: Annotated[Count, default("128")] = None
    prefix: Annotated[Count, default("0")] = None


@Parameter(name="*", group=_PLAN)
@dataclass(frozen=True, kw_only=True)
class Plan:
    """How the model is spread over GPUs.

    Args:
        gpus: Accelerators in total, tp x pp x cp x attention_dp x dp; derived when omitted.
        tp: Tensor-parallel size.
        pp: Pipeline-parallel size.
        cp: Context-parallel size, for prefill.
        attention_dp: Attention data-parallel ranks inside a replica.
        ep: Expert-parallel size; tp x attention_dp = ep x moe_tp.
        moe_tp: Tensor-parallel size inside an expert.
        dp: Independent replicas, each with its own requests.
        expert_distribution: How tokens fall on experts: uniform (drawn evenly), balanced (dealt
            out) or power_law_1.2.
    """

    gpus: Count = None
    tp: Count = None
    pp: Annotated[Count, default("1")] = None
    cp: Annotated[Count, default("1")] = None
    attention_dp: Annotated[Count, default("1")] = None
    ep: Count = None
    moe_tp: Count = None
    dp: Annotated[Count, _REPLICAS] = None
    expert_distribution: Annotated[str | None, default("uniform")] = None


@Parameter(name="*", group=_FORMATS)
@dataclass(frozen=True, kw_only=True)
class Formats:
    """In which number formats; by default those of the checkpoint.

    Args:
        format: Sets gemm_format and moe_format; fp8 means what the engine does by default.
        gemm_format: Of dense layers.
        moe_format: Of experts.
        kv_format: Of the KV cache.
        attention_format: Of the attention arithmetic.
    """

    format: str | None = None
    gemm_format: str | None = None
    moe_format: str | None = None
    kv_format: str | None = None
    attention_format: str | None = None


@Parameter(name="*", group=_LIMITS)
@dataclass(frozen=True, kw_only=True)
class Limits:
    """Within which limits of the engine; by default its own.

    Args:
        max_num_seqs: Sequences in one step.
        max_num_batched_tokens: Tokens in one step.
        block_size: Tokens in one KV block.
        gpu_memory_utilization: Fraction of memory the engine may fill.
        kv_blocks: KV blocks, in place of the derived number.
        stream_interval: Output tokens of a request that the front end sends at a time.
        speculative_depth: Tokens drafted per step, by a drafter of one layer (MTP, EAGLE).
        speculative_acceptance: Chance that a draft is accepted where all before it are.
    """

    max_num_seqs: Count = None
    max_num_batched_tokens: Count = None
    block_size: Count = None
    gpu_memory_utilization: float | None = None
    kv_blocks: Count = None
    stream_interval: Annotated[Count, default("1")] = None
    speculative_depth: Annotated[Count, default("0")] = None
    speculative_acceptance: float | None = None


@Parameter(name="*", group=_PHASES)
@dataclass(frozen=True, kw_only=True)
class Phases:
    """What differs between prefill and decode workers.

    Args:
        prefill_system: System of the prefill workers.
        prefill_workers: Number of prefill workers.
        prefill_batch: Prompts in one prefill step; in a simulation, at most.
        prefill_tp: As tp, of one prefill worker.
        prefill_pp: As pp, of one prefill worker.
        prefill_cp: As cp, of one prefill worker.
        prefill_attention_dp: As attention_dp, of one prefill worker.
        prefill_ep: As ep, of one prefill worker.
        prefill_moe_tp: As moe_tp, of one prefill worker.
        decode_system: System of the decode workers.
        decode_workers: Number of decode workers.
        decode_batch: Sequences in flight on one decode worker; in a simulation, at most.
        decode_tp: As tp, of one decode worker.
        decode_pp: As pp, of one decode worker.
        decode_attention_dp: As attention_dp, of one decode worker.
        decode_ep: As ep, of one decode worker.
        decode_moe_tp: As moe_tp, of one decode worker.
    """

    prefill_system: str | None = None
    prefill_workers: Annotated[Count, default("1")] = None
    prefill_batch: Annotated[Count, default("1")] = None
    prefill_tp: Count = None
    prefill_pp: Count = None
    prefill_cp: Count = None
    prefill_attention_dp: Count = None
    prefill_ep: Count = None
    prefill_moe_tp: Count = None
    decode_system: str | None = None
    decode_workers: Annotated[Count, default("1")] = None
    decode_batch: Count = None
    decode_tp: Count = None
    decode_pp: Count = None
    decode_attention_dp: Count = None
    decode_ep: Count = None
    decode_moe_tp: Count = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ScenarioFlags:
    """All flags of an inference scenario."""

    subject: Subject = field(default_factory=Subject)
    plan: Plan = field(default_factory=Plan)
    formats: Formats = field(default_factory=Formats)
    load: Load = field(default_factory=Load)
    limits: Limits = field(default_factory=Limits)
    phases: Phases = field(default_factory=Phases)


@Parameter(name="*", group=_TRAFFIC)
@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What arrives, and what is asked of it.

    Args:
        requests: File of requests: CSV, Parquet or JSON Lines with arrival_s, isl, osl.
        request_format: Format of that file: perfatlas, azure, mooncake, burstgpt, bailian, vllm,
            aiperf, or servegen for a folder of its clients.
        request_rate: Generated requests per second; inf for all at once.
        concurrency: Requests in flight of a closed loop, in place of a rate.
        num_requests: How many are generated, or read of the file.
        arrival: How generated requests arrive: poisson, gamma, constant, ramp or closed.
        burstiness: Of arrival gamma: 1 is poisson, below 1 comes in bursts.
        ramp_to_rate: Of arrival ramp: the rate that request_rate grows or falls to.
        ramp_s: Of arrival ramp: in how many seconds it does.
        turns: Requests of a session: each prompt holds all that was said before, and waits.
        think_time_s: Mean time between an answer and the next turn, drawn exponentially.
        shared_prefix: Tokens all generated prompts begin with, on top of isl.
        isl: Input tokens of a generated request, their mean where lengths vary.
        osl: Output tokens of a generated request, their mean where lengths vary.
        length_distribution: Of generated lengths: fixed, uniform, lognormal or empirical.
        length_spread: Share below and above the mean (uniform), or sigma (lognormal).
        lengths_from: Of empirical lengths: file of requests whose lengths are drawn, row by row.
        rate_scale: Lets the requests of a file come so many times as fast.
        length_scale: Multiplies the lengths of the requests of a file.
        requests_from_s: Second of the file from which its requests are taken.
        requests_to_s: Second of the file up to which they are.
        spread_batches: Spread requests of a file with one time of arrival up to the next time.
        seed: Seed of everything that is drawn.
        num_seeds: Simulations, of seed, seed + 1, ...: means over them, and how sure they are.
        prefix_caching: Share cached prefixes; by default where the requests have hashes.
        scheduler: Rules of the scheduler, in place of the engine's own.
        chunked_prefill: Let a prompt run in several steps; by default as the engine does.
        mixed_chunk: Of SGLang: let sequences decode in steps with prompts.
        measured_at: Where latencies are taken: by a client over HTTP, or inside the engine.
        prompt_text: What prompts are made of: prose, or random tokens, which take longer to
            tokenize.
        slo_ttft_s: Objective: most seconds to the first token.
        slo_tpot_s: Objective: most seconds per output token after the first.
        slo_itl_s: Objective: most seconds between tokens, on average of a request.
        slo_request_latency_s: Objective: most seconds of a request.
        slo_percentile: Of --find-rate: the percentile that meets them; by default the mean.
    """

    requests: File | None = None
    request_format: Annotated[str | None, default("perfatlas")] = None
    request_rate: float | None = None
    concurrency: Count = None
    num_requests: Annotated[Count, default("1000")] = None
    arrival: Literal["poisson", "gamma", "constant", "ramp", "closed"] | None = None
    burstiness: float | None = None
    ramp_to_rate: float | None = None
    ramp_s: float | None = None
    turns: Annotated[Count, default("1")] = None
    think_time_s: Annotated[float | None, default("0")] = None
    shared_prefix: Annotated[Count, default("0")] = None
    isl: Annotated[Count, default("1024")] = None
    osl: Annotated[Count, default("128")] = None
    length_distribution: Annotated[
        Literal["fixed", "uniform", "lognormal", "empirical"] | None, default("fixed")
    ] = None
    length_spread: float | None = None
    lengths_from: File | None = None
    rate_scale: Annotated[float | None, default("1")] = None
    length_scale: Annotated[float | None, default("1")] = None
    requests_from_s: Annotated[float | None, default("0")] = None
    requests_to_s: float | None = None
    spread_batches: bool | None = None
    seed: Annotated[int | None, default("0")] = None
    num_seeds: Annotated[Count, default("1")] = None
    prefix_caching: bool | None = None
    scheduler: (
        Literal["vllm", "sglang", "trtllm_guaranteed_no_evict", "trtllm_max_utilization", "static"]
        | None
    ) = None
    chunked_prefill: bool | None = None
    mixed_chunk: bool | None = None
    measured_at: Annotated[Literal["client", "engine"] | None, default("client")] = None
    prompt_text: Annotated[Literal["natural", "random"] | None, default("natural")] = None
    slo_ttft_s: float | None = None
    slo_tpot_s: float | None = None
    slo_itl_s: float | None = None
    slo_request_latency_s: float | None = None
    slo_percentile: float | None = None


@Parameter(name="*", group=_SCENARIO)
@dataclass(frozen=True, kw_only=True)
class Deployed:
    """What runs where.

    Args:
        model: Hugging Face id or catalog name, config.json, or the folder that holds it.
        system: Catalog name, TOML file, or name with changes: h200_sxm{device.tdp=500W}.
        engine: vllm, sglang, trtllm or ideal (no host time); dated as in vllm@0.24.
        tier: Which pricing: a lower limit, physics, physics corrected by measured rows, or the
            best without them.
        silicon_version: Of the tables of tier measured; by default that of the calibrations.
        mode: Continuous batching, or separate prefill and decode GPUs.
        clock_ratio: Clock over the sustained clock of the device.
    """

    model: str | None = None
    system: str | None = None
    engine: Annotated[str | None, default("vllm")] = None
    tier: Annotated[Literal["auto", "bound", "physics", "measured"] | None, default("auto")] = None
    silicon_version: str | None = None
    mode: Annotated[Literal["aggregated", "disaggregated"] | None, default("aggregated")] = None
    clock_ratio: Annotated[float | None, default("1")] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SimulationFlags:
    """All flags of a simulation."""

    subject: Deployed = field(default_factory=Deployed)
    traffic: Traffic = field(default_factory=Traffic)
    plan: Plan = field(default_factory=Plan)
    formats: Formats = field(default_factory=Formats)
    limits: Limits = field(default_factory=Limits)
    phases: Phases = field(default_factory=Phases)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class OutputFlags:
    """Where the answer goes.

    Args:
        json: Print one JSON object, SI units, instead of text.
        table: Answer every row of a CSV, Parquet or JSON Lines file; flags fill empty cells.
        output: Where the answered table is written; its extension chooses the format.
    """

    json: Annotated[bool, SWITCH] = False
    table: File | None = None
    output: File | None = None


def given(flags: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass of flags
    """Return the flags that were given, by name, in the order of the vocabulary.

    Args:
        flags: A dataclass of flags, nested or not.

    Example:
        >>> from perfatlas.cli.flags.scenario import Load
        >>> from perfatlas.cli.flags import ScenarioFlags, given
        >>> given(ScenarioFlags(load=Load(batch=64)))
        {'batch': 64}
    """
    found: dict[str, Any] = {}
    for item in fields(flags):
        value = getattr(flags, item.name)
        if is_dataclass(value):
            found |= given(value)
        elif value is not None:
            found[item.name] = value
    return found
