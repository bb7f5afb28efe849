"""Fields of an engine's TOML file, and construction of its profile."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from perfatlas import files
from perfatlas.engines import field_readers, profile
from perfatlas.engines.fusions import (
    CONTIGUOUS,
    FUSION,
    SEPARATE,
    AttentionSpeed,
    GraphKernels,
)
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

OVERLAP: Final = files.Record(
    fields={
        "prefix": field_readers.needed(field_readers.NAME, *field_readers.OPERATORS),
        "beside": field_readers.needed(field_readers.NAME, *field_readers.OPERATORS),
        "max_tokens": field_readers.needed(field_readers.SHARE, *field_readers.OPERATORS),
        "batch_overlap": field_readers.perhaps(
            files.Text(choices=("", "single_batch")), *field_readers.OPERATORS
        ),
        "architectures": field_readers.perhaps(field_readers.NAMES, *field_readers.OPERATORS),
        "ref": field_readers.REF,
    },
    build=profile.Overlap,
)
EXCHANGES: Final = ("all_to_all", "all_gather_reduce_scatter", "quantized_all_gather", "deepep")
_TWO_BATCH: Final = files.Record(
    fields={
        "exchanges": field_readers.needed(field_readers.NAMES),
        "prefill_tokens": field_readers.perhaps(field_readers.SHARE, *field_readers.STEPS),
        "decode_tokens": field_readers.perhaps(field_readers.SHARE, *field_readers.STEPS),
        "ref": field_readers.REF,
    },
    build=profile.BatchOverlap,
)
_SINGLE_BATCH: Final = files.Record(
    fields={"exchanges": field_readers.needed(field_readers.NAMES), "ref": field_readers.REF},
    build=profile.BatchOverlap,
)
BATCH_OVERLAPS: Final = files.Record(
    fields={
        "value": field_readers.needed(
            files.Text(choices=("none", "two_batch", "single_batch")), *field_readers.STEPS
        ),
        "two_batch": field_readers.perhaps(_TWO_BATCH),
        "single_batch": field_readers.perhaps(_SINGLE_BATCH),
        "ref": field_readers.REF,
    },
    build=lambda *, two_batch=None, single_batch=None, **fields: profile.BatchOverlaps(
        two_batch=two_batch, single_batch=single_batch, **fields
    ),
)
NO_OVERLAP: Final = profile.BatchOverlaps(
    value="none", two_batch=None, single_batch=None, source=""
)


def refuse_misplaced(table: Mapping[str, object], paths: Iterable[str], where: str) -> None:
    """Refuse a key at the top of a file, or in its scheduler, that belongs to another table.

    Args:
        paths: Paths of all fields, as `profile_fields` has them.
    """
    names = list(paths)
    scheduler = table.get("scheduler")
    tables = {"": table, "scheduler.": scheduler if isinstance(scheduler, dict) else {}}
    for prefix, keys in tables.items():
        for key in keys:
            if any(path.split("[")[0].startswith(f"{prefix}{key}") for path in names):
                continue
            parts = [path.rpartition(".") for path in names]
            homes = [_header(home) for home, _, name in parts if name == key and home]
            if homes:
                raise InvalidSpecError(
                    f"{where}: {prefix}{key} has no effect: {key} belongs to"
                    f" {' or '.join(homes)}; write it below that line"
                )


def _header(path: str) -> str:
    """Return the line that begins a table: [host] or [[scheduler.by_memory]]."""
    return f"[[{path.removesuffix('[]')}]]" if path.endswith("[]") else f"[{path}]"


T = TypeVar("T")
MEBIBYTE: Final = 2.0**20

_FORMAT: Final = files.Record(
    fields={
        "value": field_readers.needed(field_readers.NAME, *field_readers.OPERATORS),
        "architectures": field_readers.perhaps(field_readers.NAMES, *field_readers.OPERATORS),
        "ref": field_readers.REF,
    },
    build=lambda *, architectures=(), **fields: profile.FormatAlias(
        architectures=architectures, **fields
    ),
)
_HOST: Final = files.Record(
    fields={
        "step": field_readers.needed(field_readers.TIME, *field_readers.HOST, into="step_s"),
        "per_sequence": field_readers.needed(
            field_readers.TIME, *field_readers.HOST, into="per_sequence_s"
        ),
        "per_layer_prefill": field_readers.needed(
            field_readers.TIME, *field_readers.HOST, into="per_layer_prefill_s"
        ),
        "per_operator_prefill": field_readers.perhaps(
            field_readers.TIME, *field_readers.HOST, into="per_operator_prefill_s"
        ),
        "host_factor": field_readers.perhaps(
            files.Number(least=1.0, most=100.0), *field_readers.INTERVALS
        ),
        "per_expert_layer_prefill": field_readers.perhaps(
            field_readers.TIME, *field_readers.HOST, into="per_expert_layer_prefill_s"
        ),
        "per_penalized_token": field_readers.perhaps(
            field_readers.TIME, *field_readers.HOST, into="per_penalized_token_s"
        ),
        "overlapped": field_readers.needed(files.Flag(), *field_readers.HOST),
        "ref": field_readers.REF,
    },
    build=profile.HostTime,
)
_FRONT: Final = files.Record(
    fields={
        "request": field_readers.needed(
            field_readers.TIME, *field_readers.REQUESTS, into="request_s"
        ),
        "request_fastest": field_readers.perhaps(
            field_readers.TIME, *field_readers.INTERVALS, into="request_fastest_s"
        ),
        "request_slowest": field_readers.perhaps(
            field_readers.TIME, *field_readers.INTERVALS, into="request_slowest_s"
        ),
        "token": field_readers.needed(field_readers.TIME, *field_readers.REQUESTS, into="token_s"),
        "token_fastest": field_readers.perhaps(
            field_readers.TIME, *field_readers.INTERVALS, into="token_fastest_s"
        ),
        "token_slowest": field_readers.perhaps(
            field_readers.TIME, *field_readers.INTERVALS, into="token_slowest_s"
        ),
        "response": field_readers.needed(
            field_readers.TIME, *field_readers.REQUESTS, into="response_s"
        ),
        "tokenizes": field_readers.needed(files.Flag(), *field_readers.REQUESTS),
        "tokenizing_ratio": field_readers.perhaps(files.Number(least=0.0), *field_readers.REQUESTS),
        "per": field_readers.needed(
            files.Text(choices=("rank", "replica")), *field_readers.BATCHING
        ),
        "assumed": field_readers.perhaps(files.Flag(), *field_readers.BATCHING),
        "ref": field_readers.REF,
    },
    build=lambda *, per, **fields: profile.FrontEnd(per_rank=per == "rank", **fields),
)
_COMPRESSED_PAGES: Final = files.Record(
    fields={
        "formats": field_readers.needed(field_readers.NAMES, *field_readers.MEMORY),
        "block": field_readers.needed(field_readers.COUNT, *field_readers.MEMORY),
        "window_block": field_readers.needed(field_readers.COUNT, *field_readers.MEMORY),
        "state_blocks": field_readers.needed(
            files.Array(of=field_readers.WIDTHS, expected="an array of [kept, block]"),
            *field_readers.MEMORY,
        ),
        "alignment": field_readers.needed(
            field_readers.BYTES, *field_readers.MEMORY, into="alignment_bytes"
        ),
        "row_extra": field_readers.needed(
            field_readers.BYTES, *field_readers.MEMORY, into="row_extra_bytes"
        ),
        "reserved_batches": field_readers.needed(field_readers.SHARE, *field_readers.MEMORY),
        "ref": field_readers.REF,
    },
    build=profile.CompressedPages,
)
_PAGE_GROUPS: Final = files.Record(
    fields={
        "merge_below": field_readers.needed(field_readers.SHARE, *field_readers.MEMORY),
        "half_states": field_readers.needed(field_readers.NAMES, *field_readers.MEMORY),
        "ref": field_readers.REF,
    },
    build=profile.PageGroups,
)
_POOLS: Final = files.Record(
    fields={
        "window_tokens": field_readers.needed(files.Number(least=0.01), *field_readers.MEMORY),
        "window_model_types": field_readers.needed(field_readers.NAMES, *field_readers.MEMORY),
        "state_ratio": field_readers.perhaps(files.Number(least=0.01), *field_readers.MEMORY),
        "states_per_request": field_readers.perhaps(field_readers.SHARE, *field_readers.MEMORY),
        "ref": field_readers.REF,
    },
    build=profile.CachePools,
)
_MEMORY: Final = files.Record(
    fields={
        "rule": field_readers.needed(
            files.Text(choices=("total", "free", "static")), *field_readers.MEMORY
        ),
        "gpu_memory_utilization": field_readers.needed(
            files.Number(least=0.0, most=1.0), *field_readers.MEMORY
        ),
        "reserves_sampler": field_readers.needed(files.Flag(), *field_readers.MEMORY),
        "sampler_copies": field_readers.needed(field_readers.SHARE, *field_readers.MEMORY),
        "sampler_copies_fewest": field_readers.perhaps(field_readers.SHARE, *field_readers.MEMORY),
        "context": field_readers.needed(
            field_readers.BYTES, *field_readers.MEMORY, into="context_bytes"
        ),
        "communication": field_readers.needed(
            field_readers.BYTES, *field_readers.MEMORY, into="communication_bytes"
        ),
        "graphs": field_readers.needed(
            field_readers.BYTES, *field_readers.MEMORY, into="graph_bytes"
        ),
        "graphs_up_to": field_readers.needed(field_readers.SHARE, *field_readers.MEMORY),
        "reserved_blocks": field_readers.needed(
            field_readers.NON_NEGATIVE_INTEGER, *field_readers.REQUESTS
        ),
        "expert_multiples": field_readers.perhaps(
            files.Named(of=files.Named(of=field_readers.WIDTHS)), *field_readers.MEMORY
        ),
        "compressed_pages": field_readers.perhaps(_COMPRESSED_PAGES),
        "page_groups": field_readers.perhaps(_PAGE_GROUPS),
        "pools": field_readers.perhaps(_POOLS),
        "ref": field_readers.REF,
    },
    build=lambda *, expert_multiples=None, **fields: profile.EngineMemory(
        expert_multiples=expert_multiples or {}, **fields
    ),
)


class _Documented(Generic[T]):
    """A value with its documentation reference and optional further fields."""

    def __init__(self, reader: files.Reader[T], *read_by: str, **more: files.Field[Any]) -> None:
        self.fields: dict[str, files.Field[Any]] = {
            "value": field_readers.needed(reader, *read_by),
            "ref": field_readers.REF,
            **more,
        }

    def read(self, value: object, where: str) -> dict[str, Any]:
        return files.Record[dict[str, Any]](fields=self.fields, build=dict).read(value, where)


_DEVICE_LIMITS: Final = files.Record(
    fields={
        "memory": field_readers.needed(
            field_readers.BYTES, *field_readers.STEPS, *field_readers.MEMORY, into="memory_bytes"
        ),
        "excludes": field_readers.perhaps(
            field_readers.NAMES, *field_readers.STEPS, *field_readers.MEMORY
        ),
        "max_num_seqs": field_readers.needed(field_readers.COUNT, *field_readers.MEMORY),
        "max_num_batched_tokens": field_readers.needed(
            field_readers.COUNT, *field_readers.STEPS, *field_readers.MEMORY
        ),
    },
    build=lambda *, excludes=(), **fields: profile.DeviceLimits(excludes=excludes, **fields),
)
_TOKENS: Final = files.Record(
    fields={
        "isl": field_readers.perhaps(
            field_readers.NON_NEGATIVE_INTEGER, *field_readers.STEPS, *field_readers.MEMORY
        ),
        "requests": field_readers.perhaps(
            field_readers.NON_NEGATIVE_INTEGER, *field_readers.STEPS, *field_readers.MEMORY
        ),
        "more": field_readers.perhaps(
            field_readers.NON_NEGATIVE_INTEGER, *field_readers.STEPS, *field_readers.MEMORY
        ),
        "multiple": field_readers.perhaps(
            field_readers.COUNT, *field_readers.STEPS, *field_readers.MEMORY
        ),
    },
    build=lambda **fields: profile.TokenSum(
        **{"isl": 0, "requests": 0, "more": 0, "multiple": 1, **fields}
    ),
)
_RECEIVE: Final = files.Record(
    fields={
        "few": field_readers.needed(field_readers.COUNT, *field_readers.BATCHING),
        "many": field_readers.needed(field_readers.COUNT, *field_readers.BATCHING),
        "many_from": field_readers.needed(field_readers.COUNT, *field_readers.BATCHING),
    },
    build=profile.ReceiveInterval,
)
# settings that a recipe may leave to the engine's defaults
_LAUNCH: Final[tuple[str, ...]] = (
    "max_num_batched_tokens",
    "max_num_seqs",
    "gpu_memory_utilization",
    "stream_interval",
    "scheduler_recv_interval",
)
_RECIPE: Final = files.Record(
    fields={
        "name": field_readers.needed(field_readers.NAME),
        "models": field_readers.needed(
            field_readers.NAMES, *field_readers.STEPS, *field_readers.MEMORY
        ),
        "devices": field_readers.needed(
            field_readers.NAMES, *field_readers.STEPS, *field_readers.MEMORY
        ),
        "least_gpus": field_readers.perhaps(
            field_readers.COUNT, *field_readers.STEPS, *field_readers.MEMORY
        ),
        "most_gpus": field_readers.perhaps(
            field_readers.COUNT, *field_readers.STEPS, *field_readers.MEMORY
        ),
        "max_num_batched_tokens": field_readers.perhaps(_TOKENS),
        "max_num_seqs": field_readers.perhaps(field_readers.COUNT, *field_readers.MEMORY),
        "gpu_memory_utilization": field_readers.perhaps(
            files.Number(least=0.0, most=1.0), *field_readers.MEMORY
        ),
        "stream_interval": field_readers.perhaps(field_readers.COUNT, *field_readers.BATCHING),
        "scheduler_recv_interval": field_readers.perhaps(_RECEIVE),
        "ref": field_readers.REF,
    },
    build=lambda **fields: profile.Recipe(
        **{"least_gpus": 1, "most_gpus": math.inf, **dict.fromkeys(_LAUNCH), **fields}
    ),
)


def _scheduler(
    *,
    graph_sizes: Any,  # noqa: ANN401 - as read
    rules: Any,  # noqa: ANN401 - as read
    **fields: Any,  # noqa: ANN401 - as read
) -> profile.SchedulerDefaults:
    sizes = [s for first, last, step in graph_sizes for s in range(first, last + 1, step)]
    documented = ("mixes", "holds_prompts", "shared_by_ranks", *OF_RANKS)
    values = {name: fields.pop(name)["value"] for name in documented}
    return profile.SchedulerDefaults(
        graph_sizes=tuple(sizes),
        rules=rules["value"],
        chunked_prefill=rules["chunked_prefill"],
        **values,
        **fields,
    )


OF_RANKS: Final = ("rank_padding", "rank_balance_iters")
_SCHEDULER: Final = files.Record(
    fields={
        "block_size": field_readers.needed(field_readers.COUNT, *field_readers.MEMORY),
        "by_memory": field_readers.needed(files.Array(of=_DEVICE_LIMITS)),
        "graph_sizes": field_readers.needed(
            files.Array(of=field_readers.WIDTHS, expected="an array of [first, last, step]"),
            *field_readers.STEPS,
            *field_readers.MEMORY,
        ),
        "mixes": field_readers.needed(_Documented(files.Flag(), *field_readers.BATCHING)),
        "rules": field_readers.needed(
            _Documented(
                files.Text(),
                *field_readers.REQUESTS,
                chunked_prefill=field_readers.needed(
                    files.Flag(), *field_readers.STEPS, *field_readers.MEMORY
                ),
            )
        ),
        "holds_prompts": field_readers.needed(
            _Documented(files.Flag(), *field_readers.STEPS, *field_readers.MEMORY)
        ),
        "shared_by_ranks": field_readers.needed(
            _Documented(files.Flag(), *field_readers.STEPS, *field_readers.MEMORY)
        ),
        "rank_balance_iters": field_readers.needed(
            _Documented(field_readers.NON_NEGATIVE_INTEGER, *field_readers.BATCHING)
        ),
        "rank_padding": field_readers.needed(
            _Documented(files.Text(choices=profile.RANK_PADDINGS), *field_readers.BATCHING)
        ),
        "ref": field_readers.REF,
    },
    build=_scheduler,
)
_ALL_REDUCE: Final = files.Record[dict[str, Any]](
    fields={
        "implementation": field_readers.needed(
            files.Text(choices=("custom", "library")), *field_readers.COLLECTIVES
        ),
        "group_sizes": field_readers.perhaps(
            _Documented(field_readers.WIDTHS, *field_readers.COLLECTIVES)
        ),
        "pcie_group_sizes": field_readers.perhaps(
            _Documented(field_readers.WIDTHS, *field_readers.COLLECTIVES)
        ),
        "ref": field_readers.REF,
    },
    build=dict,
)


class _NormFusion:
    """Limits [MiB] by architecture and group size, and their conditions."""

    fields: Final[dict[str, files.Field[Any]]] = {
        "formats": field_readers.perhaps(field_readers.NAMES, *field_readers.OPERATORS),
        "model_types": field_readers.perhaps(field_readers.NAMES, *field_readers.OPERATORS),
        "ref": field_readers.REF,
        "<architecture>": field_readers.perhaps(
            files.Named(of=files.Number(least=0.0, unit="MiB")), *field_readers.OPERATORS
        ),
    }

    def read(self, value: object, where: str) -> dict[str, Any]:
        table = files.sub_table(value, where)
        *named, every = self.fields
        values = {key: table[key] for key in table if key in named}
        limits = {key: table[key] for key in table if key not in named}
        fields = files.read_fields(values, {key: self.fields[key] for key in named}, where)
        return {**fields, "limits": files.Named(of=self.fields[every].reader).read(limits, where)}


_PROFILE: Final[dict[str, files.Field[Any]]] = {
    "name": field_readers.needed(field_readers.NAME, *field_readers.INTERVALS),
    "version": field_readers.needed(field_readers.NAME, *field_readers.OPERATORS),
    "date": field_readers.needed(field_readers.NAME),
    "kernel_family": field_readers.needed(files.Text(), *field_readers.STEPS),
    "earlier_kernels": field_readers.perhaps(
        files.Record(
            fields={
                "through": field_readers.needed(field_readers.NAME, *field_readers.OPERATORS),
                "ref": field_readers.REF,
            },
            build=profile.EarlierKernels,
        )
    ),
    "runs_on": field_readers.perhaps(
        files.Record(
            fields={
                "vendors": field_readers.needed(files.Array(of=files.Text())),
                "kinds": field_readers.perhaps(files.Array(of=files.Text())),
                "ref": field_readers.REF,
            },
            build=profile.RunsOn,
        )
    ),
    "runs": field_readers.perhaps(files.Text(choices=("language_models", "graphs", "all"))),
    "graph_formats": field_readers.perhaps(field_readers.NAMES),
    "formats": field_readers.needed(files.Named(of=_FORMAT), into="format_aliases"),
    "product_kernels": field_readers.perhaps(
        files.Named(
            of=files.Record(
                fields={
                    "value": field_readers.needed(field_readers.NAME, *field_readers.OPERATORS),
                    "ref": field_readers.REF,
                },
                build=partial(profile.FormatAlias, architectures=()),
            )
        )
    ),
    "expert_exchange": field_readers.needed(
        _Documented(files.Text(choices=EXCHANGES), *field_readers.STEPS)
    ),
    "all_reduce": field_readers.needed(_ALL_REDUCE),
    "all_reduce_norm_fusion": field_readers.perhaps(_NormFusion()),
    "fusion": field_readers.perhaps(files.Array(of=FUSION), into="fusions"),
    "separate_kernels": field_readers.perhaps(files.Array(of=SEPARATE)),
    "contiguous_experts": field_readers.perhaps(CONTIGUOUS),
    "attention": field_readers.perhaps(
        files.Record(
            fields={
                "speed": field_readers.needed(
                    files.Named(of=files.Number(least=0.01, most=10.0)), *field_readers.OPERATORS
                ),
                "ref": field_readers.REF,
            },
            build=AttentionSpeed,
        )
    ),
    "graph_kernels": field_readers.perhaps(
        files.Record(
            fields={
                "nhwc": field_readers.perhaps(files.Text(), *field_readers.OPERATORS),
                "layout": field_readers.needed(
                    files.Text(choices=("nchw", "nhwc")), *field_readers.OPERATORS
                ),
                "bytes_per_cycle": field_readers.needed(
                    files.Named(of=files.Number(least=0.01, most=1e3)), *field_readers.OPERATORS
                ),
                **{
                    name: field_readers.perhaps(
                        files.Named(of=files.Number(least=1e-4, most=1e5)), *field_readers.OPERATORS
                    )
                    for name in (
                        *("short_row", "short_row_bytes_per_cycle", "row_cycles"),
                        *("row_bytes_per_cycle", "gathers_per_cycle", "gradient_times"),
                    )
                },
                "block_bytes_per_cycle": field_readers.perhaps(
                    files.Named(of=files.Number(least=1e-4)), *field_readers.OPERATORS
                ),
                "head_dims": field_readers.needed(
                    files.Array(of=field_readers.COUNT), *field_readers.OPERATORS
                ),
                "pass_speed": field_readers.perhaps(
                    files.Named(of=files.Number(least=0.1, most=1.0)), *field_readers.OPERATORS
                ),
                "ref": field_readers.REF,
            },
            build=GraphKernels,
        )
    ),
    "overlap": field_readers.perhaps(files.Array(of=OVERLAP), into="overlaps"),
    "batch_overlap": field_readers.perhaps(BATCH_OVERLAPS),
    "host": field_readers.needed(_HOST),
    "front": field_readers.needed(_FRONT),
    "memory": field_readers.needed(_MEMORY),
    "scheduler": field_readers.needed(_SCHEDULER),
    "disaggregation": field_readers.needed(
        files.Record(
            fields={
                "first_from": field_readers.needed(
                    files.Text(choices=("prefill", "arrival", "recomputed")), *field_readers.POOLS
                ),
                "stages": field_readers.perhaps(files.Flag(), *field_readers.POOLS),
                "ref": field_readers.REF,
            },
            build=profile.Disaggregation,
        )
    ),
    "kv_offload": field_readers.perhaps(
        files.Record(
            fields={
                "name": field_readers.needed(field_readers.NAME),
                "stores": field_readers.needed(
                    files.Text(choices=("computed", "evicted")), *field_readers.BATCHING
                ),
                "store_waits": field_readers.needed(files.Flag(), *field_readers.BATCHING),
                "layerwise": field_readers.needed(files.Flag(), *field_readers.BATCHING),
                "ref": field_readers.REF,
            },
            build=profile.KvOffload,
        )
    ),
    "recipe": field_readers.perhaps(files.Array(of=_RECIPE), into="recipes"),
    "full_attention": field_readers.perhaps(
        files.Record(
            fields={
                "model_types": field_readers.needed(
                    field_readers.NAMES, *field_readers.OPERATORS, *field_readers.MEMORY
                ),
                "ref": field_readers.REF,
            },
            build=profile.FullAttention,
        )
    ),
}


def profile_fields() -> dict[str, field_readers.ProfileField[Any]]:
    """Return every field of an engine's file by its path; what only documents others is left out.

    `[]` stands for each of several tables, a name in angle brackets for a key of any name.

    Example:
        >>> from perfatlas.engines import profile_fields
        >>> profile_fields()["host.step"].read_by, profile_fields()["fusion[].into"].read_by
        (('host time of steps',), ('operators',))
    """
    return dict(_leaves(_PROFILE, ""))


def _leaves(
    fields: Mapping[str, files.Field[Any]], prefix: str
) -> Iterator[tuple[str, field_readers.ProfileField[Any]]]:
    for key, field in fields.items():
        reader, path = field.reader, f"{prefix}{key}"
        while True:
            inner = getattr(reader, "of", None)
            if isinstance(inner, files.Record):
                path += "[]" if isinstance(reader, files.Array) else ".<name>"
                reader = inner
            else:
                break
        if within := getattr(reader, "fields", None):
            yield from _leaves(within, f"{path}.")
        elif isinstance(field, field_readers.ProfileField) and field is not field_readers.REF:
            yield path, field


def profile_of(profile_id: str, table: Mapping[str, object]) -> profile.EngineProfile:
    """Return the profile that a file describes.

    Args:
        table: The file, as `tomllib` reads it.
    """
    where = f"engine profile {profile_id}"
    refuse_misplaced(table, profile_fields(), where)
    fields = files.read_fields(table, _PROFILE, where)
    exchange = fields.pop("expert_exchange")
    kernels = fields.pop("all_reduce")
    custom = bool(fields["kernel_family"]) and kernels["implementation"] == "custom"
    if custom != ("group_sizes" in kernels):
        raise InvalidSpecError(
            f"engine profile {profile_id}: all_reduce.group_sizes must be set if the all_reduce"
            " implementation is custom, and only then"
        )
    rules = _all_reduce(kernels, fields.pop("all_reduce_norm_fusion", {}))
    left_out: dict[str, Any] = {
        "fusions": (),
        "separate_kernels": (),
        "overlaps": (),
        "recipes": (),
        "batch_overlap": NO_OVERLAP,
    }
    return profile.EngineProfile(
        id=profile_id, expert_exchange=exchange["value"], all_reduce=rules, **(left_out | fields)
    )


def _all_reduce(kernels: Mapping[str, Any], fused: Mapping[str, Any]) -> profile.AllReduceRules:
    groups = kernels.get("group_sizes", {})
    pcie = kernels.get("pcie_group_sizes", groups)
    sources = [part["source"] for part in (kernels, groups, fused) if part]
    return profile.AllReduceRules(
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
