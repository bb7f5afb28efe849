"""Number formats of a checkpoint from its quantization_config."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perfatlas.networks.contract import CheckpointFormats
from perfatlas.networks.hf_config.module_patterns import covered_parts, module_paths, part_sizes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

# quant_algo of TensorRT Model Optimizer -> format
ALGORITHMS: Final[dict[str, str]] = {
    "FP8": "fp8_static",
    "FP8_PER_CHANNEL_PER_TOKEN": "fp8_dynamic",
    "FP8_PB_REAL": "fp8_block",
    "FP8_PB_WO": "fp8_block",
    "FP8_BLOCK_SCALES": "fp8_block",
    "MXFP8": "mxfp8",
    "NVFP4": "nvfp4",
    "NVFP4_AWQ": "nvfp4",
    "W4A16_NVFP4": "nvfp4_wo",
    "W4A16_MXFP4": "mxfp4",
    "W4A8_MXFP4_FP8": "mxfp4",
    "W4A16": "int4_wo",
    "W4A16_AWQ": "int4_wo",
    "W8A16": "int8_wo",
    "INT8_SQ": "int8",
    "W8A8_SQ_PER_CHANNEL": "int8",
    "W8A8_SQ_PER_CHANNEL_PER_TOKEN_PLUGIN": "int8",
}
# algorithms without a format of their own, and the format that approximates them
_STAND_INS: Final[dict[str, str]] = {
    "W4A8_MXFP4_FP8": "MXFP4 weights with FP8 activations are treated as mxfp4",
}
CACHE_FORMATS: Final[dict[str, str]] = {"FP8": "fp8_static", "NVFP4": "nvfp4", "INT8": "int8"}
# keys that list unquantized modules
_LEFT_OUT = ("modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers")


@dataclass(frozen=True, kw_only=True)
class _Scheme:
    """A format and the modules it applies to; no targets means every linear layer."""

    format: str
    targets: tuple[str, ...] = ()
    note: str = ""


def checkpoint_formats(
    outer: Fields, fields: Fields, architecture: Architecture
) -> tuple[CheckpointFormats, tuple[str, ...]]:
    """Return the formats that the checkpoint states, and remarks on what is missing.

    Args:
        outer: The whole config.json.
        fields: Its text part (the same if there is no wrapper).

    Raises:
        InvalidSpecError: quantization_config is not an object, or a field has the wrong type.
    """
    stated = _stated(outer) or _stated(fields)
    if stated is None:
        return CheckpointFormats(), ()
    stated = stated.child("quantization") or stated
    method = stated.text("quant_method") or ("modelopt" if stated.has("quant_algo") else "")
    schemes = _schemes(stated, method)
    kv_format = _cache_format(stated)
    quoted = f"quantization_config: quant_method {method[:40]!r}"
    if not schemes:
        note = f"{quoted} is not supported; formats default to bf16 unless set"
        return CheckpointFormats(kv_format=kv_format, source=quoted), (note,)
    quoted = f"{quoted}, {', '.join(dict.fromkeys(scheme.format for scheme in schemes))}"
    formats, notes = _apply(stated, schemes, architecture)
    if stated.text("moe_quant_algo") in ALGORITHMS and "experts" in formats:
        formats["experts"] = ALGORITHMS[stated.text("moe_quant_algo")]
    elif formats.get("experts") == "fp8_block" and fields.text("expert_dtype") == "fp4":
        formats["experts"], quoted = "mxfp4_mxfp8", f"{quoted}; expert_dtype 'fp4'"
    checkpoint = CheckpointFormats(
        gemm_format=_gemm_format(formats),
        moe_format=formats["experts"] or "bf16" if "experts" in formats else None,
        kv_format=kv_format,
        attention_quantized=formats.get("attention") is not None,
        source=quoted,
    )
    return checkpoint, notes


def _stated(fields: Fields) -> Fields | None:
    return fields.child("quantization_config") or fields.child("compression_config")


def _gemm_format(formats: Mapping[str, str | None]) -> str:
    """Return the format of the largest quantized part other than experts."""
    order = ("attention", "dense", "shared")
    if "experts" not in formats:
        order = ("dense", "attention", "shared")
    return next((found for part in order if (found := formats.get(part))), "bf16")


def _apply(
    stated: Fields, schemes: tuple[_Scheme, ...], architecture: Architecture
) -> tuple[dict[str, str | None], tuple[str, ...]]:
    """Return the format of each part of the model, None for unquantized ones."""
    sizes, depth = part_sizes(architecture), architecture.num_layers
    paths = module_paths(architecture.model_type)
    left_out = tuple(name for key in _LEFT_OUT for name in stated.texts(key))
    excluded, unknown = covered_parts(left_out, sizes, depth=depth, paths=paths)
    formats: dict[str, str | None] = dict.fromkeys(sizes)
    notes = [scheme.note for scheme in schemes if scheme.note]
    for scheme in sorted(schemes, key=lambda scheme: bool(scheme.targets)):
        parts = frozenset(sizes)
        if scheme.targets:
            parts, strange = covered_parts(scheme.targets, sizes, depth=depth, paths=paths)
            unknown += strange
        formats.update(dict.fromkeys(parts, scheme.format))
    formats.update(dict.fromkeys(excluded & sizes.keys()))
    plain = [part for part, found in formats.items() if found is None]
    if plain:
        notes.append(f"not quantized in the checkpoint: {', '.join(plain)}")
    if unknown:
        notes.append(f"module pattern not supported, ignored: {unknown[0][:80]!r}")
    others = {found for part, found in formats.items() if found and part != "experts"}
    if len(others) > 1:
        chosen = _gemm_format(formats)
        notes.append(f"linear layers mix {', '.join(sorted(others))}; all are treated as {chosen}")
    return formats, tuple(dict.fromkeys(notes))


def _schemes(stated: Fields, method: str) -> tuple[_Scheme, ...]:
    """Return the formats and their targets, empty for an unknown method."""
    if method in ("fp8", "fbgemm_fp8"):
        return (_Scheme(format=_fp8(stated)),)
    if method == "mxfp4":
        return (_Scheme(format="mxfp4"),)
    if method in ("awq", "gptq", "auto-round", "auto_round"):
        bits = stated.integer("bits", "w_bit", default=4, maximum=16)
        known = {4: "int4_wo", 8: "int8_wo"}
        return (_Scheme(format=known[bits]),) if bits in known else ()
    if stated.has("quant_algo"):
        return _modelopt(stated)
    return _config_groups(stated)


def _fp8(stated: Fields) -> str:
    if stated.text("quant_method") == "fbgemm_fp8":
        return "fp8_dynamic"
    if stated.integers("weight_block_size", maximum=65_536):
        return "fp8_block"
    scheme = stated.text("activation_scheme", default="dynamic")
    if scheme not in ("static", "dynamic"):
        raise stated.invalid("activation_scheme", "must be 'static' or 'dynamic'")
    return f"fp8_{scheme}"


def _modelopt(stated: Fields) -> tuple[_Scheme, ...]:
    algorithm = stated.text("quant_algo")
    if algorithm in ALGORITHMS:
        return (_Scheme(format=ALGORITHMS[algorithm], note=_STAND_INS.get(algorithm, "")),)
    layers = stated.child("quantized_layers")
    if layers is None:
        return _config_groups(stated)
    targets: dict[str, list[str]] = {}
    for name in layers.values:
        row = layers.child(name)
        if row is not None and row.text("quant_algo") in ALGORITHMS:
            targets.setdefault(row.text("quant_algo"), []).append(name)
    return tuple(
        _Scheme(format=ALGORITHMS[algo], targets=tuple(names), note=_STAND_INS.get(algo, ""))
        for algo, names in targets.items()
    )


def _config_groups(stated: Fields) -> tuple[_Scheme, ...]:
    groups = stated.child("config_groups")
    if groups is None:
        return ()
    schemes = []
    for name in groups.values:
        group = groups.child(name)
        scheme = _group_scheme(group) if group is not None else None
        if scheme is not None:
            schemes.append(scheme)
    return tuple(schemes)


def _group_scheme(group: Fields) -> _Scheme | None:
    weights, activations = group.child("weights"), group.child("input_activations")
    if weights is None:
        return None
    targets = group.texts("targets")
    if any(target in ("Linear", "FusedMoE") for target in targets):
        targets = ()
    kind = (weights.text("type", default="int"), weights.integer("num_bits", maximum=16))
    if activations is None:
        known = {
            ("int", 4): ("int4_wo", ""),
            ("int", 8): ("int8_wo", ""),
            ("float", 4): ("mxfp4", "4-bit float weights, bf16 activations are treated as mxfp4"),
            ("float", 8): ("int8_wo", "FP8 weights, bf16 activations are treated as int8_wo"),
        }
        found, note = known.get(kind, ("", ""))
        return _Scheme(format=found, targets=targets, note=note) if found else None
    bits = activations.integer("num_bits", maximum=16)
    if kind == ("int", 8) and bits == 8:
        return _Scheme(format="int8", targets=targets)
    if kind == ("float", 8) and bits == 8:
        return _Scheme(format=_grouped_fp8(weights, activations), targets=targets)
    if kind == ("float", 4) and bits == 4:
        wide = weights.integer("group_size", default=16) > 16
        return _Scheme(format="mxfp4" if wide else "nvfp4", targets=targets)
    return None


def _grouped_fp8(weights: Fields, activations: Fields) -> str:
    if weights.text("strategy") == "block":
        return "fp8_block"
    group_size = weights.integer("group_size", default=0, minimum=-1)
    if group_size > 0:
        return "mxfp8"
    return "fp8_dynamic" if activations.values.get("dynamic") else "fp8_static"


def _cache_format(stated: Fields) -> str | None:
    scheme = stated.values.get("kv_cache_scheme")
    if isinstance(scheme, dict):
        cache = stated.child("kv_cache_scheme")
        bits = cache.integer("num_bits", default=8, maximum=16) if cache else 8
        kind = cache.text("type", default="float") if cache else "float"
        return {("float", 8): "fp8_static", ("int", 8): "int8", ("float", 4): "nvfp4"}.get(
            (kind, bits)
        )
    name = "kv_cache_quant_algo" if stated.has("kv_cache_quant_algo") else "kv_cache_scheme"
    return CACHE_FORMATS.get(stated.text(name).upper())
