"""Fields of an inference scenario: model, system, plan, formats, load, pools."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.vocabulary.fields import conditions
from perfatlas.vocabulary.fields.numbers import Count, CountOrZero, Number, Share, Size, SizeOrZero
from perfatlas.vocabulary.fields.rows import (
    POOLS,
    Checked,
    InputFile,
    Text,
    group,
    varies_by_pool,
)
from perfatlas.vocabulary.fields.subject import EngineName, FormatName, Subject, SystemName

STEEPEST: Final = 10.0  # exponent of the expert load, above any measured one
Mode = Literal["static", "aggregated", "disaggregated"]
Method = Literal["auto", "formula", "simulate"]
PREFILL: Final = POOLS[:1]
DISAGGREGATED: Final = conditions.Equals("mode", "disaggregated")
OWN_LENGTHS: Final = conditions.AllOf(
    conditions.NotSet("requests", "gives the lengths"),
    conditions.NotSet("lengths_from", "gives the lengths"),
)
OWN_CLASSES: Final = conditions.NotSet("request_mix", "gives the lengths")
IMAGES: Final = conditions.WithMessage(
    conditions.NotEqual("images", 0), "images = 0", "set images, such as 1", "images"
)
# a side of an image; that of a JPEG has 16 bits (ITU-T T.81, table B.2)
Pixels = Annotated[int, Number(at_least=1, at_most=65_535)]


def check_distribution(text: str) -> str:
    """Return a valid expert-load distribution unchanged."""
    exponent = text.removeprefix("power_law_")
    if text in ("uniform", "balanced"):
        return text
    try:
        good = text.startswith("power_law_") and 0.0 < float(exponent) < STEEPEST
    except ValueError:
        good = False
    if not good:
        raise InvalidSpecError(
            f"expert distribution {repr_for_error(text)}: use uniform, balanced or"
            " power_law_<exponent>,"
            " such as power_law_1.2"
        )
    return text


Distribution = Annotated[str, Checked(check_distribution)]
File = Annotated[str, Text(), InputFile()]


@group("Scenario", 1)
class Serving:
    """Serving mode and method."""

    mode: Mode = "static"
    method: Method = "auto"


@group("Load", 2)
class Batch:
    """A static batch."""

    batch: Count | None = None


@group("Load", 2)
class ClientRounds:
    """Clients of a benchmark, which start together."""

    requests_per_client: Annotated[Count | None, conditions.Equals("mode", "aggregated")] = None
    osl_spread: Annotated[
        Annotated[float, Number(unit="fraction", at_least=0.0, below=1.0)],
        conditions.AnySet("requests_per_client"),
    ] = 0.0


@group("Load", 2)
class CachedPrefix:
    """The cached part of a prompt."""

    prefix: SizeOrZero = 0


@group("Load", 2)
class Lengths:
    """Requests in flight and their lengths."""

    concurrency: Count | None = None
    isl: Annotated[Size, OWN_LENGTHS] = 1024
    osl: Annotated[Size, OWN_LENGTHS] = 128


@group("Load", 2)
class ImageInputs:
    """Images in prompts."""

    images: Annotated[
        CountOrZero, conditions.AllOf(conditions.Fact("vision encoder"), OWN_LENGTHS, OWN_CLASSES)
    ] = 0
    image_height: Annotated[Pixels, IMAGES] = 1024
    image_width: Annotated[Pixels, IMAGES] = 1024


@group("Plan", 3)
class Plan:
    """Parallelism over GPUs."""

    gpus: Count | None = None
    tp: Count | None = None
    pp: Count = 1
    cp: Count = 1
    ring_degree: Annotated[Count, conditions.Fact("denoiser")] = 1
    guidance_degree: Annotated[Count, conditions.Fact("guidance")] = 1
    dcp: Count = 1
    attention_dp: Count = 1
    ep: Count | None = None
    moe_tp: Count | None = None
    dp: Count | None = None
    expert_distribution: Annotated[Distribution, conditions.Fact("experts")] = "uniform"
    expert_loads: Annotated[
        File | None,
        conditions.AllOf(
            conditions.Fact("experts"),
            conditions.Equals("expert_distribution", "uniform"),
        ),
    ] = None
    redundant_experts: Annotated[SizeOrZero, conditions.Fact("experts")] = 0
    eplb_step_interval: Annotated[
        Count | None,
        conditions.AllOf(conditions.Fact("expert ranks"), conditions.NotEqual("tier", "bound")),
    ] = None
    expert_exchange: Annotated[
        Literal[
            "all_gather_reduce_scatter",
            "all_to_all",
            "deepep",
            "deepep_normal",
            "deepep_low_latency",
            "quantized_all_gather",
        ]
        | None,
        conditions.Fact("token exchange"),
    ] = None
    batch_overlap: Annotated[
        Literal["none", "two_batch", "single_batch"] | None, conditions.Fact("overlapped exchange")
    ] = None
    sampling_penalties: bool = False
    weight_offload: Share = 0.0
    kv_offload: Share = 0.0
    offload_prefetch: Annotated[
        bool,
        conditions.AnyOf(
            conditions.NotEqual("weight_offload", 0.0),
            conditions.AnySet("prefill_weight_offload", "decode_weight_offload", "choices"),
        ),
    ] = False


@group("Formats", 4)
class Formats:
    """Number formats; the defaults are the checkpoint's."""

    format: FormatName | None = None
    gemm_format: FormatName | None = None
    moe_format: Annotated[FormatName | None, conditions.Fact("expert format")] = None
    kv_format: FormatName | None = None
    attention_format: FormatName | None = None


@group("Disaggregated serving", 6)
@varies_by_pool(Subject, Plan, Formats, needs=DISAGGREGATED)
class Pools:
    """Prefill and decode workers."""

    prefill_workers: Annotated[Count, DISAGGREGATED] = 1
    prefill_batch: Annotated[Count, DISAGGREGATED] = 1
    decode_workers: Annotated[Count, DISAGGREGATED] = 1
    decode_batch: Annotated[Count | None, DISAGGREGATED] = None


SPLIT: Final = conditions.AnySet("feed_forward_system")


@group("Attention-FFN disaggregation", 6)
class FeedForward:
    """Feed-forward networks on other machines than attention, embedding and head."""

    feed_forward_system: Annotated[SystemName | None, conditions.Fact("split steps")] = None
    feed_forward_engine: Annotated[EngineName | None, SPLIT] = None
    feed_forward_tp: Annotated[Count, SPLIT] = 1
    feed_forward_pp: Annotated[Count, SPLIT] = 1
    feed_forward_ep: Annotated[
        Count | None, conditions.AllOf(SPLIT, conditions.Fact("experts"))
    ] = None
    micro_batches: Annotated[Count, SPLIT] = 1
