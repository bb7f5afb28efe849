"""Engine profiles by name; the newest version by default."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from perfatlas.engines.profile_file import profile_of
from perfatlas.quantities import resolve_name

if TYPE_CHECKING:
    from perfatlas.engines.profile import EngineProfile


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
    """Return the profile for "vllm" (newest version) or "vllm@0.24".

    Args:
        text: Engine name or profile id, in any letter case.

    Raises:
        InvalidSpecError: There is no such engine or version, or its profile is incomplete.

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
    """Return the group sizes that an engine reduces with its own kernels, by kernel family.

    Args:
        profile: The engine; without its own kernel family, all families are returned.

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
    return profile_of(profile_id, tomllib.loads(path.read_text("utf-8")))
