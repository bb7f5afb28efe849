"""Fields of an engine's TOML file, and construction of its profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from perfatlas.engines.profile import (
    AllReduceRules,
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
    from collections.abc import Mapping

T = TypeVar("T")
MEBIBYTE: Final = 2.0**20


def _needed(reader: Reader[T], into: str = "") -> Field[T]:
    return Field(reader, required=True, into=into)


_REF: Final = _needed(
    Text(empty=False, longest=4000, expected="a documentation reference"), into="source"
)
_NAME: Final = _needed(Text(empty=False))
_NAMES: Final = Array(of=Text(), expected="an array of names")
_TIME: Final = Number(dimension="s", unit="s", least=0.0, example="126 us")
_BYTES: Final = Number(dimension="bytes", unit="B", least=0.0, example="0.65 GiB")
_COUNT: Final = _needed(Whole(least=1))
_SHARE: Final = _needed(Number(least=0.0))
_WIDTHS: Final[Array[int]] = Array(of=Whole(least=1), expected="an array of whole numbers")

_FORMAT: Final = Record(
    fields={"value": _NAME, "architectures": Field(_NAMES), "ref": _REF},
    build=lambda *, architectures=(), **given: FormatAlias(architectures=architectures, **given),
)
_FUSION: Final = Record(
    fields={
        "operators": _needed(_NAMES),
        "formats": _needed(_NAMES),
        "model_types": Field(_NAMES),
        "into": _needed(Text(choices=("norm", "activation", "attention"))),
        "ref": _REF,
    },
    build=lambda *, model_types=(), **given: Fusion(model_types=model_types, **given),
)
_OVERLAP: Final = Record(
    fields={"prefix": _NAME, "beside": _NAME, "max_tokens": _SHARE, "ref": _REF}, build=Overlap
)
_HOST: Final = Record(
    fields={
        "step": _needed(_TIME, into="step_s"),
        "per_sequence": _needed(_TIME, into="per_sequence_s"),
        "per_layer_prefill": _needed(_TIME, into="per_layer_prefill_s"),
        "overlapped": _needed(Flag()),
        "ref": _REF,
    },
    build=HostTime,
)
_FRONT: Final = Record(
    fields={
        "request": _needed(_TIME, into="request_s"),
        "token": _needed(_TIME, into="token_s"),
        "response": _needed(_TIME, into="response_s"),
        "tokenizes": _needed(Flag()),
        "per": _needed(Text(choices=("rank", "replica"))),
        "ref": _REF,
    },
    build=lambda *, per, **given: FrontEnd(per_rank=per == "rank", **given),
)
_MEMORY: Final = Record(
    fields={
        "rule": _needed(Text(choices=("total", "free", "static"))),
        "gpu_memory_utilization": _needed(Number(least=0.0, most=1.0)),
        "reserves_sampler": _needed(Flag()),
        "sampler_copies": _SHARE,
        "context": _needed(_BYTES, into="context_bytes"),
        "communication": _needed(_BYTES, into="communication_bytes"),
        "graphs": _needed(_BYTES, into="graph_bytes"),
        "graphs_up_to": _SHARE,
        "expert_multiples": Field(Named(of=Named(of=_WIDTHS))),
        "ref": _REF,
    },
    build=lambda *, expert_multiples=None, **given: EngineMemory(
        expert_multiples=expert_multiples or {}, **given
    ),
)


class _Documented(Generic[T]):
    """A value with its documentation reference and optional further fields."""

    def __init__(self, reader: Reader[T], **more: Field[Any]) -> None:
        self._record = Record[dict[str, Any]](
            fields={"value": _needed(reader), "ref": _REF, **more}, build=dict
        )

    def read(self, value: object, where: str) -> dict[str, Any]:
        return self._record.read(value, where)


def _scheduler(*, graph_sizes: Any, mixes: Any, rules: Any, **given: Any) -> SchedulerDefaults:  # noqa: ANN401 - as read
    sizes = [s for first, last, step in graph_sizes for s in range(first, last + 1, step)]
    return SchedulerDefaults(
        graph_sizes=tuple(sizes),
        mixes=mixes["value"],
        mixes_source=mixes["source"],
        rules=rules["value"],
        chunked_prefill=rules["chunked_prefill"],
        rules_source=rules["source"],
        **given,
    )


_SCHEDULER: Final = Record(
    fields={
        "block_size": _COUNT,
        "max_num_seqs": _COUNT,
        "max_num_seqs_large": _COUNT,
        "max_num_batched_tokens": _COUNT,
        "max_num_batched_tokens_large": _COUNT,
        "large_memory": _needed(_BYTES, into="large_memory_bytes"),
        "large_excludes": _needed(_NAMES),
        "graph_sizes": _needed(Array(of=_WIDTHS, expected="an array of [first, last, step]")),
        "mixes": _needed(_Documented(Flag())),
        "rules": _needed(_Documented(Text(), chunked_prefill=_needed(Flag()))),
        "ref": _REF,
    },
    build=_scheduler,
)
_ALL_REDUCE: Final = Record[dict[str, Any]](
    fields={
        "implementation": _needed(Text(choices=("custom", "library"))),
        "group_sizes": Field(_Documented(_WIDTHS)),
        "ref": _REF,
    },
    build=dict,
)


class _NormFusion:
    """Limits [MiB] by architecture and group size, and their conditions."""

    _FIELDS: Final[dict[str, Field[Any]]] = {
        "formats": Field(_NAMES),
        "model_types": Field(_NAMES),
        "ref": _REF,
    }
    _LIMITS: Final = Named(of=Named(of=Number(least=0.0)))

    def read(self, value: object, where: str) -> dict[str, Any]:
        table = sub_table(value, where)
        own = {key: table[key] for key in table if key in self._FIELDS}
        limits = {key: table[key] for key in table if key not in self._FIELDS}
        given = read_fields(own, self._FIELDS, where)
        return {**given, "limits": self._LIMITS.read(limits, where)}


_PROFILE: Final[dict[str, Field[Any]]] = {
    "name": _NAME,
    "version": _NAME,
    "date": _NAME,
    "kernel_family": _needed(Text()),
    "formats": _needed(Named(of=_FORMAT), into="format_aliases"),
    "expert_exchange": _needed(
        _Documented(Text(choices=("all_to_all", "all_gather_reduce_scatter")))
    ),
    "all_reduce": _needed(_ALL_REDUCE),
    "all_reduce_norm_fusion": Field(_NormFusion()),
    "fusion": Field(Array(of=_FUSION), into="fusions"),
    "overlap": Field(Array(of=_OVERLAP), into="overlaps"),
    "host": _needed(_HOST),
    "front": _needed(_FRONT),
    "memory": _needed(_MEMORY),
    "scheduler": _needed(_SCHEDULER),
    "disaggregation": _needed(
        Record(
            fields={
                "first_from": _needed(Text(choices=("prefill", "arrival", "recomputed"))),
                "ref": _REF,
            },
            build=Disaggregation,
        )
    ),
}


def profile_of(profile_id: str, table: Mapping[str, object]) -> EngineProfile:
    """Return the profile that a file describes.

    Args:
        profile_id: Name and version, equal to those in the file.
        table: The file, as `tomllib` reads it.

    Raises:
        InvalidSpecError: A key is unknown or missing, or a value is invalid; all problems are
            listed.
    """
    given = read_fields(table, _PROFILE, f"engine profile {profile_id}")
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
        **{"fusions": (), "overlaps": (), **given},
    )


def _all_reduce(kernels: Mapping[str, Any], fused: Mapping[str, Any]) -> AllReduceRules:
    groups = kernels.get("group_sizes", {})
    sources = [part["source"] for part in (kernels, groups, fused) if part]
    return AllReduceRules(
        implementation=kernels["implementation"],
        group_sizes=groups.get("value", ()),
        norm_fusion_bytes={
            architecture: {int(tp): mib * MEBIBYTE for tp, mib in limits.items()}
            for architecture, limits in fused.get("limits", {}).items()
        },
        norm_fusion_formats=fused.get("formats", ()),
        norm_fusion_model_types=fused.get("model_types", ()),
        sources=tuple(sources),
    )
