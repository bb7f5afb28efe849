"""Networks and encoders by rows of parts, whose sizes are expressions over the keys of a config.

A row of `data/config_parts.toml` is a whole network (text encoders, encoder-decoders, speech), or
an encoder of a multi-modal model. Its expressions read the keys of config.json, dotted where they
are nested, `values` of its own, and sizes of the network such as `sequence_length`.

Source: the model classes of transformers 5.24.0, whose parameters tests/networks/oracle counts.
Limits: Scales, biases and tables of positions are counted, and priced with the operators that they
    are fused into.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import shipped_table, shipped_text
from perfatlas.networks.dimensions import MAX_LAYERS, MAX_PARAMETERS
from perfatlas.networks.hf_config.decoder import LEFT_OUT, class_defaults, unpriced_text
from perfatlas.networks.hf_config.keys import ELSEWHERE
from perfatlas.networks.hf_config.scope import MOST, NAME, Scope, columns_of
from perfatlas.quantities import Expression, InvalidSpecError, UnsupportedError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perfatlas.networks.graphs.network import GraphNetwork
    from perfatlas.networks.hf_config.fields import Fields
    from perfatlas.networks.vision_encoder import GraphEncoder

Row = dict[str, Any]
_NUMBERED: Final = re.compile(r"\.(?:count|sum|last|at\d+)$")  # Columns of a list
# Ends of the name of a class in `architectures`, by the flag that expressions read
_BUILT: Final = {
    "masked_lm": ("ForMaskedLM",),
    "causal_lm": ("ForCausalLM", "Decoder", "LMHeadModel"),
    "classifier": ("ForSequenceClassification",),
}


@cache
def part_rows() -> Mapping[str, Row]:
    """Return the row of each model_type, with what it shares with another one."""
    rows: dict[str, Row] = {}
    named: dict[str, Row] = {}
    for row in shipped_table("data/config_parts.toml")["row"]:
        shared = named[row["like"]] if "like" in row else {}
        whole = {**shared, **row, "values": {**shared.get("values", {}), **row.get("values", {})}}
        rows |= dict.fromkeys(row["model_types"], whole)
        named |= dict.fromkeys((*row["model_types"], *filter(None, (row.get("name"),))), whole)
    return rows


def networks() -> frozenset[str]:
    """Return the model_types whose whole network is a row."""
    return frozenset(name for name, row in part_rows().items() if "item" in row)


def missing_operator(model_type: str) -> str:
    """Return the operator that a model_type lacks, a clause; "" where none is named."""
    named = shipped_table("data/config_parts.toml")["missing"].items()
    return next((f": {operator}" for operator, kinds in named if model_type in kinds), "")


@cache
def _class_defaults() -> Mapping[str, Mapping[str, Any]]:
    """Return what config classes supply for the keys that rows read."""
    defaults: dict[str, dict[str, Any]] = json.loads(
        shipped_text("data/config_parts_defaults.json")
    )
    return defaults


def scope_of(row: Row, fields: Fields, model_type: str) -> Scope:
    """Return what the expressions of a row read: the config, defaults of its class, values."""
    columns = dict(_class_defaults().get(model_type, {}))
    equal = {
        name: value[0]
        for name, value in fields.values.items()
        if isinstance(value, list)
        and len(value) > 1
        and value == value[:1] * len(value)
        and type(value[0]) is type(columns.get(name)) is int
    }  # such as a window for each layer
    fields = replace(fields, values={**fields.values, **equal})
    _check_types(fields, columns)
    encoders = {part["encoder"]: part["default"] for part in row["parts"] if "encoder" in part}
    nested = [name for name, value in fields.values.items() if isinstance(value, dict)]
    for name, default in {**dict.fromkeys(nested, ""), **encoders}.items():
        child = _nested(fields, name)
        columns[f"{name}.stated"] = int(child is not None)
        if child is not None or "item" in row:
            kind = child.text("model_type", default=default) if child else default
            if name in encoders and kind not in part_rows():
                raise fields.unsupported(name, f"model_type {kind[:40]!r} is not described")
            below = {**class_defaults().get(kind, {}), **_class_defaults().get(kind, {})}
            columns |= columns_of(below, f"{name}.")
    stated = dict(columns_of(fields.values))
    lists = {name.removesuffix(".count") for name in stated if name.endswith(".count")}
    for name in [name for name in columns if name.rpartition(".")[0] in lists]:
        if _NUMBERED.search(name):
            del columns[name]
        else:  # how often a text occurs
            columns[name] = 0
    columns |= stated
    for name, default in row.get("absent", {}).items():
        columns.setdefault(name, default)
    built = fields.texts("architectures")[:1]
    for flag, ends in _BUILT.items():
        columns[flag] = int(bool(built) and built[0].endswith(ends))
    scope = Scope(fields=fields, columns=columns)
    for name, text in row["values"].items():
        columns[name] = scope.value(text)
    return scope


def _check_types(fields: Fields, defaults: Mapping[str, object]) -> None:
    """Refuse stated values of another type than the default of their class."""
    for name, default in defaults.items():
        key, _, column = name.rpartition(".") if _NUMBERED.search(name) else (name, "", "")
        value = fields.values.get(key)
        if value is None:
            continue
        if column.startswith("at"):
            whole = isinstance(value, list) and all(type(one) is int for one in value)
            if not whole or not value:
                raise fields.invalid(key, "expected a list of whole numbers")
        elif not column and isinstance(value, list | dict):
            raise fields.invalid(key, f"expected a value such as {default!r}")


def left_out(fields: Fields, model_type: str) -> tuple[str, ...]:
    """Return a warning of the sizes that a config leaves to its class; () if it states all."""
    defaults, sizes = _class_defaults().get(model_type, {}), dict[str, list[str]]()
    for name, default in defaults.items():
        key, _, column = name.partition(".")
        if fields.has(key) is None and type(default) is int and column[:2] in ("", "at"):
            sizes.setdefault(key, []).append(str(default))
    others = {*fields.values} - {*defaults} - ELSEWHERE
    named = (f"{key} = {' '.join(each)}{did_you_mean(key, others)}" for key, each in sizes.items())
    return (f"{LEFT_OUT}: {', '.join(named)}",) if sizes else ()


@dataclass(frozen=True, kw_only=True)
class Counted:
    """Parameters and operators of parts."""

    parameters: list[int] = field(default_factory=list)
    once: dict[tuple[tuple[str, object], ...], int] = field(default_factory=dict)
    decoder: dict[tuple[tuple[str, object], ...], int] = field(default_factory=dict)
    unpriced: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str, count: int, *, generating: bool = False, **sizes: object) -> None:
        """Add an operator; `times` is how often each runs, 1 where it is left out."""
        key = (("kind", kind), *((name, size) for name, size in sizes.items() if size != ""))
        rows = self.decoder if generating else self.once
        if count:
            rows[key] = rows.get(key, 0) + count

    def operators(self, *, generating: bool = False) -> list[Row]:
        """Return the operators as rows of a graph."""
        rows = self.decoder if generating else self.once
        nodes: list[Row] = [{**dict(key), "count": count} for key, count in rows.items()]
        for node in nodes:
            if times := node.pop("times", ""):
                node["count"] = f"{node['count']} * {times}"
        return nodes


def count_parts(row: Row, scope: Scope, counted: Counted) -> None:
    """Add the parameters and operators of the parts of a row."""
    for part in row["parts"]:
        if "when" in part and not scope.value(part["when"]):
            continue
        if (name := part.get("use")) is not None:
            shared = shipped_table("data/config_parts.toml")["shared"][name]
            local = {key: scope.value(text) for key, text in part.get("with", {}).items()}
            inner = replace(scope, columns={**scope.columns, **local})
            count_parts({"parts": shared}, inner, counted)
        elif part.get("optional") and _nested(scope.fields, part["encoder"]) is None:
            continue
        elif "encoder" in part:
            _count_encoder(part, scope, counted)
        else:
            _PARTS[part["part"]](part, scope, counted)


def _count_encoder(part: Row, scope: Scope, counted: Counted) -> None:
    """Add the encoder that a nested config describes."""
    name = part["encoder"]
    child = _nested(scope.fields, name) or replace(scope.fields, values={})
    kind = child.text("model_type", default=part["default"])
    inner = part_rows()[kind]
    for _ in range(part.get("count", 1)):
        count_parts(inner, scope_of(inner, child, kind), counted)


def _nested(fields: Fields, path: str) -> Fields | None:
    """Return the fields of a nested config by its dotted name."""
    found: Fields | None = fields
    for name in path.split("."):
        found = None if found is None else found.child(name)
    return found


def _passes(part: Row, scope: Scope) -> Iterator[tuple[Row, str, str]]:
    """Yield what tells a pass from others, its queries and its keys; nothing if unpriced.

    Of a diffusion language model every `refresh_interval`-th step runs over all tokens, and the
    others over a block, whose queries attend to cached keys.

    Source: LLaDA (arXiv 2502.09992) section 2.4; DualCache of Fast-dLLM (arXiv 2505.22618).
    """
    if part.get("generates"):
        yield {}, "target_length", "target_length"
        yield {"generating": True}, "1", "kv_length"
    elif part.get("denoises"):
        full = "((steps - 1) // refresh_interval + 1)"
        yield {"times": full}, "total_length", "total_length"
        yield {"times": f"(steps - {full})"}, "block_length", "total_length"
    elif "length" in part:
        length = f"({scope.size(part['length'])})"
        yield {}, length, length


def _table(part: Row, scope: Scope, counted: Counted) -> None:
    """Add a table of embeddings, and its look-up where it states a length."""
    width, count = scope.value(part["width"]), scope.value(part.get("count", 1))
    counted.parameters.append(scope.value(part.get("rows", 0)) * width * count)
    for once, queries, _ in _passes(part, scope) if width and count else ():
        rows = f"batch * {queries}"
        counted.add("embedding", count, **once, rows=rows, width=width)


def _linear(part: Row, scope: Scope, counted: Counted) -> None:
    """Add products of n columns and k rows; those of a convolution read k per output."""
    n, k = scope.value(part["n"]), scope.value(part["k"])
    count, bias = scope.value(part.get("count", 1)), scope.value(part.get("bias", 1))
    distinct = scope.value(part.get("distinct", count))
    counted.parameters.append(distinct * n * (bias + (0 if part.get("tied") else k)))
    for once, queries, _ in _passes(part, scope) if n and k else ():
        rows = f"batch * {queries}"
        if (taps := scope.value(part.get("taps", 1))) > 1:
            stride = scope.value(part.get("stride", 1))
            read = f"{max(k * stride // taps, 1)} * {rows}"
            counted.add("conv", count, **once, m=rows, n=n, k=k, read=read)
        else:
            counted.add("linear", count, **once, m=rows, n=n, k=k)


def _norm(part: Row, scope: Scope, counted: Counted) -> None:
    """Add norms of a width."""
    width, count = scope.value(part["width"]), scope.value(part.get("count", 1))
    counted.parameters.append(width * count * (1 + scope.value(part.get("bias", 1))))
    for once, queries, _ in _passes(part, scope) if width else ():
        read = f"{width} * batch * {queries}"
        counted.add("norm", count, **once, read=read, row=width)


def _weights(part: Row, scope: Scope, counted: Counted) -> None:
    """Add parameters; `of` names the operator that is not priced."""
    size = scope.value(part["size"])
    counted.parameters.append(size)
    if size and "of" in part:
        counted.unpriced[part["of"]] = counted.unpriced.get(part["of"], 0) + size


def _depthwise(part: Row, scope: Scope, counted: Counted) -> None:
    """Add convolutions of each channel by itself."""
    width, taps = scope.value(part["width"]), scope.value(part["taps"])
    count, bias = scope.value(part.get("count", 1)), scope.value(part.get("bias", 1))
    counted.parameters.append(count * width * (taps + bias))
    for once, queries, _ in _passes(part, scope):
        read = f"{width} * batch * {queries}"
        counted.add("depthwise_conv", count, **once, read=read, taps=taps)


def _convolutions(part: Row, scope: Scope, counted: Counted) -> None:
    """Add convolutions over the samples of a waveform, one behind the other, to its frames.

    `norms`: how many of them normalize their output, 0 for all.
    """
    depth = scope.value(f"{part['dims']}.count")
    for name in (part["kernels"], part["strides"]):
        if depth != scope.value(f"{name}.count") or depth > MOST:
            raise scope.fields.invalid(name, f"must be {depth} numbers, at most {MOST}")
    norms, channels = scope.value(part["norms"]) or depth, 1
    for i in range(depth):
        width, taps = (scope.value(f"{part[name]}.at{i}") for name in ("dims", "kernels"))
        later = math.prod(scope.value(f"{part['strides']}.at{j}") for j in range(i + 1, depth))
        length, stride = f"{later} * ({part['length']})", f"{part['strides']}.at{i}"
        shape = {"n": width, "k": channels * taps, "taps": taps, "stride": stride}
        _linear({**shape, "bias": part["bias"], "length": length}, scope, counted)
        if i < norms:
            _norm({"width": width, "length": length}, scope, counted)
        channels = width


def _operator(part: Row, scope: Scope, counted: Counted) -> None:
    """Add an operator without parameters of its own; `tokens` are those of a denoising pass."""
    sizes = {name: size for name, size in part.items() if name not in _OF_PARTS}
    count = scope.value(part.get("count", 1))
    named: Row = {name: scope.size(size) for name, size in sizes.items()}
    for once, tokens, _ in _passes(part, scope) if part.get("denoises") else (({}, "", ""),):
        of_pass = {name: size.replace("tokens", tokens) for name, size in named.items()}
        counted.add(part["kind"], count, **once, **of_pass)


def _layers(part: Row, scope: Scope, counted: Counted) -> None:
    """Add transformer layers: attention, attention to another sequence, and a feed-forward.

    `bias` names the products with biases: q, k, v, o, and u and d of the feed-forward.
    """

    def read(name: str, default: object) -> int:
        return scope.value(part.get(name, default))

    depth, width, heads = read("count", "depth"), read("width", "d"), read("heads", "heads")
    if depth > MAX_LAYERS:
        raise InvalidSpecError(f"{scope.fields.origin}: {depth:,} layers exceed {MAX_LAYERS:,}")
    if not heads or ("head_dim" not in part and width % heads):
        raise InvalidSpecError(
            f"{scope.fields.origin}: {heads} attention heads must divide the width of {width}"
        )
    head_dim, ffn = read("head_dim", width // heads), read("ffn", "ffn")
    kv_heads, source = read("kv_heads", heads), read("source", width)
    cross_heads = read("cross_heads", heads)
    cross_keys = read("cross_kv_heads", kv_heads) * head_dim
    biases, gated = part.get("bias", "qkvoud"), read("gated", 0)
    if part.get("no_bias_if") and scope.value(part["no_bias_if"]):
        biases = ""
    cross = scope.size(part["cross"]) if "cross" in part else ""
    inner, keys = heads * head_dim, kv_heads * head_dim
    columns = {"q": inner, "k": keys, "v": keys, "o": width}
    inputs = {"q": width, "k": width, "v": width, "o": inner}
    crossing = cross_heads * head_dim
    across = {"q": (crossing, width), "o": (width, crossing)}
    across |= dict.fromkeys("kv", (cross_keys, source))
    up = ffn * (2 if gated else 1)
    per_layer = sum(n * (inputs[name] + (name in biases)) for name, n in columns.items())
    if cross:
        per_layer += sum(n * (k + (name in biases)) for name, (n, k) in across.items())
    per_layer += up * (width + ("u" in biases)) + ffn * width + width * ("d" in biases) * (ffn > 0)
    norms = read("norms", 2 + bool(cross))
    per_layer += norms * width * (1 + read("norm_bias", 1)) + read("extra", 0)
    counted.parameters.append(read("distinct", depth) * per_layer)
    window = scope.value(part["window"]) if "window" in part else 0
    for once, queries, seen in _passes(part, scope):
        rows, generating = f"batch * {queries}", once.get("generating", False)
        shape: Row = {"num_heads": heads, "num_kv_heads": kv_heads, "head_dim": head_dim}
        for name, n in columns.items():
            counted.add("linear", depth, **once, m=rows, n=n, k=inputs[name])
            n_across, k = across[name]
            if cross and name in "qo":
                counted.add("linear", depth, **once, m=rows, n=n_across, k=k)
            elif cross and not generating:
                counted.add("linear", depth, m=f"batch * {cross}", n=n_across, k=k)
        limited = f"min({seen}, {window})" if window else seen
        causal = {"causal": True} if part.get("generates") and not generating else {}
        counted.add("attention", depth, **once, q_len=queries, kv_len=limited, **shape, **causal)
        if cross:
            shape |= {"num_heads": cross_heads, "num_kv_heads": cross_keys // head_dim}
            counted.add("attention", depth, **once, q_len=queries, kv_len=cross, **shape)
        blocks = 1 + bool(cross) + bool(ffn)
        moved: Row = {"read": f"{2 * width} * {rows}", "write": f"{width} * {rows}"}
        counted.add("add", depth * blocks, **once, **moved, after="linear")
        counted.add("norm", depth * norms, **once, read=f"{width} * {rows}", row=width)
        if ffn:
            counted.add("linear", depth, **once, m=rows, n=up, k=width)
            moved = {"read": f"{up} * {rows}", "write": f"{ffn} * {rows}"}
            counted.add("activation", depth, **once, **moved, after="linear")
            counted.add("linear", depth, **once, m=rows, n=width, k=ffn)


_PARTS: Final = {
    "table": _table,
    "linear": _linear,
    "norm": _norm,
    "weights": _weights,
    "layers": _layers,
    "depthwise": _depthwise,
    "convolutions": _convolutions,
    "operator": _operator,
}
_OF_PARTS: Final = frozenset(("part", "kind", "count", "when", "denoises"))


def count_encoders(fields: Fields) -> tuple[int, str, GraphEncoder | None]:
    """Return the parameters of the encoders and projectors around a decoder, 0 if not described.

    Also why they are not counted where their config lacks something, a clause; and the encoder of
    images where the row says how many patches they have.
    """
    row = part_rows().get(fields.text("model_type"))
    if row is None or "item" in row:
        return 0, "", None
    needed = [
        part["encoder"] for part in row["parts"] if "default" in part and "optional" not in part
    ]
    if not all(_nested(fields, name) for name in needed):
        return 0, "", None
    counted = Counted()
    total = 0
    try:
        scope = scope_of(row, fields, fields.text("model_type"))
        _refuse(row, scope)
        count_parts(row, scope, counted)
        total = sum(counted.parameters)
        if total > MAX_PARAMETERS:
            return 0, f"{total:,} parameters exceed {MAX_PARAMETERS:,}", None
        return total, "", _encoder_of_images(row, scope, counted) if "images" in row else None
    except (InvalidSpecError, UnsupportedError) as problem:
        return total, str(problem).removeprefix(f"{fields.origin}: "), None


def _encoder_of_images(row: Row, scope: Scope, counted: Counted) -> GraphEncoder:
    """Return the encoder of images whose `patch` and `merge` a row states, without that of audio.

    Images have the `side` that a config states, a token or more, or the limits of a processor.
    """
    from perfatlas.networks.graphs.reader import read_graph  # not loaded for text alone
    from perfatlas.networks.hf_config.vision import limits_of
    from perfatlas.networks.vision_encoder import GraphEncoder, Resizing

    sizes = {name: scope.value(text) for name, text in row["images"].items()}
    merge, token = sizes["merge"], sizes["patch"] * sizes["merge"]
    stated = sizes.get("side", token)
    if not 0 < token <= stated:
        raise scope.fields.invalid(row["images"]["patch"], f"0 < {token} <= {stated} must hold")
    nodes = [node for node in counted.operators() if "frames" not in str(node)]
    if merge > 1 and f"patches // {merge**2}" not in str(nodes):
        raise scope.fields.unsupported(row["images"]["merge"], "is not the one that is described")
    side, model_type = stated // token * token, scope.fields.text("model_type")
    graph = read_graph(
        {"name": model_type, "parameters": 0, "sizes": {"patches": merge**2}, "operators": nodes},
        scope.fields.origin,
    )
    limits = limits_of(model_type)
    return GraphEncoder(
        graph=graph,
        parameters=sum(counted.parameters),
        patches_per_token=merge**2,
        resizing=Resizing(
            side=token,
            min_pixels=limits.get("min_pixels", 0),
            max_pixels=limits.get("max_pixels", 0),
            fixed_side=side if "side" in sizes else 0,
        ),
    )


def _refuse(row: Row, scope: Scope) -> None:
    """Refuse what a config asks for and a row does not describe."""
    for name, text in row.get("refused", {}).items():
        if set(Expression(text).names) <= {*scope.columns} and scope.value(text):
            raise scope.fields.unsupported(name, "is not modeled")


def read_parts(fields: Fields) -> GraphNetwork:
    """Return the graph of a network that is a row.

    Raises:
        InvalidSpecError: A key is missing or leaves a size that no network has.
        UnsupportedError: The config asks for something that is not modeled.
    """
    from perfatlas.networks.graphs.reader import read_graph  # not loaded for language models

    model_type = fields.text("model_type")
    row = part_rows()[model_type]
    scope, counted = scope_of(row, fields, model_type), Counted()
    _refuse(row, scope)
    count_parts(row, scope, counted)
    generating = counted.operators(generating=True)
    sizes = {name: scope.value(text) for name, text in row.get("sizes", {}).items()}
    lengths = row.get("lengths", {})
    texts = [*lengths.values(), *(size for node in counted.once for _, size in node)]
    read = {name for text in texts for name in NAME.findall(str(text))}
    sizes = {name: value for name, value in sizes.items() if name in read}
    limits = {
        name: {"most": max(scope.value(text), 1)}
        for name, text in row.get("limits", {}).items()
        if name in (*sizes, *lengths)
    }
    network = read_graph(
        {
            "name": model_type,
            "item": row["item"],
            "source": fields.origin[:300],
            "parameters": sum(counted.parameters),
            "sizes": sizes,
            "limits": limits,
            "lengths": lengths,
            **{name: row[name] for name in ("denoiser", "notes") if name in row},
            **({"live_elements": scope.size(row["live"])} if "live" in row else {}),
            "operators": counted.operators(),
            **({"decoder": generating} if generating else {}),
        },
        fields.origin,
    )
    warnings = (*row.get("warnings", ()), *unpriced_text(counted.unpriced))
    warnings += left_out(fields, model_type)
    return replace(network, warnings=warnings)
