"""Fields of an engine's TOML file, and construction of its profile."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from perfatlas.engines.field_readers import (
    BATCHING,
    BYTES,
    COLLECTIVES,
    COUNT,
    HOST,
    INTERVALS,
    MEMORY,
    NAME,
    NAMES,
    NON_NEGATIVE_INTEGER,
    OPERATORS,
    POOLS,
    REF,
    REQUESTS,
    SHARE,
    STEPS,
    TIME,
    WIDTHS,
    ProfileField,
    needed,
    perhaps,
)
from perfatlas.engines.full_attention import FullAttention
from perfatlas.engines.fusions import FUSION, SEPARATE, AttentionSpeed, GraphKernels
from perfatlas.engines.host_times import FrontEnd, HostTime
from perfatlas.engines.profile import (
    RANK_PADDINGS,
    AllReduceRules,
    BatchOverlap,
    BatchOverlaps,
    CompressedPages,
    DeviceLimits,
    Disaggregation,
    EarlierKernels,
    EngineMemory,
    EngineProfile,
    FormatAlias,
    Overlap,
    RunsOn,
    SchedulerDefaults,
)
from perfatlas.engines.recipes import ReceiveInterval, Recipe, TokenSum
from perfatlas.files import (
    Array,
    Field,
    Flag,
    Named,
    Number,
    Reader,
    Record,
    Text,
    read_fields,
    sub_table,
)
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

OVERLAP: Final = Record(
    fields={
        "prefix": needed(NAME, *OPERATORS),
        "beside": needed(NAME, *OPERATORS),
        "max_tokens": needed(SHARE, *OPERATORS),
        "batch_overlap": perhaps(Text(choices=("", "single_batch")), *OPERATORS),
        "architectures": perhaps(NAMES, *OPERATORS),
        "ref": REF,
    },
    build=Overlap,
)
EXCHANGES: Final = ("all_to_all", "all_gather_reduce_scatter", "quantized_all_gather", "deepep")
_TWO_BATCH: Final = Record(
    fields={
        "exchanges": needed(NAMES),
        "prefill_tokens": perhaps(SHARE, *STEPS),
        "decode_tokens": perhaps(SHARE, *STEPS),
        "ref": REF,
    },
    build=BatchOverlap,
)
_SINGLE_BATCH: Final = Record(fields={"exchanges": needed(NAMES), "ref": REF}, build=BatchOverlap)
BATCH_OVERLAPS: Final = Record(
    fields={
        "value": needed(Text(choices=("none", "two_batch", "single_batch")), *STEPS),
        "two_batch": perhaps(_TWO_BATCH),
        "single_batch": perhaps(_SINGLE_BATCH),
        "ref": REF,
    },
    build=lambda *, two_batch=None, single_batch=None, **given: BatchOverlaps(
        two_batch=two_batch, single_batch=single_batch, **given
    ),
)
NO_OVERLAP: Final = BatchOverlaps(value="none", two_batch=None, single_batch=None, source="")


def refuse_misplaced(table: Mapping[str, object], paths: Iterable[str], where: str) -> None:
    """Refuse a key at the top of a file, or in its scheduler, that belongs to another table.

    Args:
        paths: Paths of all fields, as `profile_fields` has them.
        where: The file, for messages.

    Raises:
        InvalidSpecError: A key belongs to other tables; their first lines are named.
    """
    known = list(paths)
    scheduler = table.get("scheduler")
    tables = {"": table, "scheduler.": scheduler if isinstance(scheduler, dict) else {}}
    for place, keys in tables.items():
        for key in keys:
            if any(path.split("[")[0].startswith(f"{place}{key}") for path in known):
                continue
            places = [path.rpartition(".") for path in known]
            homes = [_header(home) for home, _, name in places if name == key and home]
            if homes:
                raise InvalidSpecError(
                    f"{where}: {place}{key} has no effect: {key} belongs to"
                    f" {' or '.join(homes)}; write it below that line"
                )


def _header(path: str) -> str:
    """Return the line that begins a table: [host] or [[scheduler.by_memory]]."""
    return f"[[{path.removesuffix('[]')}]]" if path.endswith("[]") else f"[{path}]"


T = TypeVar("T")
MEBIBYTE: Final = 2.0**20

_FORMAT: Final = Record(
    fields={
        "value": needed(NAME, *OPERATORS),
        "architectures": perhaps(NAMES, *OPERATORS),
        "ref": REF,
    },
    build=lambda *, architectures=(), **given: FormatAlias(architectures=architectures, **given),
)
_HOST: Final = Record(
    fields={
        "step": needed(TIME, *HOST, into="step_s"),
        "per_sequence": needed(TIME, *HOST, into="per_sequence_s"),
        "per_layer_prefill": needed(TIME, *HOST, into="per_layer_prefill_s"),
        "per_operator_prefill": perhaps(TIME, *HOST, into="per_operator_prefill_s"),
        "per_expert_layer_prefill": perhaps(TIME, *HOST, into="per_expert_layer_prefill_s"),
        "per_penalized_token": perhaps(TIME, *HOST, into="per_penalized_token_s"),
        "overlapped": needed(Flag(), *HOST),
        "ref": REF,
    },
    build=HostTime,
)
_FRONT: Final = Record(
    fields={
        "request": needed(TIME, *REQUESTS, into="request_s"),
        "request_fastest": perhaps(TIME, *INTERVALS, into="request_fastest_s"),
        "request_slowest": perhaps(TIME, *INTERVALS, into="request_slowest_s"),
        "token": needed(TIME, *REQUESTS, into="token_s"),
        "token_fastest": perhaps(TIME, *INTERVALS, into="token_fastest_s"),
        "token_slowest": perhaps(TIME, *INTERVALS, into="token_slowest_s"),
        "response": needed(TIME, *REQUESTS, into="response_s"),
        "tokenizes": needed(Flag(), *REQUESTS),
        "tokenizing_ratio": perhaps(Number(least=0.0), *REQUESTS),
        "per": needed(Text(choices=("rank", "replica")), *BATCHING),
        "assumed": perhaps(Flag(), *BATCHING),
        "ref": REF,
    },
    build=lambda *, per, **given: FrontEnd(per_rank=per == "rank", **given),
)
_COMPRESSED_PAGES: Final = Record(
    fields={
        "formats": needed(NAMES, *MEMORY),
        "block": needed(COUNT, *MEMORY),
        "window_block": needed(COUNT, *MEMORY),
        "state_blocks": needed(Array(of=WIDTHS, expected="an array of [kept, block]"), *MEMORY),
        "alignment": needed(BYTES, *MEMORY, into="alignment_bytes"),
        "row_extra": needed(BYTES, *MEMORY, into="row_extra_bytes"),
        "reserved_batches": needed(SHARE, *MEMORY),
        "ref": REF,
    },
    build=CompressedPages,
)
_MEMORY: Final = Record(
    fields={
        "rule": needed(Text(choices=("total", "free", "static")), *MEMORY),
        "gpu_memory_utilization": needed(Number(least=0.0, most=1.0), *MEMORY),
        "reserves_sampler": needed(Flag(), *MEMORY),
        "sampler_copies": needed(SHARE, *MEMORY),
        "sampler_copies_fewest": perhaps(SHARE, *MEMORY),
        "context": needed(BYTES, *MEMORY, into="context_bytes"),
        "communication": needed(BYTES, *MEMORY, into="communication_bytes"),
        "graphs": needed(BYTES, *MEMORY, into="graph_bytes"),
        "graphs_up_to": needed(SHARE, *MEMORY),
        "reserved_blocks": needed(NON_NEGATIVE_INTEGER, *REQUESTS),
        "expert_multiples": perhaps(Named(of=Named(of=WIDTHS)), *MEMORY),
        "compressed_pages": perhaps(_COMPRESSED_PAGES),
        "ref": REF,
    },
    build=lambda *, expert_multiples=None, **given: EngineMemory(
        expert_multiples=expert_multiples or {}, **given
    ),
)


class _Documented(Generic[T]):
    """A value with its documentation reference and optional further fields."""

    def __init__(self, reader: Reader[T], *read_by: str, **more: Field[Any]) -> None:
        self.fields: dict[str, Field[Any]] = {
            "value": needed(reader, *read_by),
            "ref": REF,
            **more,
        }

    def read(self, value: object, where: str) -> dict[str, Any]:
        return Record[dict[str, Any]](fields=self.fields, build=dict).read(value, where)


_DEVICE_LIMITS: Final = Record(
    fields={
        "memory": needed(BYTES, *STEPS, *MEMORY, into="memory_bytes"),
        "excludes": perhaps(NAMES, *STEPS, *MEMORY),
        "max_num_seqs": needed(COUNT, *MEMORY),
        "max_num_batched_tokens": needed(COUNT, *STEPS, *MEMORY),
    },
    build=lambda *, excludes=(), **given: DeviceLimits(excludes=excludes, **given),
)
_TOKENS: Final = Record(
    fields={
        "isl": perhaps(NON_NEGATIVE_INTEGER, *STEPS, *MEMORY),
        "requests": perhaps(NON_NEGATIVE_INTEGER, *STEPS, *MEMORY),
        "more": perhaps(NON_NEGATIVE_INTEGER, *STEPS, *MEMORY),
        "multiple": perhaps(COUNT, *STEPS, *MEMORY),
    },
    build=lambda **given: TokenSum(**{"isl": 0, "requests": 0, "more": 0, "multiple": 1, **given}),
)
_RECEIVE: Final = Record(
    fields={
        "few": needed(COUNT, *BATCHING),
        "many": needed(COUNT, *BATCHING),
        "many_from": needed(COUNT, *BATCHING),
    },
    build=ReceiveInterval,
)
# settings that a recipe may leave to the engine's defaults
_LAUNCH: Final[tuple[str, ...]] = (
    "max_num_batched_tokens",
    "max_num_seqs",
    "gpu_memory_utilization",
    "stream_interval",
    "scheduler_recv_interval",
)
_RECIPE: Final = Record(
    fields={
        "name": needed(NAME),
        "models": needed(NAMES, *STEPS, *MEMORY),
        "devices": needed(NAMES, *STEPS, *MEMORY),
        "least_gpus": perhaps(COUNT, *STEPS, *MEMORY),
        "most_gpus": perhaps(COUNT, *STEPS, *MEMORY),
        "max_num_batched_tokens": perhaps(_TOKENS),
        "max_num_seqs": perhaps(COUNT, *MEMORY),
        "gpu_memory_utilization": perhaps(Number(least=0.0, most=1.0), *MEMORY),
        "stream_interval": perhaps(COUNT, *BATCHING),
        "scheduler_recv_interval": perhaps(_RECEIVE),
        "ref": REF,
    },
    build=lambda **given: Recipe(
        **{"least_gpus": 1, "most_gpus": math.inf, **dict.fromkeys(_LAUNCH), **given}
    ),
)


def _scheduler(
    *,
    graph_sizes: Any,  # noqa: ANN401 - as read
    rules: Any,  # noqa: ANN401 - as read
    **given: Any,  # noqa: ANN401 - as read
) -> SchedulerDefaults:
    sizes = [s for first, last, step in graph_sizes for s in range(first, last + 1, step)]
    documented = {
        name: given.pop(name) for name in ("mixes", "holds_prompts", "shared_by_ranks", *OF_RANKS)
    }
    return SchedulerDefaults(
        graph_sizes=tuple(sizes),
        rules=rules["value"],
        chunked_prefill=rules["chunked_prefill"],
        rules_source=rules["source"],
        **{name: part["value"] for name, part in documented.items()},
        **{f"{name}_source": part["source"] for name, part in documented.items()},
        **given,
    )


OF_RANKS: Final = ("rank_padding", "rank_balance_iters")
_SCHEDULER: Final = Record(
    fields={
        "block_size": needed(COUNT, *MEMORY),
        "by_memory": needed(Array(of=_DEVICE_LIMITS)),
        "graph_sizes": needed(
            Array(of=WIDTHS, expected="an array of [first, last, step]"), *STEPS, *MEMORY
        ),
        "mixes": needed(_Documented(Flag(), *BATCHING)),
        "rules": needed(
            _Documented(Text(), *REQUESTS, chunked_prefill=needed(Flag(), *STEPS, *MEMORY))
        ),
        "holds_prompts": needed(_Documented(Flag(), *STEPS, *MEMORY)),
        "shared_by_ranks": needed(_Documented(Flag(), *STEPS, *MEMORY)),
        "rank_balance_iters": needed(_Documented(NON_NEGATIVE_INTEGER, *BATCHING)),
        "rank_padding": needed(_Documented(Text(choices=RANK_PADDINGS), *BATCHING)),
        "ref": REF,
    },
    build=_scheduler,
)
_ALL_REDUCE: Final = Record[dict[str, Any]](
    fields={
        "implementation": needed(Text(choices=("custom", "library")), *COLLECTIVES),
        "group_sizes": perhaps(_Documented(WIDTHS, *COLLECTIVES)),
        "pcie_group_sizes": perhaps(_Documented(WIDTHS, *COLLECTIVES)),
        "ref": REF,
    },
    build=dict,
)


class _NormFusion:
    """Limits [MiB] by architecture and group size, and their conditions."""

    fields: Final[dict[str, Field[Any]]] = {
        "formats": perhaps(NAMES, *OPERATORS),
        "model_types": perhaps(NAMES, *OPERATORS),
        "ref": REF,
        "<architecture>": perhaps(Named(of=Number(least=0.0, unit="MiB")), *OPERATORS),
    }

    def read(self, value: object, where: str) -> dict[str, Any]:
        table = sub_table(value, where)
        *named, every = self.fields
        own = {key: table[key] for key in table if key in named}
        limits = {key: table[key] for key in table if key not in named}
        given = read_fields(own, {key: self.fields[key] for key in named}, where)
        return {**given, "limits": Named(of=self.fields[every].reader).read(limits, where)}


_PROFILE: Final[dict[str, Field[Any]]] = {
    "name": needed(NAME, *INTERVALS),
    "version": needed(NAME, *OPERATORS),
    "date": needed(NAME),
    "kernel_family": needed(Text(), *STEPS),
    "earlier_kernels": perhaps(
        Record(fields={"through": needed(NAME, *OPERATORS), "ref": REF}, build=EarlierKernels)
    ),
    "runs_on": perhaps(
        Record(
            fields={
                "vendors": needed(Array(of=Text())),
                "kinds": perhaps(Array(of=Text())),
                "ref": REF,
            },
            build=RunsOn,
        ),
    ),
    "runs": perhaps(Text(choices=("language_models", "graphs", "all"))),
    "graph_formats": perhaps(NAMES),
    "formats": needed(Named(of=_FORMAT), into="format_aliases"),
    "expert_exchange": needed(_Documented(Text(choices=EXCHANGES), *STEPS)),
    "all_reduce": needed(_ALL_REDUCE),
    "all_reduce_norm_fusion": perhaps(_NormFusion()),
    "fusion": perhaps(Array(of=FUSION), into="fusions"),
    "separate_kernels": perhaps(Array(of=SEPARATE)),
    "attention": perhaps(
        Record(
            fields={
                "speed": needed(Named(of=Number(least=0.01, most=10.0)), *OPERATORS),
                "ref": REF,
            },
            build=AttentionSpeed,
        ),
    ),
    "graph_kernels": perhaps(
        Record(
            fields={
                "nhwc": perhaps(Text(), *OPERATORS),
                "layout": needed(Text(choices=("nchw", "nhwc")), *OPERATORS),
                "bytes_per_cycle": needed(Named(of=Number(least=0.01, most=1e3)), *OPERATORS),
                **{
                    name: perhaps(Named(of=Number(least=1e-4, most=1e5)), *OPERATORS)
                    for name in (
                        *("short_row", "short_row_bytes_per_cycle", "row_cycles"),
                        *("row_bytes_per_cycle", "gathers_per_cycle", "gradient_times"),
                    )
                },
                "block_bytes_per_cycle": perhaps(Named(of=Number(least=1e-4)), *OPERATORS),
                "head_dims": needed(Array(of=COUNT), *OPERATORS),
                "ref": REF,
            },
            build=GraphKernels,
        ),
    ),
    "overlap": perhaps(Array(of=OVERLAP), into="overlaps"),
    "batch_overlap": perhaps(BATCH_OVERLAPS),
    "host": needed(_HOST),
    "front": needed(_FRONT),
    "memory": needed(_MEMORY),
    "scheduler": needed(_SCHEDULER),
    "disaggregation": needed(
        Record(
            fields={
                "first_from": needed(Text(choices=("prefill", "arrival", "recomputed")), *POOLS),
                "stages": perhaps(Flag(), *POOLS),
                "ref": REF,
            },
            build=Disaggregation,
        ),
    ),
    "recipe": perhaps(Array(of=_RECIPE), into="recipes"),
    "full_attention": perhaps(
        Record(
            fields={"model_types": needed(NAMES, *OPERATORS, *MEMORY), "ref": REF},
            build=FullAttention,
        ),
    ),
}


def profile_fields() -> dict[str, ProfileField[Any]]:
    """Return every field of an engine's file by its path; what only documents others is left out.

    `[]` stands for each of several tables, a name in angle brackets for a key of any name.

    Example:
        >>> from perfatlas.engines import profile_fields
        >>> profile_fields()["host.step"].read_by, profile_fields()["fusion[].into"].read_by
        (('host time of steps',), ('operators',))
    """
    return dict(_leaves(_PROFILE, ""))


def _leaves(
    fields: Mapping[str, Field[Any]], place: str
) -> Iterator[tuple[str, ProfileField[Any]]]:
    for key, field in fields.items():
        reader, path = field.reader, f"{place}{key}"
        while True:
            inner = getattr(reader, "of", None)
            if isinstance(inner, Record):
                path += "[]" if isinstance(reader, Array) else ".<name>"
                reader = inner
            else:
                break
        if within := getattr(reader, "fields", None):
            yield from _leaves(within, f"{path}.")
        elif isinstance(field, ProfileField) and field is not REF:
            yield path, field


def profile_of(profile_id: str, table: Mapping[str, object]) -> EngineProfile:
    """Return the profile that a file describes.

    Args:
        profile_id: Name and version, equal to those in the file.
        table: The file, as `tomllib` reads it.

    Raises:
        InvalidSpecError: A key is unknown or missing, or a value is invalid; all problems are
            listed.
    """
    where = f"engine profile {profile_id}"
    refuse_misplaced(table, profile_fields(), where)
    given = read_fields(table, _PROFILE, where)
    exchange = given.pop("expert_exchange")
    kernels = given.pop("all_reduce")
    own = bool(given["kernel_family"]) and kernels["implementation"] == "custom"
    if own != ("group_sizes" in kernels):
        raise InvalidSpecError(
            f"engine profile {profile_id}: all_reduce.group_sizes must be set if the all_reduce"
            " implementation is custom, and only then"
        )
    rules = _all_reduce(kernels, given.pop("all_reduce_norm_fusion", {}))
    left_out: dict[str, Any] = {
        "fusions": (),
        "separate_kernels": (),
        "overlaps": (),
        "recipes": (),
        "batch_overlap": NO_OVERLAP,
    }
    return EngineProfile(
        id=profile_id,
        expert_exchange=exchange["value"],
        expert_exchange_source=exchange["source"],
        all_reduce=rules,
        **(left_out | given),
    )


def _all_reduce(kernels: Mapping[str, Any], fused: Mapping[str, Any]) -> AllReduceRules:
    groups = kernels.get("group_sizes", {})
    pcie = kernels.get("pcie_group_sizes", groups)
    sources = [part["source"] for part in (kernels, groups, fused) if part]
    return AllReduceRules(
        implementation=kernels["implementation"],
        group_sizes=groups.get("value", ()),
        pcie_group_sizes=pcie.get("value", ()),
        norm_fusion_bytes={
            architecture: {int(tp): mib * MEBIBYTE for tp, mib in limits.items()}
            for architecture, limits in fused.get("limits", {}).items()
        },
        norm_fusion_formats=fused.get("formats", ()),
        norm_fusion_model_types=fused.get("model_types", ()),
        sources=tuple(sources),
    )
