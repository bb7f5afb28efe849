"""Number formats of a model: set by the user, from the checkpoint, or an engine default."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from perfatlas.formats import formats, get_format
from perfatlas.hardware import resolve_system
from perfatlas.models import Architecture, ModelFormats
from perfatlas.quantities import InvalidSpecError, UnsupportedError

if TYPE_CHECKING:
    from perfatlas.engines import EngineProfile


class FormatNames(NamedTuple):
    """Requested format names, None if unset."""

    format: str | None
    gemm_format: str | None
    moe_format: str | None
    kv_format: str | None
    attention_format: str | None


def device_architecture(system: str) -> str | None:
    """Return the architecture of a device, on which engine formats depend; None if unknown.

    Args:
        system: Its name or file.
    """
    try:
        return resolve_system(system).device.architecture
    except InvalidSpecError:
        return None  # reported when systems are resolved


def resolve_formats(
    asked: FormatNames, architecture: Architecture, profile: EngineProfile, device: str | None
) -> tuple[ModelFormats, tuple[str, ...]]:
    """Return the number formats of a model, and sentences on their origin.

    Precedence: the specific flag, `format`, the checkpoint's quantization config, bf16. Loose
    names such as "fp8" become the engine's documented default on the device.

    Args:
        asked: Requested format names.
        architecture: The model.
        profile: The engine.
        device: Architecture of the device, None if unknown.

    Raises:
        UnsupportedError: A format is unknown.
    """
    checkpoint = architecture.checkpoint
    said: list[str] = []

    def pick(role: str, given: str | None, stated: str | None) -> str:
        given = given and given.casefold()
        same = given is not None and stated is not None and stated.startswith(f"{given}_")
        name = (stated if same else given or stated) or "bf16"
        meant = profile.alias(name, device or "")
        alias = meant.value if meant else name
        if role == "moe_format" and not architecture.has_experts:
            return get_format(alias).name
        if meant:
            said.append(f"{role} {name} is {alias} on {profile.id}: {meant.source}")
        elif stated is not None and (same or given is None):
            said.append(f"{role} {alias} from the checkpoint: {checkpoint.source}")
        return get_format(alias).name

    gemm = pick("gemm_format", asked.gemm_format or asked.format, checkpoint.gemm_format)
    moe_stated = checkpoint.moe_format or checkpoint.gemm_format
    moe = pick("moe_format", asked.moe_format or asked.format, moe_stated)
    kv = _cache_format(asked.kv_format, checkpoint.kv_format)
    attention = _cache_format(asked.attention_format, checkpoint.kv_format)
    return ModelFormats(gemm=gemm, moe=moe, kv=kv, attention=attention), tuple(said)


def _cache_format(given: str | None, stated: str | None) -> str:
    name = (given or stated or "bf16").casefold()
    chosen = get_format("fp8_static" if name == "fp8" else name)
    if not chosen.cache:
        known = ", ".join(f.name for f in formats().values() if f.cache)
        raise UnsupportedError(f"format {chosen.name!r} is not a KV cache format: use {known}")
    return chosen.name
