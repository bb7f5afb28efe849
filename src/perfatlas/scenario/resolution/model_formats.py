"""Number formats of a model: set by the user, from the checkpoint, or an engine default."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.formats import formats, get_format
from perfatlas.hardware import resolve_system
from perfatlas.networks import ModelFormats, Network
from perfatlas.quantities import InvalidSpecError, UnsupportedError

if TYPE_CHECKING:
    from perfatlas.engines import EngineProfile
    from perfatlas.engines.profile import FormatAlias

_MARLIN: Final = "weight-only kernels (Marlin; Petit on AMD): docs.vllm.ai, features/quantization/"
_OPEN: Final = ("vllm", "sglang", "")
_MX: Final = "mxfp4_mxfp4"


class _Fallback(NamedTuple):
    """What engines run of a checkpoint on tensor cores without its products."""

    format: str
    runs: str  # Kernels, and their source
    families: tuple[str, ...] = _OPEN
    vendors: tuple[str, ...] = ()  # () for all


_FALLBACKS: Final = {
    "nvfp4": _Fallback("nvfp4_wo", f"{_MARLIN}modelopt; sgl-project/sglang pull request 19652"),
    "mxfp4_mxfp8": _Fallback("mxfp4", f"{_MARLIN}modelopt; sgl-project/sglang pull request 19652"),
    _MX: _Fallback(
        "mxfp4",
        "products in 16 bits of weights that it converts in every step, which these times do not"
        " contain: vllm/model_executor/layers/quantization/quark/schemes/quark_ocp_mx.py, emulate",
        ("vllm",),
    ),
    **dict.fromkeys(
        ("fp8_static", "fp8_dynamic", "fp8_block"),
        _Fallback("fp8_wo", f"{_MARLIN}fp8", ("vllm", "sglang"), ("NVIDIA",)),
    ),
}
# Formats of weights whose published checkpoints mostly quantize the KV cache too.
_CACHED_IN_FP8: Final = ("fp8_static", "nvfp4")
_CACHE_NOTE: Final = (
    "kv_format {kv}: neither the scenario nor the checkpoint of this model sets it. {gemm}"
    " checkpoints of NVIDIA Model Optimizer mostly state an fp8 KV cache, which holds twice as many"
    " tokens (kv_cache_quant_algo of nvidia/Qwen3-32B-NVFP4 and nvidia/Llama-3.1-70B-Instruct-FP8;"
    " not of nvidia/DeepSeek-R1-NVFP4); for one of them, set kv_format to fp8"
)
# What engines do on devices without bf16.
_HALF_SOURCES: Final = {
    "vllm": "vllm/config: an automatic dtype that the device lacks falls back to float16",
    "sglang": "sglang/srt/model_executor/model_runner.py: float16 below compute capability 8.0",
}


class FormatNames(NamedTuple):
    """Requested format names, None if unset."""

    format: str | None
    gemm_format: str | None
    moe_format: str | None
    kv_format: str | None
    attention_format: str | None


class FormatSupport(NamedTuple):
    """What formats depend on in a device: its architecture and the peaks of its tensor cores."""

    architecture: str
    peaks: frozenset[str]
    vendor: str = ""


def format_support(system: str) -> FormatSupport | None:
    """Return what formats depend on in a device; None if it is unknown.

    Args:
        system: Its name or file.
    """
    try:
        device = resolve_system(system).device
    except InvalidSpecError:
        return None  # reported when systems are resolved
    return FormatSupport(device.architecture, frozenset(device.peak_flop_per_s), device.vendor)


def half_format(system: str) -> str:
    """Return the 16-bit format that runs on a system unless told: fp16 where there is no bf16.

    Args:
        system: Its name or file; bf16 for an unknown one, which is reported when it is resolved.

    Example:
        >>> from perfatlas.scenario.resolution import half_format
        >>> half_format("t4"), half_format("a100_sxm")
        ('fp16', 'bf16')
    """
    return _half_format(format_support(system))


def resolve_formats(
    requested: FormatNames,
    network: Network,
    profile: EngineProfile,
    device: FormatSupport | None,
) -> tuple[ModelFormats, tuple[str, ...]]:
    """Return the number formats of a model, and sentences on their origin.

    Precedence: the specific flag, `format`, the checkpoint's quantization config, bf16. Loose
    names such as "fp8" become the engine's documented default on the device. A checkpoint whose
    products the tensor cores do not support runs weight-only where the engine has such kernels.
    Unset formats are fp16 on tensor cores that multiply it and not bf16.

    Args:
        device: What formats depend on in the device, None if unknown.
    """
    checkpoint = network.checkpoint
    half = _half_format(device)
    source = _HALF_SOURCES.get(profile.name, "the device does not multiply in bf16")
    notes = [] if half == "bf16" else [f"unset formats are fp16, not bf16: {source}"]
    runs = partial(_runs, profile=profile, device=device, mx_vendors=checkpoint.mx_vendors)

    def pick(role: str, given: str | None, stated: str | None) -> str:
        if given is None and (role == "gemm_format" or network.has_experts):
            checkpoint.refuse_unread("format")
            _refuse_engine(network, profile, device)
        given = given and given.casefold()
        same = given is not None and stated is not None and stated.startswith(f"{given}_")
        name = (stated if same else given or stated) or half
        chosen, meant, fallback = runs(name)
        if given is not None:
            chosen, fallback = get_format(meant.value if meant else name).name, None
        if role == "moe_format" and not network.has_experts:
            return chosen
        if meant:
            notes.append(f"{role} {name} is {meant.value} on {profile.id}: {meant.source}")
        elif stated is not None and (same or given is None):
            notes.append(f"{role} {name} from the checkpoint: {checkpoint.source}")
        if fallback:
            notes.append(
                f"{role} {chosen}: where tensor cores do not multiply {name} of this checkpoint,"
                f" {profile.name} runs {fallback.runs}"
            )
        return chosen

    gemm = pick("gemm_format", requested.gemm_format or requested.format, checkpoint.gemm_format)
    moe_stated = checkpoint.moe_format or checkpoint.gemm_format
    moe = pick("moe_format", requested.moe_format or requested.format, moe_stated)
    if requested.kv_format is None:
        checkpoint.refuse_unread("kv_format")
    kv = _cache_format(requested.kv_format or checkpoint.kv_format or half)
    if kv == "bf16" != half:
        raise UnsupportedError(
            f"kv_format = bf16 on a device without bf16 tensor cores, where engines run in {half}:"
            f" set kv_format = {half} or fp8, or leave it out"
        )
    follows = checkpoint.kv_format if requested.kv_format in (None, checkpoint.kv_format) else None
    attention = _cache_format(requested.attention_format or follows or half)
    if requested.attention_format is None and follows:
        _refuse_attention(attention, half, network, device)
    unstated = requested.kv_format is None and checkpoint.kv_format is None
    if network.decodes and unstated and gemm in _CACHED_IN_FP8:
        notes.append(_CACHE_NOTE.format(kv=kv, gemm=gemm))
    # what the user asks for replaces the formats of the checkpoint, unless it is the same
    stated = {"": checkpoint.gemm_format, "experts": moe_stated}
    own = {
        operator: name is not None and chosen == runs(name)[0]
        for (operator, name), chosen in zip(stated.items(), (gemm, moe), strict=True)
    }
    modules = tuple(
        replace(module, format=module.format and runs(module.format)[0])
        for module in checkpoint.modules
        if own.get(module.operator, own[""])
    )
    found = ModelFormats(gemm=gemm, moe=moe, kv=kv, attention=attention, head=half, modules=modules)
    return found, tuple(notes)


def _refuse_engine(network: Network, profile: EngineProfile, device: FormatSupport | None) -> None:
    """Refuse a checkpoint that the engine does not load, or not on the device."""
    checkpoint, family = network.checkpoint, profile.kernel_family
    engines, where = checkpoint.engines, ""
    vendors = checkpoint.mx_vendors
    stored = {module.format for module in checkpoint.modules}
    if device and vendors and device.vendor not in vendors and _MX in stored:
        engines, where = _FALLBACKS[_MX].families, f" on GPUs of {device.vendor}"
    if engines and family and family not in engines:
        raise UnsupportedError(
            f"{profile.id} does not run this checkpoint ({checkpoint.source}){where}; set engine"
            f" to {' or '.join(engines)}, or format to one that {profile.name} runs"
        )


def _refuse_attention(
    attention: str, half: str, network: Network, device: FormatSupport | None
) -> None:
    """Refuse attention in the format of the checkpoint's cache on tensor cores without it."""
    peak = get_format(attention).tensor_peak
    if device is None or peak in device.peaks:
        return
    raise UnsupportedError(
        f"attention_format is not set, and the checkpoint's KV cache in {attention}"
        f" ({network.checkpoint.source}) needs attention in {peak}, which the tensor cores of"
        f" {device.architecture} do not multiply; set attention_format = {half} and"
        f" kv_format = {half}"
    )


def _half_format(device: FormatSupport | None) -> str:
    """Return the 16-bit format that engines use unless told: fp16 where there is no bf16."""
    lacks = device is not None and "bf16" not in device.peaks and "fp16" in device.peaks
    return "fp16" if lacks else "bf16"


def _runs(
    name: str,
    profile: EngineProfile,
    device: FormatSupport | None,
    mx_vendors: tuple[str, ...],
) -> tuple[str, FormatAlias | None, _Fallback | None]:
    """Return what the engine runs of a format, why, and what it runs in place of it."""
    meant = profile.alias(name, device.architecture if device else "")
    alias = get_format(meant.value if meant else name).name
    fallback = _fallback(alias, profile, device, mx_vendors)
    return (fallback.format if fallback else alias), meant, fallback


def _fallback(
    name: str,
    profile: EngineProfile,
    device: FormatSupport | None,
    mx_vendors: tuple[str, ...],
) -> _Fallback | None:
    """Return what an engine runs of a checkpoint, None if its own format."""
    found = _FALLBACKS.get(name)
    if found is None or device is None:
        return None
    emulated = name == _MX and mx_vendors and device.vendor not in mx_vendors
    if formats()[name].tensor_peak in device.peaks and not (emulated and profile.kernel_family):
        return None
    suits = profile.kernel_family in found.families
    return found if suits and device.vendor in (found.vendors or (device.vendor,)) else None


def _cache_format(given: str) -> str:
    name = given.casefold()
    chosen = get_format("fp8_static" if name == "fp8" else name)
    if not chosen.cache:
        known = ", ".join(f.name for f in formats().values() if f.cache)
        raise UnsupportedError(f"format {chosen.name!r} is not a KV cache format: use {known}")
    return chosen.name
