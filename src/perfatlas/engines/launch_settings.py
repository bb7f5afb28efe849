"""Launch settings that change how an engine runs expert parallelism."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from perfatlas.engines.profile import EngineProfile


def with_launch_settings(
    profile: EngineProfile,
    expert_exchange: str | None,
    batch_overlap: str | None,
    *,
    penalties: bool = False,
    mixed_chunk: bool | None = None,
) -> EngineProfile:
    """Return an engine with the settings of a launch; None keeps its default.

    Args:
        expert_exchange: Exchange of tokens between attention-DP ranks.
        batch_overlap: "none", "two_batch" or "single_batch".
        penalties: Whether requests set sampling penalties.
        mixed_chunk: Whether prefill chunks share their steps with decodes.

    Raises:
        InvalidSpecError: The engine has no such overlap, or refuses it with the exchange, or the
            host time of sampling penalties is unknown.

    Example:
        >>> from perfatlas.engines import resolve_engine, with_launch_settings
        >>> with_launch_settings(resolve_engine("vllm"), "deepep", "two_batch").batch_overlap.value
        'two_batch'
    """
    changes: dict[str, Any] = {}
    if expert_exchange is not None:
        changes["expert_exchange"] = expert_exchange
    wanted = profile.batch_overlap.value if batch_overlap is None else batch_overlap
    if wanted != profile.batch_overlap.value:
        changes["batch_overlap"] = replace(profile.batch_overlap, value=wanted)
    if mixed_chunk is not None:
        changes["scheduler"] = replace(profile.scheduler, mixes=mixed_chunk)
    if penalties:
        changes["host"] = replace(profile.host, penalties=True)
    if penalties and profile.host.per_penalized_token_s is None:
        raise InvalidSpecError(
            f"sampling_penalties: {profile.id} has no host time of penalties; use an engine with"
            " host.per_penalized_token, such as vllm, or leave sampling_penalties out"
        )
    launched = replace(profile, **changes) if changes else profile
    if wanted != "none":
        _refuse(launched, wanted)
    return launched


def _refuse(profile: EngineProfile, wanted: str) -> None:
    """Refuse an overlap that the engine does not run."""
    families = {
        name: setting
        for name in ("two_batch", "single_batch")
        if (setting := getattr(profile.batch_overlap, name)) is not None
    }
    if wanted not in families:
        others = f"; it supports {' and '.join(families)}" if families else ""
        raise InvalidSpecError(f"{profile.id} has no batch_overlap = {wanted}{others}")
    exchanges = families[wanted].exchanges
    if profile.expert_exchange not in exchanges:
        raise InvalidSpecError(
            f"batch_overlap = {wanted} of {profile.id} needs expert_exchange ="
            f" {' or '.join(exchanges)}, not {profile.expert_exchange}; set expert_exchange ="
            f" {exchanges[-1]}"
        )
