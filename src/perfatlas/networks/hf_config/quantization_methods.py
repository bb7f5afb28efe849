"""Methods of quantization: how each states formats, storage and modules in a config.json.

Source: huggingface/transformers, utils/quantization_config.py (keys of each method); vllm-project/
    vllm, model_executor/layers/quantization (what is packed, and what a product runs as);
    NVIDIA/TensorRT-LLM, tensorrt_llm/_torch/model_config.py, load_hf_quant_config (what it loads).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.formats import Storage
from perfatlas.networks.hf_config.fields import Fields

if TYPE_CHECKING:
    from collections.abc import Callable

SCALE_BITS: Final = 16  # Scales are stored in the format of the model unless a method says more
FP32_BITS: Final = 32
EVERYWHERE: Final = ("*",)
HEAD: Final = "lm_head"
_INTEGERS: Final = {2: "int2_wo", 3: "int3_wo", 4: "int4_wo", 8: "int8_wo"}

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
    "W4A8_AWQ": "int4_fp8",
    "W8A16": "int8_wo",
    "INT8_SQ": "int8",
    "W8A8_SQ_PER_CHANNEL": "int8",
    "W8A8_SQ_PER_CHANNEL_PER_TOKEN_PLUGIN": "int8",
}
# algorithms without a format of their own, and the format that approximates them
_STAND_INS: Final[dict[str, str]] = {
    "W4A8_MXFP4_FP8": "MXFP4 weights with FP8 activations are treated as mxfp4"
}
# dtype of weights and of activations ("" for 16 bits) in AMD Quark -> format, bits of a weight
_QUARK: Final[dict[tuple[str, str], tuple[str, int]]] = {
    ("fp4", "fp4"): ("mxfp4_mxfp4", 4),
    ("fp4", "fp8_e4m3"): ("mxfp4", 4),
    ("fp4", ""): ("mxfp4", 4),
    **{
        (weights, activations): ("mxfp6_wo", 6)
        for weights in ("fp6_e3m2", "fp6_e2m3")
        for activations in ("", "fp6_e3m2", "fp6_e2m3")
    },
    ("fp8_e4m3", "fp8_e4m3"): ("fp8_static", 8),
    ("fp8_e4m3", ""): ("fp8_wo", 8),
    ("int8", "int8"): ("int8", 8),
    ("int8", ""): ("int8_wo", 8),
    ("int4", ""): ("int4_wo", 4),
    ("uint4", ""): ("int4_wo", 4),
}
_MX_ELEMENTS: Final = ("fp4", "fp6_e3m2", "fp6_e2m3")
# Class of a config of torchao, or its earlier name -> format, bits, default group (0: a row), bits
# of scale and zero point
_TORCHAO: Final[dict[str, tuple[str, int, int, int]]] = {
    **dict.fromkeys(
        ("Int4WeightOnlyConfig", "int4_weight_only"), ("int4_wo", 4, 128, 2 * SCALE_BITS)
    ),
    **dict.fromkeys(("Int8WeightOnlyConfig", "int8_weight_only"), ("int8_wo", 8, 0, SCALE_BITS)),
    **dict.fromkeys(
        ("Int8DynamicActivationInt8WeightConfig", "int8_dynamic_activation_int8_weight"),
        ("int8", 8, 0, SCALE_BITS),
    ),
    **dict.fromkeys(("Float8WeightOnlyConfig", "float8_weight_only"), ("fp8_wo", 8, 0, FP32_BITS)),
    **dict.fromkeys(
        ("Float8DynamicActivationFloat8WeightConfig", "float8_dynamic_activation_float8_weight"),
        ("fp8_dynamic", 8, 0, FP32_BITS),
    ),
    **dict.fromkeys(
        ("Float8StaticActivationFloat8WeightConfig", "float8_static_activation_float8_weight"),
        ("fp8_static", 8, 0, FP32_BITS),
    ),
    "Float8DynamicActivationInt4WeightConfig": ("int4_fp8", 4, 128, 2 * SCALE_BITS),
    "NVFP4DynamicActivationNVFP4WeightConfig": ("nvfp4", 4, 16, 8),
    "NVFP4InferenceConfig": ("nvfp4", 4, 16, 8),
    "NVFP4WeightOnlyConfig": ("nvfp4_wo", 4, 16, 8),
}


class UnreadError(Exception):
    """Part of a quantization_config that has no known number format."""


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """How modules are stored and multiplied; later schemes take precedence."""

    format: str | None  # None for 16 bits
    storage: Storage | None = None  # None for that of the format
    targets: tuple[str, ...] = EVERYWHERE
    note: str = ""


class Method(NamedTuple):
    """How the quantization_config of a method is read."""

    read: Callable[[Fields], tuple[Scheme, ...]]
    left_out: tuple[str, ...] = ("modules_to_not_convert",)  # Keys that list unquantized modules
    engines: tuple[str, ...] = ()  # Families of engines that run it; () for all
    # Vendors whose GPUs multiply its MX formats (vLLM, `supports_mx`: gfx95 alone); () for all
    mx_vendors: tuple[str, ...] = ()


def weight_only(bits: int, group: int, group_bits: int, targets: tuple[str, ...]) -> Scheme:
    """Return the scheme of integer weights with activations in 16 bits.

    Args:
        group: Weights of a group; 0 or -1 for a row.
        group_bits: Bits of its scale and zero point.
    """
    if bits == 16:
        return Scheme(format=None, targets=targets)
    if bits not in _INTEGERS:
        raise UnreadError(f"{bits}-bit weights")
    storage = Storage(bits=bits, group_bits=group_bits, group=max(group, 0))
    return Scheme(format=_INTEGERS[bits], storage=storage, targets=targets)


def _row_scaled(name: str) -> Scheme:
    """Return the scheme of 8-bit weights with a scale in fp32 for each row."""
    return Scheme(format=name, storage=Storage(bits=8, group_bits=FP32_BITS))


def _gptq(stated: Fields) -> tuple[Scheme, ...]:
    """Return the schemes of GPTQ and AutoRound: codes, 16-bit scales and packed zero points."""

    def scheme(row: Fields, targets: tuple[str, ...]) -> Scheme:
        bits = row.integer("bits", "w_bit", default=4, maximum=16)
        group = row.integer("group_size", "q_group_size", default=128, minimum=-1)
        return weight_only(bits, group, SCALE_BITS + bits, targets)

    kind = stated.text("data_type", default="int")
    if kind != "int":
        raise UnreadError(f"data_type {kind[:20]!r}")
    inside = stated.values.get("modules_in_block_to_quantize")
    listed = (
        [n for row in inside for n in (row if isinstance(row, list) else [row])]
        if isinstance(inside, list)
        else []
    )
    default = scheme(stated, tuple(map(str, listed)) or EVERYWHERE)
    schemes = [Scheme(format=None), default] if listed else [default]
    if stated.boolean("lm_head", default=False):
        schemes.append(replace(default, targets=(HEAD,)))
    own = []  # of AutoRound, and of GPTQModel, whose first match counts
    for key in ("extra_config", "dynamic"):
        rows = stated.child(key)
        for name in rows.values if rows else ():
            row = rows.child(name) if rows else None
            if key == "dynamic" and name.lstrip("+-:") == HEAD:
                continue  # vLLM, gptq_utils: `lm_head` alone decides
            regular = key == "dynamic" or "\\" in name
            target = f"re:{name.removeprefix('+:').removeprefix('-:')}" if regular else name
            if name.startswith("-:"):
                own.append(Scheme(format=None, targets=(target,)))
            elif row is not None:
                merged = Fields(values={**stated.values, **row.values}, origin=row.origin)
                own.append(scheme(merged, (target,)))
    return (*schemes, *reversed(own))


def _bitsandbytes(stated: Fields) -> tuple[Scheme, ...]:
    """Return the scheme of bitsandbytes.

    Source: bitsandbytes, functional.quantize_4bit: blocks of 64 with an fp32 maximum, or an 8-bit
        one with an fp32 scale per 256 blocks; LLM.int8(): an fp32 scale per row.
    """
    if stated.boolean("load_in_8bit", "_load_in_8bit", default=False):
        return (_row_scaled("int8"),)
    if not stated.boolean("load_in_4bit", "_load_in_4bit", default=True):
        raise UnreadError("neither 4-bit nor 8-bit weights")
    nested = stated.boolean("bnb_4bit_use_double_quant", default=False)
    block = 8 + FP32_BITS / 256 if nested else FP32_BITS
    return (Scheme(format="nf4_wo", storage=Storage(bits=4, group_bits=block, group=64)),)


def _hqq(stated: Fields) -> tuple[Scheme, ...]:
    """Return the schemes of HQQ: a 16-bit scale and zero point per group."""
    quantized = stated.child("quant_config")
    if quantized is None:
        raise UnreadError("no quant_config")
    rows = {"": quantized} if quantized.has("weight_quant_params") else {}
    rows |= {name: row for name in quantized.values if not rows and (row := quantized.child(name))}
    schemes = []
    for name, row in rows.items():
        weights = row.child("weight_quant_params") or row
        if row.has("scale_quant_params", "zero_quant_params"):
            raise UnreadError("quantized scales")
        bits, group = weights.integer("nbits", default=4), weights.integer("group_size", default=64)
        targets = (name,) if name else EVERYWHERE
        scheme = weight_only(bits, group, 2 * SCALE_BITS, targets)
        if bits == 3 and scheme.storage:  # ten codes in 32 bits
            scheme = replace(scheme, storage=replace(scheme.storage, bits=3.2))
        schemes.append(scheme)
    return tuple(schemes) if "" in rows else (Scheme(format=None), *schemes)


def _torchao(stated: Fields) -> tuple[Scheme, ...]:
    named = stated.values.get("quant_type")
    if isinstance(named, str):
        options = stated.child("quant_type_kwargs") or Fields(values={}, origin=stated.origin)
        return (_torchao_scheme(named, options, EVERYWHERE),)
    kinds = stated.child("quant_type")
    kind = kinds.child("default") if kinds else None
    if kind is None:
        raise UnreadError("no quant_type")
    options = kind.child("_data") or kind
    modules = options.child("module_fqn_to_config") or options.child("fqn_to_config")
    if modules is None:
        return (_torchao_scheme(kind.text("_type"), options, EVERYWHERE),)
    schemes = [Scheme(format=None)]
    for name in sorted(modules.values, key=lambda name: name != "_default"):
        row, targets = modules.child(name), (name.removesuffix(".weight"),)
        targets = EVERYWHERE if name == "_default" else targets
        schemes.append(
            _torchao_scheme(row.text("_type"), row.child("_data") or row, targets)
            if row
            else Scheme(format=None, targets=targets)
        )
    return tuple(schemes)


def _torchao_scheme(name: str, options: Fields, targets: tuple[str, ...]) -> Scheme:
    if name not in _TORCHAO:
        raise UnreadError(f"quant_type {name[:60]!r}")
    kind, bits, group, group_bits = _TORCHAO[name]
    group = options.integer("group_size", default=group, minimum=-1)
    storage = Storage(bits=bits, group_bits=group_bits, group=max(group, 0))
    return Scheme(format=kind, storage=storage, targets=targets)


def _quark(stated: Fields) -> tuple[Scheme, ...]:
    by_type, by_name = (stated.child(f"layer_{kind}quant_config") for kind in ("type_", ""))
    if by_type is not None and by_type.values:
        raise UnreadError("layer_type_quant_config")
    default = stated.child("global_quant_config")
    rows = {name: by_name.child(name) for name in by_name.values} if by_name else {}
    own = [_quark_scheme(row, (name,)) for name, row in rows.items() if row]
    first = _quark_scheme(default, EVERYWHERE) if default else Scheme(format=None)
    return (first, *reversed(own))  # the first match counts


def _quark_scheme(row: Fields, targets: tuple[str, ...]) -> Scheme:
    stages = [_stages(row, name) for name in ("weight", "input_tensors")]
    dtypes = tuple(tuple(stage.text("dtype") for stage in part) for part in stages)
    if dtypes == (("fp4", "fp8_e4m3"), ("fp4", "fp8_e4m3")):
        return Scheme(format="nvfp4", targets=targets)
    if dtypes == (("fp8_e4m3", "int4"), ("fp8_e4m3",)):
        rows = Storage(bits=4, group_bits=FP32_BITS)
        return Scheme(format="int4_fp8", storage=rows, targets=targets)
    if len(stages[0]) > 1 or len(stages[1]) > 1:
        raise UnreadError("weights of several stages")
    if not stages[0]:
        return Scheme(format=None, targets=targets)
    weights, activations = stages[0][0], stages[1][0] if stages[1] else None
    stored = weights.text("dtype"), activations.text("dtype") if activations else ""
    shown = f"{stored[0]} weights, {stored[1] or '16-bit'} activations"
    grouped = any(stage.text("qscheme") == "per_group" for part in stages for stage in part)
    group = weights.integer("group_size", default=0, minimum=-1) if grouped else 0
    if stored not in _QUARK or (stored[0] in _MX_ELEMENTS and group != 32):
        raise UnreadError(f"{shown} in groups of {group}" if grouped else shown)
    name, bits = _QUARK[stored]
    storage: Storage | None = None
    if name == "fp8_static" and activations is not None:
        if grouped:
            raise UnreadError(f"{shown} in groups of {group}")
        name = "fp8_dynamic" if activations.boolean("is_dynamic", default=False) else name
    scheme = weights.text("qscheme")
    if scheme == "per_channel":
        storage = Storage(bits=bits, group_bits=FP32_BITS if name.startswith("fp8") else SCALE_BITS)
    elif grouped and stored[0] not in _MX_ELEMENTS:
        zero = 0 if weights.boolean("symmetric", default=not stored[0].startswith("u")) else bits
        storage = Storage(bits=bits, group_bits=SCALE_BITS + zero, group=max(group, 0))
    note = _STAND_INS["W4A8_MXFP4_FP8"] if stored == ("fp4", "fp8_e4m3") else ""
    return Scheme(format=name, storage=storage, targets=targets, note=note)


def _stages(row: Fields, name: str) -> list[Fields]:
    """Return the quantizations of a tensor in AMD Quark, one after another."""
    value = row.values.get(name)
    if isinstance(value, list):
        found = [Fields(values={name: stage}, origin=row.origin).child(name) for stage in value]
        return [stage for stage in found if stage is not None]
    single = row.child(name)
    return [single] if single is not None else []


def _fp8(stated: Fields) -> tuple[Scheme, ...]:
    block = stated.values.get("weight_block_size")
    if isinstance(block, list) and len(block) not in (0, 2):
        raise stated.invalid("weight_block_size", "must be two numbers")
    if edges := stated.integers("weight_block_size", maximum=65_536):
        if not (size := math.prod(edges)):
            raise stated.invalid("weight_block_size", "must be two numbers above 0")
        own = None if size == 128 * 128 else Storage(bits=8, group_bits=FP32_BITS, group=size)
        return (Scheme(format="fp8_block", storage=own),)
    scheme = stated.text("activation_scheme", default="dynamic")
    if scheme not in ("static", "dynamic"):
        raise stated.invalid("activation_scheme", "must be 'static' or 'dynamic'")
    return (Scheme(format=f"fp8_{scheme}"),)


def _fp_quant(stated: Fields) -> tuple[Scheme, ...]:
    kinds = {"nvfp4": "nvfp4", "mxfp4": "mxfp4_mxfp4"}
    kind = stated.text("forward_dtype", default="nvfp4")
    if kind not in kinds:
        raise UnreadError(f"forward_dtype {kind[:20]!r}")
    return (Scheme(format=kinds[kind]),)


def _modelopt(stated: Fields) -> tuple[Scheme, ...]:
    name, layers = stated.text("quant_algo"), stated.child("quantized_layers")
    if not name:  # only the KV cache is quantized unless groups say more
        return _config_groups(stated) if stated.child("config_groups") else ()
    algorithm(stated.text("moe_quant_algo"), stated)
    if name in ALGORITHMS or (layers is None and stated.child("config_groups") is None):
        return (algorithm(name, stated),)
    if layers is None:
        return _config_groups(stated)
    found: dict[Scheme, list[str]] = {}
    for module in layers.values:
        row = layers.child(module)
        if row is not None and row.text("quant_algo"):
            found.setdefault(algorithm(row.text("quant_algo"), row), []).append(module)
    own = (replace(scheme, targets=tuple(modules)) for scheme, modules in found.items())
    return (Scheme(format=None), *own)


def algorithm(name: str, stated: Fields) -> Scheme:
    """Return the scheme of a quant_algo."""
    if name and name not in ALGORITHMS:
        raise UnreadError(f"quant_algo {name[:40]!r}")
    kind, storage = ALGORITHMS.get(name), None
    if name == "FP8_PER_CHANNEL_PER_TOKEN":
        storage = Storage(bits=8, group_bits=FP32_BITS)
    elif name in ("W4A16_AWQ", "W4A8_AWQ"):
        group = stated.integer("group_size", default=128)
        storage = Storage(bits=4, group_bits=SCALE_BITS, group=group)
    return Scheme(format=kind, storage=storage, note=_STAND_INS.get(name, ""))


def _config_groups(stated: Fields) -> tuple[Scheme, ...]:
    groups = stated.child("config_groups")
    if groups is None:
        raise UnreadError
    sparsity = stated.child("sparsity_config")
    if sparsity is not None and sparsity.text("format", default="dense") != "dense":
        raise UnreadError(f"sparsity_config of format {sparsity.text('format')[:40]!r}")
    rows = [row for name in groups.values if (row := groups.child(name)) is not None]
    schemes = tuple(_group_scheme(row) for row in rows if row.has("weights"))
    everywhere = any(scheme.targets == EVERYWHERE for scheme in schemes)
    by_name = tuple(scheme for scheme in schemes if scheme.targets != EVERYWHERE)
    rest = tuple(scheme for scheme in schemes if scheme.targets == EVERYWHERE)
    # the first group that names a module counts, before those of its class
    return (*(rest if everywhere else (Scheme(format=None),)), *reversed(by_name))


def _group_scheme(group: Fields) -> Scheme:
    """Return the scheme of a group of compressed-tensors."""
    weights, activations = group.child("weights"), group.child("input_activations")
    if weights is None:
        return Scheme(format=None)
    targets = group.texts("targets")
    if not targets or any(target in ("Linear", "FusedMoE") for target in targets):
        targets = EVERYWHERE
    kind, bits = weights.text("type", default="int"), weights.integer("num_bits", maximum=16)
    size = weights.integer("group_size", default=0, minimum=-1)
    strategy = weights.text("strategy", default="group" if size > 0 else "tensor")
    storage = None
    if strategy == "channel" or (kind == "int" and strategy == "group"):
        zero = 0 if weights.boolean("symmetric", default=True) else bits
        grouped = max(size, 0) if strategy == "group" else 0
        storage = Storage(bits=bits, group_bits=SCALE_BITS + zero, group=grouped)
    inputs, fp8, wide = ("", 16), "fp8_static", size > 16
    if activations is not None:
        kind_of_inputs = activations.text("type", default="int")
        inputs = (kind_of_inputs, activations.integer("num_bits", maximum=16))
        fp8 = "fp8_dynamic" if activations.values.get("dynamic") else fp8
    fp8 = "fp8_block" if strategy == "block" else "mxfp8" if size > 0 else fp8
    names = {
        **{("int", width, "", 16): name for width, name in _INTEGERS.items()},
        ("int", 8, "int", 8): "int8",
        ("int", 4, "float", 8): "int4_fp8",
        ("float", 4, "", 16): "mxfp4" if wide else "nvfp4_wo",
        ("float", 4, "float", 8): "mxfp4_mxfp8" if wide else "",
        ("float", 4, "float", 4): "mxfp4" if wide else "nvfp4",
        ("float", 8, "", 16): "fp8_wo",
        ("float", 8, "float", 8): fp8,
    }
    name = names.get((kind, bits, *inputs))
    if not name:
        with_inputs = f" with {inputs[1]}-bit {inputs[0]} activations" if activations else ""
        raise UnreadError(f"{bits}-bit {kind} weights{with_inputs}")
    return Scheme(format=name, storage=storage, targets=targets)


def _one(name: str, storage: Storage | None = None) -> Callable[[Fields], tuple[Scheme, ...]]:
    return lambda _: (Scheme(format=name, storage=storage),)


def _w4afp8(stated: Fields) -> tuple[Scheme, ...]:
    """Return the schemes of SGLang's w4afp8: experts in int4, everything else in blocks of fp8."""
    own = Storage(bits=4, group_bits=SCALE_BITS, group=stated.integer("group_size", default=128))
    experts = Scheme(format="int4_fp8", storage=own, targets=("*.experts.*",))
    return (Scheme(format="fp8_block"), experts)


# What answers must warn of, by format
WARNINGS: Final = {
    "nf4_wo": "kernels of bitsandbytes are not measured: weights are priced as those of GPTQ"
    " (Marlin), while bitsandbytes converts them to 16 bits before products of several tokens",
    "mxfp6_wo": "no engine multiplies in mxfp6: vLLM converts weights to 16 bits in every step"
    " (quantization/quark/schemes/quark_ocp_mx.py), which these times do not contain",
}
_OPEN: Final = ("vllm", "sglang")
METHODS: Final[dict[str, Method]] = {
    "fp8": Method(_fp8, ("modules_to_not_convert", "ignored_layers")),
    "fbgemm_fp8": Method(lambda _: (_row_scaled("fp8_dynamic"),), engines=_OPEN),
    "mxfp4": Method(_one("mxfp4")),
    "mxfp8": Method(_one("mxfp8"), ("modules_to_not_convert", "ignored_layers")),
    "nvfp4": Method(_one("nvfp4"), ("modules_to_not_convert", "ignored_layers", "ignore")),
    **dict.fromkeys(
        (
            *("awq", "awq_marlin", "gptq", "gptq_marlin"),
            *("auto-round", "auto_round", "intel/auto-round"),
        ),
        Method(_gptq, engines=_OPEN),
    ),
    "bitsandbytes": Method(_bitsandbytes, ("llm_int8_skip_modules",), _OPEN),
    "hqq": Method(_hqq, ("skip_modules", "modules_to_not_convert"), ("vllm",)),
    "torchao": Method(_torchao, engines=("vllm",)),
    "fp_quant": Method(_fp_quant, engines=("vllm",)),
    "quark": Method(_quark, ("exclude",), _OPEN, ("AMD",)),
    "compressed-tensors": Method(_config_groups, ("ignore",)),
    **dict.fromkeys(
        ("modelopt", "modelopt_fp4", "modelopt_mixed"),
        Method(_modelopt, ("ignore", "exclude_modules")),
    ),
    "blockwise_int8": Method(
        _one("int8", Storage(bits=8, group_bits=FP32_BITS, group=128 * 128)), engines=("sglang",)
    ),
    "w8a8_int8": Method(lambda _: (_row_scaled("int8"),), engines=("sglang",)),
    "w8a8_fp8": Method(lambda _: (_row_scaled("fp8_dynamic"),), engines=("sglang",)),
    "w4afp8": Method(_w4afp8, engines=("sglang",)),
}
