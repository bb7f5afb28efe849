"""Fields of an engine's TOML file, and construction of its profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from perfatlas.engines.misplaced_keys import refuse_misplaced
from perfatlas.engines.profile import (
    AllReduceRules,
    BatchOverlap,
    BatchOverlaps,
    DeviceLimits,
    Disaggregation,
    EngineMemory,
    EngineProfile,
    FormatAlias,
    FrontEnd,
    Fusion,
    HostTime,
    Overlap,
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
    Whole,
    read_fields,
    sub_table,
)
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

T = TypeVar("T")
MEBIBYTE: Final = 2.0**20


# What may read a field of a profile; nothing reads what only describes.
OPERATORS: Final = ("operators",)
COLLECTIVES: Final = ("collectives",)
STEPS: Final = (*OPERATORS, *COLLECTIVES)
HOST: Final = ("host time of steps",)
MEMORY: Final = ("memory",)
BATCHING: Final = ("continuous batching",)
POOLS: Final = ("disaggregated serving",)
REQUESTS: Final = (*BATCHING, *POOLS)
INTERVALS: Final = ("intervals of times per output token",)


@dataclass(frozen=True)
class ProfileField(Field[T]):
    """One field of a profile.

    Args:
        read_by: What may read it.
    """

    read_by: tuple[str, ...] = ()


def _needed(reader: Reader[T], *read_by: str, into: str = "") -> ProfileField[T]:
    return ProfileField(reader, required=True, into=into, read_by=read_by)


def _perhaps(reader: Reader[T], *read_by: str, into: str = "") -> ProfileField[T]:
    return ProfileField(reader, into=into, read_by=read_by)


_REF: Final = _needed(
    Text(empty=False, longest=4000, expected="a documentation reference"), into="source"
)
_NAME: Final = Text(empty=False)
_NAMES: Final = Array(of=Text(), expected="an array of names")
_TIME: Final = Number(dimension="s", unit="s", least=0.0, example="126 us")
_BYTES: Final = Number(dimension="bytes", unit="B", least=0.0, example="0.65 GiB")
_COUNT: Final = Whole(least=1)
_WHOLE: Final = Whole(least=0)
_SHARE: Final = Number(least=0.0)
_WIDTHS: Final[Array[int]] = Array(of=Whole(least=1), expected="an array of whole numbers")

_FORMAT: Final = Record(
    fields={
        "value": _needed(_NAME, *OPERATORS),
        "architectures": _perhaps(_NAMES, *OPERATORS),
        "ref": _REF,
    },
    build=lambda *, architectures=(), **given: FormatAlias(architectures=architectures, **given),
)
_FUSION: Final = Record(
    fields={
        "operators": _needed(_NAMES, *OPERATORS),
        "formats": _needed(_NAMES, *OPERATORS),
        "model_types": _perhaps(_NAMES, *OPERATORS),
        "into": _needed(Text(choices=("norm", "activation", "attention")), *OPERATORS),
        "ref": _REF,
    },
    build=lambda *, model_types=(), **given: Fusion(model_types=model_types, **given),
)
_OVERLAP: Final = Record(
    fields={
        "prefix": _needed(_NAME, *OPERATORS),
        "beside": _needed(_NAME, *OPERATORS),
        "max_tokens": _needed(_SHARE, *OPERATORS),
        "batch_overlap": _perhaps(Text(choices=("", "single_batch")), *OPERATORS),
        "architectures": _perhaps(_NAMES, *OPERATORS),
        "ref": _REF,
    },
    build=Overlap,
)
EXCHANGES: Final = ("all_to_all", "all_gather_reduce_scatter", "deepep")
_TWO_BATCH: Final = Record(
    fields={
        "exchanges": _needed(_NAMES),
        "prefill_tokens": _perhaps(_SHARE, *STEPS),
        "decode_tokens": _perhaps(_SHARE, *STEPS),
        "ref": _REF,
    },
    build=BatchOverlap,
)
_SINGLE_BATCH: Final = Record(
    fields={"exchanges": _needed(_NAMES), "ref": _REF}, build=BatchOverlap
)
_BATCH_OVERLAPS: Final = Record(
    fields={
        "value": _needed(Text(choices=("none", "two_batch", "single_batch")), *STEPS),
        "two_batch": _perhaps(_TWO_BATCH),
        "single_batch": _perhaps(_SINGLE_BATCH),
        "ref": _REF,
    },
    build=lambda *, two_batch=None, single_batch=None, **given: BatchOverlaps(
        two_batch=two_batch, single_batch=single_batch, **given
    ),
)
_HOST: Final = Record(
    fields={
        "step": _needed(_TIME, *HOST, into="step_s"),
        "per_sequence": _needed(_TIME, *HOST, into="per_sequence_s"),
        "per_layer_prefill": _needed(_TIME, *HOST, into="per_layer_prefill_s"),
        "overlapped": _needed(Flag(), *HOST),
        "ref": _REF,
    },
    build=HostTime,
)
_FRONT: Final = Record(
    fields={
        "request": _needed(_TIME, *REQUESTS, into="request_s"),
        "token": _needed(_TIME, *REQUESTS, into="token_s"),
        "response": _needed(_TIME, *REQUESTS, into="response_s"),
        "tokenizes": _needed(Flag(), *REQUESTS),
        "tokenizing_ratio": _perhaps(Number(least=0.0), *REQUESTS),
        "per": _needed(Text(choices=("rank", "replica")), *BATCHING),
        "assumed": _perhaps(Flag(), *BATCHING),
        "ref": _REF,
    },
    build=lambda *, per, **given: FrontEnd(per_rank=per == "rank", **given),
)
_MEMORY: Final = Record(
    fields={
        "rule": _needed(Text(choices=("total", "free", "static")), *MEMORY),
        "gpu_memory_utilization": _needed(Number(least=0.0, most=1.0), *MEMORY),
        "reserves_sampler": _needed(Flag(), *MEMORY),
        "sampler_copies": _needed(_SHARE, *MEMORY),
        "context": _needed(_BYTES, *MEMORY, into="context_bytes"),
        "communication": _needed(_BYTES, *MEMORY, into="communication_bytes"),
        "graphs": _needed(_BYTES, *MEMORY, into="graph_bytes"),
        "graphs_up_to": _needed(_SHARE, *MEMORY),
        "reserved_blocks": _needed(_WHOLE, *REQUESTS),
        "expert_multiples": _perhaps(Named(of=Named(of=_WIDTHS)), *MEMORY),
        "ref": _REF,
    },
    build=lambda *, expert_multiples=None, **given: EngineMemory(
        expert_multiples=expert_multiples or {}, **given
    ),
)


_NO_OVERLAP: Final = BatchOverlaps(value="none", two_batch=None, single_batch=None, source="")


class _Documented(Generic[T]):
    """A value with its documentation reference and optional further fields."""

    def __init__(self, reader: Reader[T], *read_by: str, **more: Field[Any]) -> None:
        self.fields: dict[str, Field[Any]] = {
            "value": _needed(reader, *read_by),
            "ref": _REF,
            **more,
        }

    def read(self, value: object, where: str) -> dict[str, Any]:
        return Record[dict[str, Any]](fields=self.fields, build=dict).read(value, where)


_DEVICE_LIMITS: Final = Record(
    fields={
        "memory": _needed(_BYTES, *STEPS, *MEMORY, into="memory_bytes"),
        "excludes": _perhaps(_NAMES, *STEPS, *MEMORY),
        "max_num_seqs": _needed(_COUNT, *MEMORY),
        "max_num_batched_tokens": _needed(_COUNT, *STEPS, *MEMORY),
    },
    build=lambda *, excludes=(), **given: DeviceLimits(excludes=excludes, **given),
)
_TOKENS: Final = Record(
    fields={
        "isl": _perhaps(_WHOLE, *STEPS, *MEMORY),
        "requests": _perhaps(_WHOLE, *STEPS, *MEMORY),
        "more": _perhaps(_WHOLE, *STEPS, *MEMORY),
        "multiple": _perhaps(_COUNT, *STEPS, *MEMORY),
    },
    build=lambda **given: TokenSum(**{"isl": 0, "requests": 0, "more": 0, "multiple": 1, **given}),
)
_RECEIVE: Final = Record(
    fields={
        "few": _needed(_COUNT, *BATCHING),
        "many": _needed(_COUNT, *BATCHING),
        "many_from": _needed(_COUNT, *BATCHING),
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
        "name": _needed(_NAME),
        "models": _needed(_NAMES, *STEPS, *MEMORY),
        "devices": _needed(_NAMES, *STEPS, *MEMORY),
        "least_gpus": _perhaps(_COUNT, *STEPS, *MEMORY),
        "max_num_batched_tokens": _perhaps(_TOKENS),
        "max_num_seqs": _perhaps(_COUNT, *MEMORY),
        "gpu_memory_utilization": _perhaps(Number(least=0.0, most=1.0), *MEMORY),
        "stream_interval": _perhaps(_COUNT, *BATCHING),
        "scheduler_recv_interval": _perhaps(_RECEIVE),
        "ref": _REF,
    },
    build=lambda **given: Recipe(**{"least_gpus": 1, **dict.fromkeys(_LAUNCH), **given}),
)


def _scheduler(
    *,
    graph_sizes: Any,  # noqa: ANN401 - as read
    rules: Any,  # noqa: ANN401 - as read
    **given: Any,  # noqa: ANN401 - as read
) -> SchedulerDefaults:
    sizes = [s for first, last, step in graph_sizes for s in range(first, last + 1, step)]
    documented = {name: given.pop(name) for name in ("mixes", "holds_prompts", "shared_by_ranks")}
    return SchedulerDefaults(
        graph_sizes=tuple(sizes),
        rules=rules["value"],
        chunked_prefill=rules["chunked_prefill"],
        rules_source=rules["source"],
        **{name: part["value"] for name, part in documented.items()},
        **{f"{name}_source": part["source"] for name, part in documented.items()},
        **given,
    )


_SCHEDULER: Final = Record(
    fields={
        "block_size": _needed(_COUNT, *MEMORY),
        "by_memory": _needed(Array(of=_DEVICE_LIMITS)),
        "graph_sizes": _needed(
            Array(of=_WIDTHS, expected="an array of [first, last, step]"), *STEPS, *MEMORY
        ),
        "mixes": _needed(_Documented(Flag(), *BATCHING)),
        "rules": _needed(
            _Documented(Text(), *REQUESTS, chunked_prefill=_needed(Flag(), *STEPS, *MEMORY))
        ),
        "holds_prompts": _needed(_Documented(Flag(), *STEPS, *MEMORY)),
        "shared_by_ranks": _needed(_Documented(Flag(), *STEPS, *MEMORY)),
        "ref": _REF,
    },
    build=_scheduler,
)
_ALL_REDUCE: Final = Record[dict[str, Any]](
    fields={
        "implementation": _needed(Text(choices=("custom", "library")), *COLLECTIVES),
        "group_sizes": _perhaps(_Documented(_WIDTHS, *COLLECTIVES)),
        "pcie_group_sizes": _perhaps(_Documented(_WIDTHS, *COLLECTIVES)),
        "ref": _REF,
    },
    build=dict,
)


class _NormFusion:
    """Limits [MiB] by architecture and group size, and their conditions."""

    fields: Final[dict[str, Field[Any]]] = {
        "formats": _perhaps(_NAMES, *OPERATORS),
        "model_types": _perhaps(_NAMES, *OPERATORS),
        "ref": _REF,
        "<architecture>": _perhaps(Named(of=Number(least=0.0, unit="MiB")), *OPERATORS),
    }

    def read(self, value: object, where: str) -> dict[str, Any]:
        table = sub_table(value, where)
        *named, every = self.fields
        own = {key: table[key] for key in table if key in named}
        limits = {key: table[key] for key in table if key not in named}
        given = read_fields(own, {key: self.fields[key] for key in named}, where)
        return {**given, "limits": Named(of=self.fields[every].reader).read(limits, where)}


_PROFILE: Final[dict[str, Field[Any]]] = {
    "name": _needed(_NAME, *INTERVALS),
    "version": _needed(_NAME),
    "date": _needed(_NAME),
    "kernel_family": _needed(Text(), *STEPS),
    "formats": _needed(Named(of=_FORMAT), into="format_aliases"),
    "expert_exchange": _needed(_Documented(Text(choices=EXCHANGES), *COLLECTIVES)),
    "all_reduce": _needed(_ALL_REDUCE),
    "all_reduce_norm_fusion": _perhaps(_NormFusion()),
    "fusion": _perhaps(Array(of=_FUSION), into="fusions"),
    "overlap": _perhaps(Array(of=_OVERLAP), into="overlaps"),
    "batch_overlap": _perhaps(_BATCH_OVERLAPS),
    "host": _needed(_HOST),
    "front": _needed(_FRONT),
    "memory": _needed(_MEMORY),
    "scheduler": _needed(_SCHEDULER),
    "disaggregation": _needed(
        Record(
            fields={
                "first_from": _needed(Text(choices=("prefill", "arrival", "recomputed")), *POOLS),
                "ref": _REF,
            },
            build=Disaggregation,
        )
    ),
    "recipe": _perhaps(Array(of=_RECIPE), into="recipes"),
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
        elif isinstance(field, ProfileField) and field is not _REF:
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
    return EngineProfile(
        id=profile_id,
        expert_exchange=exchange["value"],
        expert_exchange_source=exchange["source"],
        all_reduce=rules,
        **{"fusions": (), "overlaps": (), "recipes": (), "batch_overlap": _NO_OVERLAP, **given},
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
