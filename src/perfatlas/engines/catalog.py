"""Engine profiles by name; the newest version unless one is named."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any

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
from perfatlas.quantities import InvalidSpecError, parse_quantity, resolve_name

MEBIBYTE = 2.0**20


@cache
def engine_ids() -> tuple[str, ...]:
    """Return every profile id, such as "vllm@0.24", sorted."""
    folder = resources.files("perfatlas").joinpath("data/engines")
    names = (item.name for item in folder.iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


def engine_names() -> tuple[str, ...]:
    """Return every engine name once, sorted."""
    return tuple(sorted({profile_id.split("@")[0] for profile_id in engine_ids()}))


def _version_key(profile_id: str) -> tuple[int, ...]:
    version = profile_id.split("@")[1]
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))


@cache
def resolve_engine(text: str) -> EngineProfile:
    """Return the profile of "vllm" (newest) or of "vllm@0.24".

    Args:
        text: Name of an engine, or a profile id; in any letter case.

    Raises:
        InvalidSpecError: No such engine or version, or a profile that lacks a key.

    Example:
        >>> from perfatlas.engines import resolve_engine
        >>> resolve_engine("vllm").format_aliases["fp8"].value
        'fp8_dynamic'
    """
    dated = sorted(engine_ids(), key=_version_key)
    newest = {profile_id.split("@")[0]: profile_id for profile_id in dated}
    known = newest | {profile_id: profile_id for profile_id in dated}
    lists = "`perfatlas catalog engines` lists all"
    return _load(known[resolve_name(text.strip(), known, what="engine", lists=lists)])


def all_reduce_groups(profile: EngineProfile) -> dict[str, tuple[int, ...]]:
    """Return kernel family -> sizes of the groups an engine reduces with kernels of its own.

    Args:
        profile: The engine; one without a family of its own takes those of all others.

    Example:
        >>> from perfatlas.engines import all_reduce_groups, resolve_engine
        >>> all_reduce_groups(resolve_engine("vllm"))
        {'vllm': (2, 4, 6, 8)}
    """
    lenders = (resolve_engine(name) for name in engine_names())
    profiles = (profile,) if profile.kernel_family else tuple(lenders)
    return {
        one.kernel_family: one.all_reduce.group_sizes
        for one in profiles
        if one.kernel_family and profile.all_reduce.custom and one.all_reduce.custom
    }


@cache
def _load(profile_id: str) -> EngineProfile:
    path = resources.files("perfatlas").joinpath(f"data/engines/{profile_id}.toml")
    return _read(profile_id, path.read_text("utf-8"))


def _read(profile_id: str, text: str) -> EngineProfile:
    try:
        return _profile(profile_id, tomllib.loads(text))
    except KeyError as error:
        raise InvalidSpecError(
            f"engine profile {profile_id}: the key {error} is missing; see vllm's for all of them"
        ) from error


def _profile(profile_id: str, raw: dict[str, Any]) -> EngineProfile:
    return EngineProfile(
        id=profile_id,
        name=raw["name"],
        version=raw["version"],
        date=raw["date"],
        kernel_family=raw["kernel_family"],
        format_aliases={
            name: FormatAlias(
                value=alias["value"],
                architectures=tuple(alias.get("architectures", ())),
                source=alias["ref"],
            )
            for name, alias in raw["formats"].items()
        },
        expert_exchange=raw["expert_exchange"]["value"],
        expert_exchange_source=raw["expert_exchange"]["ref"],
        all_reduce=_all_reduce(raw),
        fusions=tuple(
            Fusion(
                operators=tuple(f["operators"]),
                formats=tuple(f["formats"]),
                model_types=tuple(f.get("model_types", ())),
                into=f["into"],
                source=f["ref"],
            )
            for f in raw.get("fusion", [])
        ),
        overlaps=tuple(
            Overlap(
                prefix=o["prefix"],
                beside=o["beside"],
                max_tokens=float(o["max_tokens"]),
                source=o["ref"],
            )
            for o in raw.get("overlap", [])
        ),
        host=_host(raw["host"]),
        front=_front(raw["front"]),
        memory=_memory(raw["memory"]),
        scheduler=_scheduler(raw["scheduler"]),
        disaggregation=Disaggregation(
            first_from=raw["disaggregation"]["first_from"], source=raw["disaggregation"]["ref"]
        ),
    )


def _all_reduce(raw: dict[str, Any]) -> AllReduceRules:
    fusion = dict(raw.get("all_reduce_norm_fusion", {}))
    sources = [raw["all_reduce"]["ref"]]
    groups: tuple[int, ...] = ()
    if raw["kernel_family"] and raw["all_reduce"]["implementation"] == "custom":
        groups = tuple(raw["all_reduce"]["group_sizes"]["value"])
        sources.append(raw["all_reduce"]["group_sizes"]["ref"])
    formats = tuple(fusion.pop("formats", ()))
    model_types = tuple(fusion.pop("model_types", ()))
    if fusion:
        sources.append(fusion.pop("ref"))
    return AllReduceRules(
        implementation=raw["all_reduce"]["implementation"],
        group_sizes=groups,
        norm_fusion_bytes={
            arch: {int(tp): mib * MEBIBYTE for tp, mib in limits.items()}
            for arch, limits in fusion.items()
        },
        norm_fusion_formats=formats,
        norm_fusion_model_types=model_types,
        sources=tuple(sources),
    )


def _host(raw: dict[str, Any]) -> HostTime:
    return HostTime(
        step_s=parse_quantity(raw["step"], "s"),
        per_sequence_s=parse_quantity(raw["per_sequence"], "s"),
        per_layer_prefill_s=parse_quantity(raw["per_layer_prefill"], "s"),
        overlapped=raw["overlapped"],
        source=raw["ref"],
    )


def _front(raw: dict[str, Any]) -> FrontEnd:
    return FrontEnd(
        request_s=parse_quantity(raw["request"], "s"),
        token_s=parse_quantity(raw["token"], "s"),
        response_s=parse_quantity(raw["response"], "s"),
        tokenizes=raw["tokenizes"],
        per_rank=raw["per"] == "rank",
        source=raw["ref"],
    )


def _memory(raw: dict[str, Any]) -> EngineMemory:
    return EngineMemory(
        rule=raw["rule"],
        gpu_memory_utilization=raw["gpu_memory_utilization"],
        reserves_sampler=raw["reserves_sampler"],
        sampler_copies=raw["sampler_copies"],
        context_bytes=parse_quantity(raw["context"], "bytes"),
        communication_bytes=parse_quantity(raw["communication"], "bytes"),
        graph_bytes=parse_quantity(raw["graphs"], "bytes"),
        graphs_up_to=raw["graphs_up_to"],
        expert_multiples=raw.get("expert_multiples", {}),
        source=raw["ref"],
    )


def _scheduler(raw: dict[str, Any]) -> SchedulerDefaults:
    sizes = [s for first, last, step in raw["graph_sizes"] for s in range(first, last + 1, step)]
    return SchedulerDefaults(
        block_size=raw["block_size"],
        max_num_seqs=raw["max_num_seqs"],
        max_num_seqs_large=raw["max_num_seqs_large"],
        max_num_batched_tokens=raw["max_num_batched_tokens"],
        max_num_batched_tokens_large=raw["max_num_batched_tokens_large"],
        large_memory_bytes=parse_quantity(raw["large_memory"], "bytes"),
        large_excludes=tuple(raw["large_excludes"]),
        graph_sizes=tuple(sizes),
        mixes=raw["mixes"]["value"],
        mixes_source=raw["mixes"]["ref"],
        rules=raw["rules"]["value"],
        chunked_prefill=raw["rules"]["chunked_prefill"],
        rules_source=raw["rules"]["ref"],
        source=raw["ref"],
    )
