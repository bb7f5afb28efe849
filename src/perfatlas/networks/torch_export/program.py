"""Operators of a program of `torch.export`, from the JSON in its archive: ATen calls as nodes.

Calls stay as eager mode runs them: attention, norms and activations are one operator each. Neither
PyTorch nor code of the archive runs, and its weights are not read.
"""

from __future__ import annotations

import ast
import json
import lzma
import math
import re
import zipfile
import zlib
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from perfatlas.networks.graphs import imports
from perfatlas.networks.graphs.nodes import BATCH, ROWS
from perfatlas.quantities import InvalidSpecError, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from perfatlas.networks.graphs.nodes import Node

MAX_JSON_BYTES: Final = 1 << 28  # bytes of the description of a program
MAX_JSON_VALUES: Final = 6_000_000  # values in it: some 1.4 GB of memory as dictionaries
MATRIX: Final = 2  # dimensions of a weight that all items share
_COPIES: Final = ("clone", "contiguous", "to", "_to_copy")
_EMBEDDINGS: Final = ("embedding", "embedding_bag", "_embedding_bag_forward_only")
_ATTENTIONS: Final = (
    *("scaled_dot_product_attention", "_scaled_dot_product_flash_attention"),
    *("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_efficient_attention"),
)
_CONVOLUTIONS: Final = (
    *("conv1d", "conv2d", "conv3d", "convolution"),
    *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
)
# Inputs of products: the activations, and the second factor.
_FACTORS: Final = {
    **dict.fromkeys(("linear",), ("input", "weight")),
    **dict.fromkeys(("addmm",), ("mat1", "mat2")),
    **dict.fromkeys(("baddbmm",), ("batch1", "batch2")),
    **dict.fromkeys(("mm", "bmm", "_int_mm", "_scaled_mm"), ("self", "mat2")),
    "matmul": ("self", "other"),
    # Rows sorted by group, such as tokens by expert, with the matrix of each group
    "grouped_mm_fallback": ("input", "weight"),
    **dict.fromkeys(("_grouped_mm", "grouped_mm"), ("self", "mat2")),
}
# Bytes of floating-point types, by their number in the schema of torch.export (ScalarType).
_FLOAT_BYTES: Final = {6: 2, 7: 4, 8: 8, 9: 4, 10: 8, 11: 16, 13: 2}
# Widths of types of 8 bits, by their number.
_NARROW: Final = {
    **dict.fromkeys((1, 2), "int8"),
    **dict.fromkeys((29, 30, 31, 32), "fp8"),
}
_DAMAGED: Final = (EOFError, OSError, RuntimeError, ValueError)
STORED: Final = "data/weights/model_weights_config.json"  # where parameters are stored, by name
_NO_PROGRAM: Final = "models/model.json is not a program of torch.export"
_Json = TypeVar("_Json", dict[str, Any], list[Any])
_JSON: Final = {dict: "object", list: "array"}
_MULTIPLE: Final = re.compile(r"Mul\(Integer\((\d+)\), Symbol\('\w+'[^()]*\)\)$")
_SPECIALIZED: Final = 2
UNBOUNDED_SIZE: Final = 1 << 31  # end of a range without a limit
_SYMBOL: Final = re.compile(r"\b[su]\d+\b")


def read_archive(path: Path) -> dict[str, Any]:
    """Return the description of the program in an archive of `torch.export.save`.

    Raises:
        InvalidSpecError: It is no such archive.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = [
                zip_info
                for zip_info in archive.infolist()
                if zip_info.filename.endswith("models/model.json")
            ]
            if not members or members[0].file_size > MAX_JSON_BYTES:
                raise InvalidSpecError(
                    f"{path} holds no models/model.json below {MAX_JSON_BYTES:,} bytes; write it"
                    " with torch.export.save of PyTorch 2.6 or later"
                )
            program = json.loads(_limited(archive, members[0].filename, path))
            stored = [name for name in archive.namelist() if name.endswith(f"/{STORED}")]
            if isinstance(program, dict) and stored:  # PyTorch 2.9 and later
                program[STORED] = json.loads(_limited(archive, stored[0], path))
    except (*_DAMAGED, zipfile.BadZipFile, zlib.error, lzma.LZMAError) as problem:
        raise InvalidSpecError(
            f"{path} cannot be read as an archive of torch.export.save: {problem}"
        ) from problem
    if not isinstance(program, dict):
        raise InvalidSpecError(f"{path}: models/model.json is not an object")
    return program


def _limited(archive: zipfile.ZipFile, name: str, path: Path) -> bytes:
    """Return a file of an archive that has no more values than memory holds."""
    if archive.getinfo(name).file_size > MAX_JSON_BYTES:
        raise InvalidSpecError(f"{path}: {name} is larger than {MAX_JSON_BYTES:,} bytes")
    text = archive.read(name)
    if (values := sum(map(text.count, (b",", b"{", b"[")))) > MAX_JSON_VALUES:
        raise InvalidSpecError(
            f"{path}: {name.partition('/')[2]} has {values:,} values, more than"
            f" {MAX_JSON_VALUES:,}; export parts of the program"
        )
    return text


def nodes_of_program(
    program: Mapping[str, Any], names: Mapping[str, str] | None = None
) -> imports.Imported:
    """Return the operators of a program.

    Args:
        program: As `read_archive` returns it.
        names: Expressions of sizes by symbol. Other symbols: the first size of the first input is
            `batch`, others are named by their input and dimension.

    Raises:
        InvalidSpecError: The program is incomplete.

    Limits: Elements read and written are as wide as the parameters: wider tensors, as those of
        norms in 32 bits, count as several. Weights of norms and biases are not counted as bytes.
        A size that depends on data is not known: its symbol is a size of the network.
    """
    graph = _part(program, "graph_module.graph", dict)
    reader = _Program(
        values=_part(graph, "tensor_values", dict),
        ranges=program.get("range_constraints") or {},
    )
    calls = _part(graph, "nodes", list)
    where = STORED
    try:
        reader.read_storage(program.get(STORED, {"config": {}})["config"])
        where = "graph_module.signature"
        reader.read_signature(_part(program, where, dict))
        reader.name_sizes(dict(names or {}))
        for index, call in enumerate(calls):
            where = f"graph.nodes[{index}]"
            for name in _tensors(call["inputs"]):
                reader.readers[name] += 1
        for position, call in enumerate(calls):
            where = f"graph.nodes[{position}]"
            reader.add(call)
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as problem:
        wrong = f"lacks {problem}" if isinstance(problem, KeyError) else "has values of other types"
        raise InvalidSpecError(f"{_NO_PROGRAM}: {where} {wrong}") from problem
    number_format, nodes = imports.with_formats(reader.nodes)
    read = {reader.stored.get(name) for name in reader.readers}
    unread = {name: size for name, size in reader.parameters.items() if name not in read}
    most = max(unread, key=lambda name: unread[name], default="")
    return imports.Imported(
        nodes=nodes,
        format=number_format,
        parameters=sum(reader.parameters.values()),
        sizes=reader.sizes,
        items=reader.items,
        unknown=dict(reader.unknown),
        limits=reader.limits,
        notes=(f"no operator reads {sum(unread.values()):,} parameters, such as {most}",)
        if unread
        else (),
    )


def _part(holder: object, path: str, kind: type[_Json]) -> _Json:
    """Return the part of a program at keys that dots join."""
    for key in path.split("."):
        if not isinstance(holder, dict) or key not in holder:
            raise InvalidSpecError(f"{_NO_PROGRAM}: it has no key {key!r} of {path}")
        holder = holder[key]
    if not isinstance(holder, kind):
        raise InvalidSpecError(f"{_NO_PROGRAM}: {path} is no {_JSON[kind]}")
    return holder


def _tensors(inputs: list[dict[str, Any]]) -> list[str]:
    """Return the names of the tensors among the inputs of a call."""
    names = []
    for row in inputs:
        ((kind, value),) = row["arg"].items()
        if kind == "as_tensor":
            names.append(value["name"])
        elif kind == "as_tensors":
            names += [tensor["name"] for tensor in value]
        elif kind == "as_optional_tensors":
            names += [tensor["as_tensor"]["name"] for tensor in value if "as_tensor" in tensor]
    return names


@dataclass
class _Program:
    """A program while it is read.

    Attributes:
        values: Sizes of tensors by name, as the program has them.
        ranges: Least and most of symbols, by symbol.
        limits: Values that sizes may have, by name.
        tied: First parameter with the same values, by parameter.
        parameters: Elements of parameters, those with the same values once.
        stored: Key of `parameters` by tensor.
        weights: Tensors that are parameters, buffers or constants, and views of these.
        narrow: Width of weights that are stored in 8 bits, by name.
        dequantized: Activations that were in 8 bits.
        readers: How many calls read a tensor.
        kinds: Kind of the operator that wrote a tensor, through views.
        items: Items of the inputs, 0 where their number is a symbol.
        element_bytes: Bytes of an element of the narrowest parameter.
        unknown: How often calls run that are not known, by name.
    """

    values: Mapping[str, Any]
    ranges: Mapping[str, Any]
    tied: dict[str, str] = field(default_factory=dict)
    limits: dict[str, dict[str, int]] = field(default_factory=dict)
    weights: set[str] = field(default_factory=set)
    narrow: dict[str, str] = field(default_factory=dict)
    dequantized: set[str] = field(default_factory=set)
    readers: Counter[str] = field(default_factory=Counter)
    kinds: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    inputs: list[str] = field(default_factory=list)
    parameters: dict[str, int] = field(default_factory=dict)
    stored: dict[str, str] = field(default_factory=dict)
    items: int = 0
    element_bytes: int = 16

    def read_storage(self, rows: Mapping[str, Any]) -> None:
        """Take which parameters are stored once, as those of an embedding and a tied head."""
        first: dict[str, str] = {}
        for name, row in rows.items():
            meta = row.get("tensor_meta", {})
            place = json.dumps([row["path_name"], meta.get("sizes"), meta.get("storage_offset")])
            self.tied[name] = first.setdefault(place, name)

    def read_signature(self, signature: Mapping[str, Any]) -> None:
        """Take the weights and the inputs of the program."""
        for spec in signature["input_specs"]:
            ((kind, value),) = spec.items()
            if kind == "user_input":
                name = value["arg"].get("as_tensor", {}).get("name")
                self.inputs += [name] if name else []
            elif "arg" in value:
                name = value["arg"]["name"]
                self.weights.add(name)
                narrow = _NARROW.get(self.values[name].get("dtype", 0))
                self.narrow |= {name: narrow} if narrow else {}
                if kind == "parameter" or narrow:  # quantized weights may be buffers
                    sizes = self.values[name]["sizes"]
                    key = str(value.get("parameter_name", name))
                    self.stored[name] = key = self.tied.get(key, key)
                    self.parameters[key] = math.prod(int(size["as_int"]) for size in sizes)
                if kind == "parameter":
                    self.element_bytes = min(self.element_bytes, self._bytes(name))

    def name_sizes(self, names: dict[str, str]) -> None:
        """Name the symbols of the inputs' sizes."""
        self.names = names
        for name in self.inputs:
            for index, size in enumerate(self.values[name]["sizes"]):
                for symbol in _symbols(size):
                    if symbol in self.names:
                        continue
                    first = name == self.inputs[0] and index == 0
                    self.names[symbol] = BATCH if first else f"{name}_{index}"
                    if not first:
                        self._name_size(f"{name}_{index}", symbol, size["as_expr"])
        if self.inputs and BATCH not in self.names.values():
            sizes = self.values[self.inputs[0]]["sizes"]
            self.items = int(sizes[0].get("as_int", 1)) if sizes else 1

    def _name_size(self, name: str, symbol: str, size: Mapping[str, Any]) -> None:
        """Name a size of an input, a symbol or a multiple of one, and take its limits."""
        self.sizes[name] = int((size.get("hint") or {}).get("as_int", 1))
        match = _MULTIPLE.match(str(size["expr_str"]))
        times = int(match[1]) if match else 1
        ends = self.ranges.get(symbol) or {}
        least, most = (times * int(ends.get(end) or 0) for end in ("min_val", "max_val"))
        limits = {
            "least": least if least > _SPECIALIZED * times else 0,  # 0 and 1 are always left out
            "most": most if most < UNBOUNDED_SIZE else 0,
            "multiple_of": times if times > 1 else 0,
        }
        if match:
            self.names[symbol] = f"({name} / {times})"
        if any(limits.values()):
            self.limits[name] = {key: value for key, value in limits.items() if value}

    def tensor(self, name: str) -> imports.Tensor:
        """Return the sizes of a tensor as numbers or expressions."""
        return imports.Tensor(tuple(self._size(size) for size in self.values[name]["sizes"]))

    def _bytes(self, name: str) -> int:
        return _FLOAT_BYTES.get(self.values[name].get("dtype", 0), 0) or self.element_bytes

    def _moved(self, name: str) -> imports.Tensor:
        """Return a tensor whose elements are as wide as those of the parameters."""
        wider = self._bytes(name) // self.element_bytes
        sizes = self.tensor(name).sizes
        return imports.Tensor((wider, *sizes) if wider > 1 else sizes)

    def _size(self, size: Mapping[str, Any]) -> int | str:
        if "as_int" in size:
            return int(size["as_int"])
        for symbol in _symbols(size):
            if symbol not in self.names:  # depends on data
                self.names[symbol] = symbol
                self.sizes[symbol] = int((size["as_expr"].get("hint") or {}).get("as_int", 1))
        return expression_of(str(size["as_expr"]["expr_str"]), self.names)

    def add(self, call: Mapping[str, Any]) -> None:
        """Add the operator of a call, if it runs a kernel."""
        _, space, rest = str(call["target"]).rpartition("torch.ops.")
        name = rest.split(".")[1 if space else 0]
        arguments = {
            argument["name"]: next(iter(argument["arg"].values())) for argument in call["inputs"]
        }
        read = _tensors(call["inputs"])
        written = _tensors([{"arg": output} for output in call["outputs"]])
        if not written or written[0] not in self.values:
            return
        kinds = imports.kinds_of_operators("torch_export")
        if name not in kinds and name.strip("_") in kinds:
            name = name.strip("_")  # in place, or an operator of Python
        if name == "einsum" and len(read) == 1:
            name = "permute"
        view = kinds.get(name) == imports.VIEW or (name in _COPIES and self._is_view(read, written))
        if view or kinds.get(name) == imports.FREE or all(key in self.weights for key in read):
            # what is computed of weights alone is folded into them
            if read and all(key in self.weights for key in read):
                self.weights.update(written)
                widths = [self.narrow.get(key) for key in read]
                widths += [_NARROW.get(self.values[key].get("dtype", 0)) for key in written]
                self.narrow |= dict.fromkeys(written, next(filter(None, widths), ""))
            if view and read and self.readers[read[0]] == 1:
                self.kinds |= dict.fromkeys(written, self.kinds.get(read[0], ""))
            return
        read = read[1:] if name == "copy" else read  # its target is only written
        if name.startswith("dequantize"):
            self.dequantized.update(written)
        node = self._node(name, arguments, read, written)
        self.nodes.append(node)
        if name in _CONVOLUTIONS and isinstance(arguments.get("bias"), dict):
            self.nodes.append(imports.added_bias(self.tensor(written[0]), node.kind))
        self.kinds |= dict.fromkeys(written, node.kind)

    def _is_view(self, read: list[str], written: list[str]) -> bool:
        """Return whether a copy keeps the strides and the type of its input.

        Kernels of attention write heads beside each other, as the next projection reads them.
        """
        if not read or self.kinds.get(read[0]) == "attention":
            return bool(read)
        first, second = self.values[read[0]], self.values[written[0]]
        return bool(first["strides"] == second["strides"] and first["dtype"] == second["dtype"])

    def _node(
        self, name: str, arguments: Mapping[str, Any], read: list[str], written: list[str]
    ) -> Node:
        if name in _CONVOLUTIONS:
            return self._convolution(name, arguments, written[0])
        if name in _FACTORS:
            first, second = (str(arguments[key]["name"]) for key in _FACTORS[name])
            return self._product(first, second, written[0], name)
        if name in _ATTENTIONS:
            return self._attention(arguments)
        if name in _EMBEDDINGS:
            table, index = (self.tensor(arguments[key]["name"]) for key in ("weight", "indices"))
            sizes = {"rows": index.elements(), "width": table.sizes[-1]}
            if name == "embedding":
                return imports.node(name, sizes)
            sizes["samples"] = self.tensor(written[0]).sizes[0]
            once = self.readers[arguments["weight"]["name"]] == 1  # others would be counted twice
            sizes |= {"table_rows": table.sizes[0]} if once else {}
            return imports.node("embedding_bag", sizes)
        moved = [self._moved(key) for key in read if key not in self.weights]
        kinds = imports.kinds_of_operators("torch_export")
        kind = kinds.get(name, "elementwise")
        if kind == "add" and len(moved) < 2:
            kind = "elementwise"
        operands = [self.tensor(text) for text in read]
        if name in _COPIES:
            source, result = (self.values[key]["strides"] for key in (read[0], written[0]))
            kind = kind if source == result else imports.STRIDED
        elif name in kinds and imports.is_strided(kind, operands, self.tensor(written[0])):
            kind = imports.STRIDED
        if name not in kinds:
            self.unknown[name] += 1
        producers = [self.kinds.get(key, "") for key in read if self.readers[key] == 1]
        sizes = {"read": imports.Tensor.total(moved), "write": self._moved(written[0]).elements()}
        if kind in ROWS and "batch_norm" not in name:
            start = arguments.get("dim", -len(arguments.get("normalized_shape", ("last",))))
            groups = int(arguments.get("num_groups", arguments.get("group", 0)))
            sizes["row"] = imports.row_elements(self.tensor(read[0]), kind, int(start), groups)
        node = imports.node(kind, sizes, after=imports.fused_into(producers))
        return replace(node, by_output=imports.is_by_output(kind, name))

    def _convolution(self, name: str, arguments: Mapping[str, Any], written: str) -> Node:
        image, weight = (self.tensor(arguments[key]["name"]) for key in ("input", "weight"))
        out, groups = self.tensor(written), int(arguments.get("groups", 1))
        transposed = "transpose" in name or bool(arguments.get("transposed"))
        node = imports.convolution(image, weight, out, groups, transposed=transposed)
        if node.kind != "conv":
            return node
        first, second = (arguments[key]["name"] for key in ("input", "weight"))
        return replace(node, format=self._format(first, second))

    def _format(self, activations: str, weights: str) -> str:
        """Return the format of a product by the width that its weights are stored in."""
        narrow = self.values[activations].get("dtype", 0) in _NARROW
        quantized = narrow or activations in self.dequantized
        return imports.FORMATS[self.narrow.get(weights, ""), quantized]

    def _product(self, first: str, second: str, written: str, name: str) -> Node:
        left, right = self.tensor(first), self.tensor(second)
        k = right.sizes[-1] if name == "linear" or len(right.sizes) == 1 else right.sizes[-2]
        n: int | str = 1 if len(right.sizes) == 1 else right.sizes[0 if name == "linear" else -1]
        if second in self.weights and len(right.sizes) <= MATRIX:
            sizes = {"m": imports.Tensor(left.sizes[:-1]).elements(), "n": n, "k": k}
            return replace(imports.node("linear", sizes), format=self._format(first, second))
        rows = left.sizes[-2] if len(left.sizes) > 1 else 1
        if "grouped" in name:
            each = f"max(1, ({rows}) / {right.sizes[0]})"
            sizes = {"m": each, "n": n, "k": k, "groups": right.sizes[0]}
            return replace(imports.node("linear", sizes), format=self._format(first, second))
        groups = imports.Tensor(self.tensor(written).sizes[:-2]).elements()
        return imports.node("matmul", {"m": rows, "n": n, "k": k, "groups": groups})

    def _attention(self, arguments: Mapping[str, Any]) -> Node:
        query, key, value = (
            self.tensor(arguments[name]["name"]) for name in ("query", "key", "value")
        )
        *batch, heads, q_len, head_dim = query.sizes
        if value.sizes[-1] != head_dim:  # of latent attention: FLOP and bytes are those of the mean
            head_dim = f"({head_dim} + {value.sizes[-1]}) / 2"
        sizes = {
            "sequences": imports.Tensor(tuple(batch)).elements(),
            "q_len": q_len,
            "kv_len": key.sizes[-2],
            "num_heads": heads,
            "num_kv_heads": key.sizes[-3],
            "head_dim": head_dim,
        }
        return imports.node("attention", sizes, causal=bool(arguments.get("is_causal", False)))


def _symbols(size: Mapping[str, Any]) -> list[str]:
    return _SYMBOL.findall(str(size.get("as_expr", {}).get("expr_str", "")))


_JOINED: Final = {
    "Add": " + ",
    "Mul": " * ",
    "Pow": " ** ",
    "FloorDiv": " // ",
    **dict.fromkeys(("CleanDiv", "IntTrueDiv"), " / "),
    **dict.fromkeys(("Mod", "PythonMod"), " % "),
}


def expression_of(text: str, names: Mapping[str, str]) -> str:
    """Return a size as an expression from the constructors in which SymPy represents it.

    Args:
        text: Such as "Mul(Integer(2), Symbol('s0'))"; other texts are returned with other names.

    Example:
        >>> from perfatlas.networks.torch_export.program import expression_of
        >>> expression_of("Add(Integer(1), FloorDiv(Symbol('s0'), Integer(2)))", {"s0": "batch"})
        '1 + (batch // 2)'
    """
    if "(" not in text or not text[0].isupper():
        return _SYMBOL.sub(lambda match: names.get(match[0], match[0]), text)
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise InvalidSpecError(f"size {repr_for_error(text)} cannot be read") from problem
    return _arithmetic(tree, names)


def _arithmetic(part: ast.expr, names: Mapping[str, str]) -> str:
    match part:
        case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(symbol))]):
            return names.get(symbol, symbol)
        case ast.Call(func=ast.Name(id="Integer"), args=[ast.Constant(value=int(number))]):
            return str(number)
        case ast.Call(
            func=ast.Name(id="Integer"), args=[ast.UnaryOp(operand=ast.Constant(value=int(number)))]
        ):
            return f"-{number}"
        case ast.Call(func=ast.Name(id=("Max" | "Min") as name), args=parts):
            return (
                f"{name.lower()}({', '.join(_arithmetic(argument, names) for argument in parts)})"
            )
        case ast.Call(func=ast.Name(id=name), args=parts) if name in _JOINED:
            inner = (_arithmetic(argument, names) for argument in parts)
            simple = (
                text if text.isalnum() or text.isidentifier() else f"({text})" for text in inner
            )
            return _JOINED[name].join(simple).replace("+ (-1)", "- 1")
    raise InvalidSpecError(f"size {ast.unparse(part)!r} is not arithmetic of + * ** / // % max min")
