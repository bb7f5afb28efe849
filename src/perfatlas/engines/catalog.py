"""Engine profiles by name, the newest version by default, or by the path of a file."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache, lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas.engines.profile_file import profile_of
from perfatlas.files import check_regular, read_toml, shipped_names, shipped_table
from perfatlas.hardware import KINDS
from perfatlas.quantities import InvalidSpecError, repr_for_error, resolve_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.engines.profile import EngineProfile
    from perfatlas.hardware import Device

CHANGES: Final = "data/engine_changes.toml"
# engines that run where none is named, by the networks that they run; on other devices the newest
PREFERRED: Final = {"graphs": "inductor", "language_models": "vllm"}
RELEASE: Final = re.compile(r"v?\d+(\.\d+)*")  # 0.17, 1.3.0


def engine_ids() -> tuple[str, ...]:
    """Return every profile id, such as "vllm@0.24", sorted."""
    return shipped_names("data/engines")


@cache
def engine_names() -> tuple[str, ...]:
    """Return every engine name once, sorted."""
    return tuple(sorted({profile_id.split("@")[0] for profile_id in engine_ids()}))


def _version_key(profile_id: str) -> tuple[int, ...]:
    version = profile_id.split("@")[1]
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))


def resolve_engine(text: str) -> EngineProfile:
    """Return the profile for "vllm" (newest version), "vllm@0.24" or the path of a profile.

    A patch release has the profile of its release; a release without a profile that of the nearest
    one, which its `borrowed` names.

    Args:
        text: Engine name or profile id, in any letter case, or the path of a TOML file.

    Raises:
        InvalidSpecError: There is no such engine, or its profile is incomplete.

    Example:
        >>> from perfatlas.engines import resolve_engine
        >>> resolve_engine("vllm").format_aliases["fp8"].value
        'fp8_dynamic'
    """
    name = text.strip()
    if "/" in name:
        check_regular(name, "engine file")
    return _user_profile(name) if name.endswith(".toml") else _catalog_profile(name)


def runs_on(engine: EngineProfile, device: Device) -> bool:
    """Return whether an engine runs on a device; the ideal one runs on all."""
    kind, limits = KINDS[device.kind], engine.runs_on
    if kind.engine or engine.name == "ideal":
        return engine.name == "ideal" or kind.engine in ("", engine.name)
    if limits is None:
        return not kind.own_engines
    return device.vendor in limits.vendors and device.kind in (limits.kinds or (device.kind,))


def engines_on(device: Device, runs: str) -> tuple[str, ...]:
    """Return the engines that run networks on a device: the newest first, ideal last.

    Args:
        runs: graphs or language_models.

    Example:
        >>> from perfatlas.engines import engines_on
        >>> from perfatlas.hardware import resolve_system
        >>> engines_on(resolve_system("tpu_v6e").device, "language_models")
        ('vllm_tpu', 'jetstream', 'ideal')
    """
    profiles = [
        profile
        for profile in map(resolve_engine, engine_names())
        if profile.runs in (runs, "all") and runs_on(profile, device)
    ]
    profiles.sort(key=lambda profile: profile.date, reverse=True)
    return tuple(profile.name for profile in sorted(profiles, key=lambda p: p.name == "ideal"))


def default_engine(device: Device, runs: str, stored: str | None = None) -> str:
    """Return the engine of a device where none is named: vLLM or torch.compile where they run.

    Args:
        runs: graphs or language_models.
        stored: Format in which a graph is stored, which the engine has to run; None for any.

    Example:
        >>> from perfatlas.engines import default_engine
        >>> from perfatlas.hardware import resolve_system
        >>> [
        ...     default_engine(resolve_system(name).device, "language_models")
        ...     for name in ("h100_sxm", "tpu_v6e", "gaudi3", "trainium2", "groq_tsp_v1")
        ... ]
        ['vllm', 'vllm_tpu', 'vllm_gaudi', 'neuronx', 'ideal']
    """

    def runs_stored(name: str) -> bool:
        return stored is None or stored in (resolve_engine(name).graph_formats or (stored,))

    preferred = PREFERRED[runs]
    if runs_on(resolve_engine(preferred), device) and runs_stored(preferred):
        return preferred  # without reading the other profiles
    return next(name for name in engines_on(device, runs) if runs_stored(name))


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
    parent = _catalog_profile(base)
    shipped = _shipped_table(parent.borrowed or parent.id)
    return profile_of(path, _merged(shipped, table, path))


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a table with the values of another one where its own has none.

    A table of values with a reference needs a reference of its own, since that of the base does
    not document other values.
    """
    merged = dict(base)
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            field = f"{where}: {key}"
            if "ref" in base[key] and "ref" not in value:
                raise InvalidSpecError(
                    f"engine file {field} changes values of its base and has no ref; add"
                    ' ref = "where the values come from"'
                )
            merged[key] = _merged(base[key], value, field)
        else:
            merged[key] = value
    return merged


@cache
def _catalog_profile(text: str) -> EngineProfile:
    dated = sorted(engine_ids(), key=_version_key)
    newest = {profile_id.split("@")[0]: profile_id for profile_id in dated}
    profiles = newest | {profile_id: profile_id for profile_id in dated}
    name, _, version = text.lower().partition("@")
    unknown = name in newest and RELEASE.fullmatch(version) and f"{name}@{version}" not in profiles
    if unknown and _load(newest[name]).kernel_family:  # ideal is no program with releases
        return _of_release(name, version.removeprefix("v"))
    lists = "`perfatlas catalog engines` lists all"
    return _load(profiles[resolve_name(text, tuple(profiles), what="engine", lists=lists)])


def _of_release(name: str, version: str) -> EngineProfile:
    """Return the profile of a patch release or of a beginning, or that of the nearest release.

    Releases are ordered by their numbers, and the nearest is one of both neighbours: of those on
    the same side of every changed default, if there is one.
    """
    releases = sorted(
        (engine_id for engine_id in engine_ids() if engine_id.split("@")[0] == name),
        key=_version_key,
    )
    if f"{name}@{version}" in releases:
        return _load(f"{name}@{version}")
    begun = [text for text in releases if text.split("@")[1].startswith(f"{version}.")]
    if begun:
        return _load(begun[-1])
    version_key = _version_key(f"{name}@{version}")
    older = [text for text in releases if _version_key(text) <= version_key]
    newer = [text for text in releases if _version_key(text) > version_key]
    near = [*older[-1:], *newer[:1]]
    near = [text for text in near if "" not in _gains_between(name, text, version_key)] or near
    nearest = min(near, key=lambda text: _release_distance(_version_key(text), version_key))
    if f"{version}.".startswith(nearest.split("@")[1] + "."):
        return _load(nearest)
    gains = _gains_between(name, nearest, version_key)
    return replace(
        _load(nearest),
        id=f"{name}@{version}",
        version=version,
        borrowed=nearest,
        borrowed_is_newer=nearest in newer,
        borrowed_gain=gains.pop("", 1.0),
        vendor_gains=gains,
    )


def _gains_between(name: str, profile_id: str, version: tuple[int, ...]) -> dict[str, float]:
    """Return the published gains of changed defaults between two releases.

    Vendor of the devices on which alone they changed, "" for all -> product of gains.
    """
    gains: dict[str, float] = {}
    first, last = sorted((_version_key(profile_id), version))
    for change in shipped_table(CHANGES)["change"]:
        if change["engine"] == name and first < _version_key(f"@{change['version']}") <= last:
            vendor = change.get("vendor", "")
            gains[vendor] = gains.get(vendor, 1.0) * change.get("gain", 1.0)
    return gains


def _release_distance(version: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """Return how far two releases are apart, the most significant number first."""
    return tuple(abs(a - b) for a, b in zip_longest(version, other, fillvalue=0))


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
        engine_profile.kernel_family: engine_profile.all_reduce.pcie_group_sizes
        if pcie
        else engine_profile.all_reduce.group_sizes
        for engine_profile in profiles
        if engine_profile.kernel_family
        and profile.all_reduce.custom
        and engine_profile.all_reduce.custom
    }


@cache
def _load(profile_id: str) -> EngineProfile:
    return profile_of(profile_id, _shipped_table(profile_id))


def _shipped_table(profile_id: str) -> dict[str, Any]:
    table = dict(shipped_table(f"data/engines/{profile_id}.toml"))
    base = table.pop("base", None)
    return table if base is None else _merged(_shipped_table(base), table, profile_id)
