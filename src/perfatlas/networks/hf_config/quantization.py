"""Number formats of a checkpoint from its quantization_config."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from perfatlas.formats import Storage, StoredModule, get_format
from perfatlas.networks.contract import CheckpointFormats
from perfatlas.networks.hf_config.module_patterns import (
    PER_LAYER,
    layers_by_rule,
    module_slots,
    templates_of,
    unmatched,
)
from perfatlas.networks.hf_config.quantization_methods import (
    EVERYWHERE,
    HEAD,
    METHODS,
    WARNINGS,
    Scheme,
    UnreadError,
    algorithm,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

CACHE_FORMATS: Final[dict[str, str]] = {"FP8": "fp8_static", "NVFP4": "nvfp4", "INT8": "int8"}
_NO_CACHE_FORMAT: Final = ("", "NONE", "AUTO", "BF16", "FP16")
_FEED_FORWARD: Final = ("dense", "experts", "shared", "latent", PER_LAYER, HEAD)
_SINGLE: Final = frozenset("*:")  # Characters of targets that name more than one module
MAX_RULES: Final = 2_000
Rule = tuple[dict[str, set[int] | None], Scheme]
_UNQUANTIZED: Final = Scheme(format=None, storage=Storage(bits=16))
# methods that no engine profile runs, or that do not state their formats, and what may stand for
# them
_NEAREST: Final = {
    "gguf": "that of most tensors of the file, such as q4_k, q5_k, q6_k or q8_0"
    " (`perfatlas catalog formats`): a GGUF file states types tensor by tensor, its config none",
    **dict.fromkeys(
        ("exl2", "exl3", "quanto", "aqlm", "vptq", "higgs", "spqr", "bitnet", "eetq", "sinq"),
        "int2_wo, int3_wo, int4_wo or int8_wo, whichever is nearest to its bits per weight: vLLM,"
        " SGLang and TensorRT-LLM do not run this method",
    ),
    "": "int4_wo or int8_wo: a block without quant_method is one of MLX, which runs on Apple GPUs",
}
_ANY_NEAREST: Final = (
    "the nearest of its weights and activations, such as int4_wo, int8_wo,"
    " fp8_dynamic or mxfp4_mxfp4"
)


def checkpoint_formats(
    outer: Fields, fields: Fields, architecture: Architecture
) -> tuple[CheckpointFormats, tuple[str, ...], tuple[str, ...]]:
    """Return the formats that the checkpoint states, remarks on what is missing, and warnings.

    Args:
        fields: Its text part (the same if there is no wrapper).
    """
    stated = _stated(outer) or _stated(fields)
    if stated is None or not stated.values:
        return CheckpointFormats(), (), ()
    name = _method_name(stated)
    quoted = f"quantization_config: quant_method {name[:40]!r}"
    kv_format, unread_kv = None, ""
    try:
        kv_format = _cache_format(stated)
    except UnreadError as problem:
        unread_kv = f"{quoted}: {problem} has no known number format"
    cache_only = CheckpointFormats(kv_format=kv_format, unread_kv=unread_kv, source=quoted)
    method, moe = METHODS.get(name.casefold()), stated.text("moe_quant_algo")
    schemes: tuple[Scheme, ...] = ()
    rules: list[Rule] = []
    experts, unread = None, ""
    try:
        schemes = method.read(stated) if method else ()
        experts = algorithm(moe, stated) if moe else None
        left_out = [name for key in method.left_out for name in stated.texts(key)] if method else []
        last = replace(_UNQUANTIZED, targets=tuple(left_out))
        rules = _rules((*schemes, last)) if schemes else []
    except UnreadError as problem:
        schemes, unread = (), f": {problem}" if str(problem) else " "
    named = dict.fromkeys(scheme.format for scheme in schemes if scheme.format)
    if method and not named and not unread and (kv_format or unread_kv):
        return cache_only, (), ()  # the KV cache alone is quantized
    if method is None or not named:
        what = f"{quoted}{unread.rstrip()} has no known number format"
        nearest = _NEAREST.get(name, _ANY_NEAREST)
        return replace(cache_only, unread=what, nearest=nearest), (what,), ()
    quoted = f"{quoted}, {', '.join(named)}"
    if experts is None and "fp8_block" in named and fields.text("expert_dtype") == "fp4":
        experts, quoted = Scheme(format="mxfp4_mxfp8"), f"{quoted}; expert_dtype 'fp4'"
    modules, formats, notes, strange = _modules(rules, architecture, experts)
    head = next((s for s in reversed(schemes) if HEAD in s.targets), None)
    if head is not None and HEAD not in left_out and not architecture.tie_word_embeddings:
        modules = (*modules, _stored(HEAD, HEAD, {head: 1.0}))
    notes += tuple(scheme.note for scheme in schemes if scheme.note)
    warnings = [WARNINGS[name] for name in named if name in WARNINGS]
    if strange:
        shown = ", ".join(strange[:3])[:80]
        warnings.append(f"{quoted}: modules of unknown names are not read: {shown}")
    checkpoint = replace(
        cache_only,
        gemm_format=_gemm_format(formats),
        moe_format=formats["experts"] or "bf16" if "experts" in formats else None,
        attention_quantized=formats.get("attention") is not None,
        modules=modules,
        engines=method.engines,
        mx_vendors=method.mx_vendors,
        source=quoted,
    )
    return checkpoint, tuple(dict.fromkeys(notes)), tuple(warnings)


def unread_formats(fields: Fields) -> CheckpointFormats:
    """Return the formats of a network without names of modules: none are read."""
    stated = _stated(fields)
    if stated is None or not stated.values:
        return CheckpointFormats()
    quoted = f"quantization_config: quant_method {_method_name(stated)[:40]!r}"
    unread = f"{quoted} is not read for model_type {fields.text('model_type')!r}"
    return CheckpointFormats(source=quoted, unread=unread, nearest=f"bf16, or to {_ANY_NEAREST}")


def _stated(fields: Fields) -> Fields | None:
    names = ("quantization_config", "compression_config", "quantization")
    stated = next((part for name in names if (part := fields.child(name))), None)
    return stated and (stated.child("quantization") or stated)


def _method_name(stated: Fields) -> str:
    keys = {"quant_algo": "modelopt", "config_groups": "compressed-tensors"}
    implied = next((method for key, method in keys.items() if key in stated.values), "")
    return stated.text("quant_method") or implied


def _gemm_format(formats: Mapping[str, str | None]) -> str:
    """Return the format of the largest quantized part other than experts."""
    order = ("attention", "dense", "shared")
    if "experts" not in formats:
        order = ("dense", "attention", "shared")
    return next((name for part in order if (name := formats.get(part))), "bf16")


def _rules(schemes: Sequence[Scheme]) -> list[Rule]:
    """Return the layers of each scheme by path; schemes of single modules that agree are one.

    Raises:
        UnreadError: A pattern is not supported, or there are too many.
    """
    merged: dict[tuple[int, Scheme], list[str]] = {}
    run, last = 0, (True, schemes[0])
    for scheme in schemes:
        alike = replace(scheme, targets=(), note="")
        kind = any(not _SINGLE.isdisjoint(target) for target in scheme.targets), alike
        run += kind[0] != last[0] or (kind[0] and kind != last)
        last = kind
        merged.setdefault((run, alike), []).extend(scheme.targets)
    rules: list[Rule] = []
    if EVERYWHERE[0] not in next(iter(merged.values())):
        rules.append(({}, _UNQUANTIZED))
    for (_, scheme), targets in merged.items():
        templates, unsupported = templates_of(targets)
        if unsupported:
            raise UnreadError(f"modules by the pattern {unsupported[0][:80]!r}")
        rules.append((templates, scheme))
    if len(rules) > MAX_RULES:
        raise UnreadError(f"{len(rules):,} rules for modules, of at most {MAX_RULES:,},")
    return rules


def _modules(
    rules: Sequence[Rule], architecture: Architecture, experts: Scheme | None
) -> tuple[tuple[StoredModule, ...], dict[str, str | None], tuple[str, ...], tuple[str, ...]]:
    """Return every module as stored, the format of most of each part, remarks, unknown names.

    Args:
        experts: That of the experts where it is stated apart.
    """
    modules, parts = [], dict[str, Counter[str | None]]()
    mixed = dict[str, None]()
    operators = module_slots(architecture)
    strange = [path for templates, _ in rules for path in unmatched(templates, operators)]
    for slots in operators:
        shares: dict[Scheme, float] = defaultdict(float)
        for width, paths in slots.paths:
            found = layers_by_rule(paths, rules, slots.layers, slots.at)
            if experts is not None and slots.operator == "experts":
                found = iter(((experts, slots.layers),))
            for scheme, layers in found:
                shares[scheme] += width * layers
        modules.append(_stored(slots.operator, slots.part, shares))
        part = slots.part if slots.part in _FEED_FORWARD else "attention"
        parts.setdefault(part, Counter())[modules[-1].format] += slots.layers
        if len({scheme.format for scheme in shares}) > 1:
            mixed[slots.operator] = None
    formats = {part: counts.most_common(1)[0][0] for part, counts in parts.items()}
    plain = ", ".join(part for part, name in formats.items() if name is None)
    others = sorted({name for part, name in formats.items() if name and part != "experts"})
    remarks = {
        f"not quantized in the checkpoint: {plain}": plain,
        f"layers differ in the format of {', '.join(mixed)}: bytes are those of all, products are"
        " in the format of most": mixed,
        f"linear layers mix {', '.join(others)}, each priced as stored": others[1:],
    }
    notes = tuple(remark for remark, holds in remarks.items() if holds)
    return tuple(modules), formats, notes, tuple(strange)


def _stored(operator: str, part: str, shares: Mapping[Scheme, float]) -> StoredModule:
    total = sum(shares.values())
    formats: dict[str | None, float] = defaultdict(float)
    for scheme, share in shares.items():
        formats[scheme.format] += share
    return StoredModule(
        operator=operator,
        mixer="" if part in _FEED_FORWARD else part,
        format=max(formats, key=formats.__getitem__),
        parts=tuple((share / total, _storage(scheme)) for scheme, share in shares.items()),
    )


def _storage(scheme: Scheme) -> Storage:
    if scheme.storage is not None:
        return scheme.storage
    return Storage(bits=8 * get_format(scheme.format or "bf16").weight_bytes)


def _cache_format(stated: Fields) -> str | None:
    scheme = stated.values.get("kv_cache_scheme")
    if isinstance(scheme, dict):
        cache = stated.child("kv_cache_scheme")
        bits = cache.integer("num_bits", default=8, maximum=16) if cache else 8
        kind = cache.text("type", default="float") if cache else "float"
        formats = {("float", 8): "fp8_static", ("int", 8): "int8", ("float", 4): "nvfp4"}
        if (kind, bits) not in formats:
            raise UnreadError(f"a {bits}-bit {kind} KV cache")
        return formats[kind, bits]
    name = "kv_cache_quant_algo" if stated.has("kv_cache_quant_algo") else "kv_cache_scheme"
    names = {stated.text(name).upper(), *_quark_caches(stated)}.difference(_NO_CACHE_FORMAT)
    if len(names) > 1 or names - CACHE_FORMATS.keys():
        raise UnreadError(f"a KV cache in {', '.join(sorted(names))[:60]}")
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
