"""Number formats of a checkpoint from its quantization_config."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from perfatlas.networks.contract import CheckpointFormats
from perfatlas.networks.hf_config.module_patterns import covered_parts, module_paths, part_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
    "W4A8_MXFP4_FP8": "MXFP4 weights with FP8 activations are treated as mxfp4"
}
CACHE_FORMATS: Final[dict[str, str]] = {"FP8": "fp8_static", "NVFP4": "nvfp4", "INT8": "int8"}
_NO_CACHE_FORMAT: Final = ("", "NONE", "AUTO", "BF16", "FP16")
# keys that list unquantized modules
_LEFT_OUT = ("modules_to_not_convert", "ignore", "exclude", "exclude_modules", "ignored_layers")
# dtype of weights and of activations ("" for 16 bits) in AMD Quark -> format
_QUARK: Final[dict[tuple[str, str], str]] = {
    ("fp4", "fp4"): "mxfp4_mxfp4",
    ("fp4", "fp8_e4m3"): "mxfp4",
    ("fp4", ""): "mxfp4",
    ("fp8_e4m3", "fp8_e4m3"): "fp8_static",
    ("int8", "int8"): "int8",
    ("int8", ""): "int8_wo",
    ("int4", ""): "int4_wo",
    ("uint4", ""): "int4_wo",
}
_BY_BITS: Final = {4: "int4_wo", 8: "int8_wo", 16: None}
# methods without a format of their own, and the nearest formats
_NEAREST: Final = {
    "bitsandbytes": "int4_wo (load_in_4bit) or int8_wo (load_in_8bit) for its memory,"
    " with times of AWQ and GPTQ kernels",
    "gguf": "int4_wo (Q4) or int8_wo (Q8) for its memory, with times of AWQ and GPTQ kernels",
}
_ANY_NEAREST: Final = (
    "the nearest of its weights and activations, such as int4_wo, int8_wo,"
    " fp8_dynamic or mxfp4_mxfp4"
)


class _UnreadError(Exception):
    """Part of a quantization_config that has no known number format."""


@dataclass(frozen=True, kw_only=True)
class _Scheme:
    """A format and the modules it applies to; no targets means every linear layer."""

    format: str | None  # None for 16 bits
    targets: tuple[str, ...] = ()
    note: str = ""


def checkpoint_formats(
    outer: Fields, fields: Fields, architecture: Architecture
) -> tuple[CheckpointFormats, tuple[str, ...]]:
    """Return the formats that the checkpoint states, and remarks on what is missing.

    Args:
        fields: Its text part (the same if there is no wrapper).
    """
    stated = _stated(outer) or _stated(fields)
    if stated is None or not stated.values:
        return CheckpointFormats(), ()
    stated = stated.child("quantization") or stated
    method = stated.text("quant_method") or ("modelopt" if "quant_algo" in stated.values else "")
    quoted = f"quantization_config: quant_method {method[:40]!r}"
    kv_format, unread_kv = None, ""
    try:
        kv_format = _cache_format(stated)
    except _UnreadError as problem:
        unread_kv = f"{quoted}: {problem} has no known number format"
    cache_only = CheckpointFormats(kv_format=kv_format, unread_kv=unread_kv, source=quoted)
    unread, moe = None, stated.text("moe_quant_algo")
    try:
        schemes = _schemes(stated, method)
        moe_format = _algorithm(moe).format if moe else None
    except _UnreadError as problem:
        unread = str(problem)
    if unread is None and not any(scheme.format for scheme in schemes):
        if kv_format or unread_kv:  # the KV cache alone is quantized
            return cache_only, ()
        unread = ""
    if unread is not None:
        what = f"{quoted}{': ' if unread else ''}{unread} has no known number format"
        nearest = _NEAREST.get(method, _ANY_NEAREST)
        return replace(cache_only, unread=what, nearest=nearest), (what,)
    names = dict.fromkeys(scheme.format for scheme in schemes if scheme.format)
    quoted = f"{quoted}, {', '.join(names)}"
    formats, notes = _apply(stated, schemes, architecture)
    if moe and "experts" in formats:
        formats["experts"] = moe_format
    elif formats.get("experts") == "fp8_block" and fields.text("expert_dtype") == "fp4":
        formats["experts"], quoted = "mxfp4_mxfp8", f"{quoted}; expert_dtype 'fp4'"
    checkpoint = replace(
        cache_only,
        gemm_format=_gemm_format(formats),
        moe_format=formats["experts"] or "bf16" if "experts" in formats else None,
        attention_quantized=formats.get("attention") is not None,
        source=quoted,
    )
    return checkpoint, notes


def _stated(fields: Fields) -> Fields | None:
    names = ("quantization_config", "compression_config", "quantization")
    return next((part for name in names if (part := fields.child(name))), None)


def _gemm_format(formats: Mapping[str, str | None]) -> str:
    """Return the format of the largest quantized part other than experts."""
    order = ("attention", "dense", "shared")
    if "experts" not in formats:
        order = ("dense", "attention", "shared")
    return next((name for part in order if (name := formats.get(part))), "bf16")


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
    plain = [part for part, name in formats.items() if name is None]
    if plain:
        notes.append(f"not quantized in the checkpoint: {', '.join(plain)}")
    if unknown:
        notes.append(f"module pattern not supported, ignored: {unknown[0][:80]!r}")
    others = {name for part, name in formats.items() if name and part != "experts"}
    if len(others) > 1:
        chosen = _gemm_format(formats)
        notes.append(f"linear layers mix {', '.join(sorted(others))}; all are treated as {chosen}")
    return formats, tuple(dict.fromkeys(notes))


def _schemes(stated: Fields, method: str) -> tuple[_Scheme, ...]:
    """Return the formats and their targets; none where weights are not quantized."""
    if method in ("fp8", "fbgemm_fp8", "mxfp4"):
        return (_Scheme(format=method if method == "mxfp4" else _fp8(stated)),)
    if method in ("awq", "gptq", "auto-round", "auto_round"):
        return (_Scheme(format=_by_bits(stated, "w_bit")), *_other_bits(stated))
    if method == "quark":
        by_type, by_name = (stated.child(f"layer_{kind}quant_config") for kind in ("type_", ""))
        if by_type is not None and by_type.values:
            raise _UnreadError("layer_type_quant_config")
        rows: dict[str, Fields | None] = {"": stated.child("global_quant_config")}
        rows |= {name: by_name.child(name) for name in by_name.values} if by_name else {}
        return tuple(
            _quark_scheme(row, (name,) if name else ()) for name, row in rows.items() if row
        )
    if stated.has("quant_algo"):
        return _modelopt(stated)
    if method == "modelopt" and stated.child("config_groups") is None:
        return ()
    return _config_groups(stated)


def _by_bits(row: Fields, *names: str) -> str | None:
    bits = row.integer("bits", *names, default=4, maximum=16)
    if bits not in _BY_BITS:
        raise _UnreadError(f"{bits}-bit weights")
    return _BY_BITS[bits]


def _other_bits(stated: Fields) -> Iterator[_Scheme]:
    """Yield the formats of modules with bits of their own: AutoRound, and GPTQModel's `dynamic`."""
    for key in ("extra_config", "dynamic"):
        rows = stated.child(key)
        for name in rows.values if rows else ():
            row = rows.child(name) if rows else None
            target = f"re:{name[2:]}" if name.startswith(("+:", "-:")) else name
            if name.startswith("-:"):
                yield _Scheme(format=None, targets=(target,))
            elif row is not None and row.has("bits"):
                yield _Scheme(format=_by_bits(row), targets=(target,))


def _quark_scheme(row: Fields, targets: tuple[str, ...]) -> _Scheme:
    if isinstance(row.values.get("weight"), list):
        raise _UnreadError("weights of several stages")
    weights, activations = row.child("weight"), row.child("input_tensors")
    if weights is None:
        return _Scheme(format=None, targets=targets)
    stored = weights.text("dtype"), activations.text("dtype") if activations else ""
    shown = f"{stored[0]} weights, {stored[1] or '16-bit'} activations"
    name = _QUARK.get(stored)
    grouped = any(part.text("qscheme") == "per_group" for part in (weights, activations) if part)
    block = weights.integer("group_size", default=0, minimum=-1) if grouped else 0
    if name is None or (stored[0] == "fp4" and block != 32):
        raise _UnreadError(f"{shown} in groups of {block}" if grouped else shown)
    if name == "fp8_static" and activations is not None:
        if grouped:
            raise _UnreadError(f"{shown} in groups of {block}")
        name = "fp8_dynamic" if activations.boolean("is_dynamic", default=False) else name
    note = _STAND_INS["W4A8_MXFP4_FP8"] if stored == ("fp4", "fp8_e4m3") else ""
    return _Scheme(format=name, targets=targets, note=note)


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
    algorithm, layers = stated.text("quant_algo"), stated.child("quantized_layers")
    _algorithm(stated.text("moe_quant_algo"))
    if algorithm in ALGORITHMS or (layers is None and stated.child("config_groups") is None):
        return (_algorithm(algorithm),)
    if layers is None:
        return _config_groups(stated)
    targets: dict[str, list[str]] = {}
    for name in layers.values:
        row = layers.child(name)
        if row is not None and row.text("quant_algo"):
            targets.setdefault(row.text("quant_algo"), []).append(name)
    return tuple(replace(_algorithm(algo), targets=tuple(n)) for algo, n in targets.items())


def _algorithm(name: str) -> _Scheme:
    if name and name not in ALGORITHMS:
        raise _UnreadError(f"quant_algo {name[:40]!r}")
    return _Scheme(format=ALGORITHMS.get(name), note=_STAND_INS.get(name, ""))


def _config_groups(stated: Fields) -> tuple[_Scheme, ...]:
    groups = stated.child("config_groups")
    if groups is None:
        raise _UnreadError
    rows = [groups.child(name) for name in groups.values]
    schemes = [_group_scheme(row) for row in rows if row is not None]
    return tuple(scheme for scheme in schemes if scheme is not None)


def _group_scheme(group: Fields) -> _Scheme | None:
    weights, activations = group.child("weights"), group.child("input_activations")
    if weights is None:
        return None
    targets = group.texts("targets")
    if any(target in ("Linear", "FusedMoE") for target in targets):
        targets = ()
    kind = (weights.text("type", default="int"), weights.integer("num_bits", maximum=16))
    if activations is None:
        schemes = {
            ("int", 4): ("int4_wo", ""),
            ("int", 8): ("int8_wo", ""),
            ("float", 4): ("mxfp4", "4-bit float weights, bf16 activations are treated as mxfp4"),
            ("float", 8): ("int8_wo", "FP8 weights, bf16 activations are treated as int8_wo"),
        }
        if kind not in schemes:
            raise _UnreadError(f"{kind[1]}-bit {kind[0]} weights")
        return _Scheme(format=schemes[kind][0], targets=targets, note=schemes[kind][1])
    bits = activations.integer("num_bits", maximum=16)
    if kind == ("int", 8) and bits == 8:
        return _Scheme(format="int8", targets=targets)
    if kind == ("float", 8) and bits == 8:
        return _Scheme(format=_grouped_fp8(weights, activations), targets=targets)
    if kind == ("float", 4) and bits == 4:
        wide = weights.integer("group_size", default=16) > 16
        return _Scheme(format="mxfp4" if wide else "nvfp4", targets=targets)
    raise _UnreadError(f"{kind[1]}-bit {kind[0]} weights with {bits}-bit activations")


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
        formats = {("float", 8): "fp8_static", ("int", 8): "int8", ("float", 4): "nvfp4"}
        if (kind, bits) not in formats:
            raise _UnreadError(f"a {bits}-bit {kind} KV cache")
        return formats[kind, bits]
    name = "kv_cache_quant_algo" if stated.has("kv_cache_quant_algo") else "kv_cache_scheme"
    names = {stated.text(name).upper(), *_quark_caches(stated)}.difference(_NO_CACHE_FORMAT)
    if len(names) > 1 or names - CACHE_FORMATS.keys():
        raise _UnreadError(f"a KV cache in {', '.join(sorted(names))[:60]}")
    return CACHE_FORMATS[names.pop()] if names else None


def _quark_caches(stated: Fields) -> Iterator[str]:
    """Yield the formats of keys and values that AMD Quark states: outputs of their projections."""
    rows, export = stated.child("kv_cache_quant_config"), stated.child("export")
    named = tuple(rows.values) if rows else export.texts("kv_cache_group") if export else ()
    rows = rows or stated.child("layer_quant_config")
    for name in named:
        row = rows.child(name) if rows else None
        tensors = row.child("output_tensors") if row else None
        if tensors is not None:
            yield tensors.text("dtype").upper().removesuffix("_E4M3")
