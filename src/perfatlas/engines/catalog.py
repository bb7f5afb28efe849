"""Engine profiles by name, the newest version by default, or by the path of a file."""

from __future__ import annotations

import tomllib
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfatlas.engines.profile_file import profile_of
from perfatlas.files import check_regular, read_toml
from perfatlas.quantities import InvalidSpecError, repr_for_error, resolve_name

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def resolve_engine(text: str) -> EngineProfile:
    """Return the profile for "vllm" (newest version), "vllm@0.24" or the path of a profile.

    Args:
        text: Engine name or profile id, in any letter case, or the path of a TOML file.

    Raises:
        InvalidSpecError: There is no such engine or version, or its profile is incomplete.

    Example:
        >>> from perfatlas.engines import resolve_engine
        >>> resolve_engine("vllm").format_aliases["fp8"].value
        'fp8_dynamic'
    """
    name = text.strip()
    if "/" in name:
        check_regular(name, "engine file")
    return _user_profile(name) if name.endswith(".toml") else _catalog_profile(name)


def _user_profile(path: str) -> EngineProfile:
    """Return the profile of a file, read again where it has changed."""
    try:
        state = Path(path).stat()
    except OSError as problem:
        raise InvalidSpecError(
            f"engine file {path} cannot be read: {problem.strerror}"
        ) from problem
    return _read_profile(path, (state.st_mtime_ns, state.st_size))


@lru_cache(maxsize=64)
def _read_profile(path: str, stamp: tuple[int, int]) -> EngineProfile:
    del stamp  # only part of the cache's key
    table = read_toml(path)
    base = table.pop("base", None)
    if base is None:
        return profile_of(path, table)
    if not isinstance(base, str) or base.endswith(".toml"):
        raise InvalidSpecError(
            f"engine file {path}: base = {repr_for_error(base)}; it must be an engine of"
            " `perfatlas catalog engines`, such as vllm@0.24"
        )
    return profile_of(path, _merged(_shipped_table(_catalog_profile(base).id), table, path))


def _merged(base: Mapping[str, Any], own: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a table with the values of another one where its own has none.

    A table of values with a reference needs a reference of its own, since that of the base does
    not document other values.
    """
    found = dict(base)
    for key, value in own.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            place = f"{where}: {key}"
            if "ref" in base[key] and "ref" not in value:
                raise InvalidSpecError(
                    f"engine file {place} changes values of its base and has no ref; add"
                    ' ref = "where the values come from"'
                )
            found[key] = _merged(base[key], value, place)
        else:
            found[key] = value
    return found


@cache
def _catalog_profile(text: str) -> EngineProfile:
    dated = sorted(engine_ids(), key=_version_key)
    newest = {profile_id.split("@")[0]: profile_id for profile_id in dated}
    known = newest | {profile_id: profile_id for profile_id in dated}
    lists = "`perfatlas catalog engines` lists all"
    return _load(known[resolve_name(text, known, what="engine", lists=lists)])


def all_reduce_groups(profile: EngineProfile, *, pcie: bool = False) -> dict[str, tuple[int, ...]]:
    """Return the group sizes that an engine reduces with its own kernels, by kernel family.

    Args:
        profile: The engine; without its own kernel family, all families are returned.
        pcie: Between GPUs without NVLink.

    Example:
        >>> from perfatlas.engines import all_reduce_groups, resolve_engine
        >>> all_reduce_groups(resolve_engine("vllm"))
        {'vllm': (2, 4, 6, 8)}
    """
    lenders = (resolve_engine(name) for name in engine_names())
    profiles = (profile,) if profile.kernel_family else tuple(lenders)
    return {
        one.kernel_family: one.all_reduce.pcie_group_sizes if pcie else one.all_reduce.group_sizes
        for one in profiles
        if one.kernel_family and profile.all_reduce.custom and one.all_reduce.custom
    }


@cache
def _load(profile_id: str) -> EngineProfile:
    return profile_of(profile_id, _shipped_table(profile_id))


def _shipped_table(profile_id: str) -> dict[str, Any]:
    path = resources.files("perfatlas").joinpath(f"data/engines/{profile_id}.toml")
    return tomllib.loads(path.read_text("utf-8"))
