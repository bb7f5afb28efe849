"""Operators of a module of StableHLO as nodes; a free number of items is a symbol."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from perfatlas.networks.graphs import imports
from perfatlas.networks.graphs.attentions import Chains
from perfatlas.networks.graphs.nodes import BATCH, GROUP_NORM
from perfatlas.networks.stablehlo.flattening import FRAMEWORK, program_of
from perfatlas.networks.stablehlo.module import read_modules
from perfatlas.networks.stablehlo.regions import fixed_by, is_pointwise, steps_of, weights_of
from perfatlas.quantities import Expression, InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from jaxlib.mlir import ir

    from perfatlas.networks.graphs.nodes import Node
    from perfatlas.networks.stablehlo.flattening import Op, Program
    from perfatlas.networks.stablehlo.regions import Step

# Numbers of items at which a free one is read, primes that no other size is: three give a
# polynomial, the last one verifies it.
BATCHES: Final = (1009, 1013, 1019, 1031)
SCALE: Final = "scale"  # a region that adds, multiplies, divides or masks by weights alone
_SCALED: Final = (SCALE, "add", "elementwise", "select")
_LINEAR: Final = ("add", "divide", "multiply", "subtract")
_ROOTS: Final = ("rsqrt", "sqrt", "power")
_PARTLY: Final = ("dynamic_update_slice", "scatter")  # write a part of their first operand in place
_GATHERED: Final = ("gather", "dynamic_slice")
RELU: Final = "maximum"
_BY_OUTPUT: Final = (RELU, "logistic", "tanh")


def nodes_of_file(
    path: Path, batch: int | None = None, sizes: Mapping[str, int] | None = None
) -> imports.Imported:
    """Return the operators of a module of StableHLO.

    Args:
        batch: Items of a module without free sizes; None takes a run of it as an item.
        sizes: Values of free sizes other than the number of items, by name.

    Raises:
        InvalidSpecError: The file is no module of StableHLO, or a size is free.
        UnsupportedError: It has loops that end by data, or sizes that depend on data.
        MissingDependencyError: The package jaxlib is not installed.

    Limits: Masks that are constants are no causal attention. Tensors of other widths than weights
        count as those of weights. Transposes and conversions are part of the kernels around them.
    """

    def read(module: ir.Module, free: frozenset[int]) -> tuple[_Reader, set[str]]:
        program = program_of(module, free, path)
        weights = weights_of(program)
        origins = fixed_by(program, weights)
        narrow = {
            name: program.arguments[weight].narrow
            for name, few in origins.items()
            for weight in few
            if program.arguments[weight].narrow
        }
        reader = _Reader(program=program, fixed=frozenset(origins), narrow=narrow)
        reader.read()
        return reader, weights

    try:
        runs = read_modules(path, BATCHES, sizes or {}, read)
    except (ValueError, LookupError, AttributeError, TypeError) as problem:
        raise InvalidSpecError(f"{path} has operations in other forms: {problem}") from problem
    reader, weights = runs[0]
    fixed = [reader.program.arguments[name] for name in weights]
    # integers: quantised
    parameters = [tensor for tensor in fixed if tensor.is_float or len(tensor.sizes) > 1]
    notes = [
        f"of the branches of stablehlo.{kind} ({count} times), the one with most work runs"
        for kind, count in reader.program.branches.items()
    ]
    nodes, items = tuple(reader.nodes), 0
    if len(runs) > 1:
        nodes = _of_batch([reader.nodes for reader, _ in runs], path)
    elif batch is None:
        texts = [f"{node.count.text} * {BATCH}".removeprefix("1 * ") for node in nodes]
        counted = zip(nodes, map(Expression, texts), strict=True)
        nodes = tuple(replace(node, count=count) for node, count in counted)
        notes.append("an item is a run of the program, whose sizes are fixed")
    else:
        data = [tensor for name, tensor in reader.program.arguments.items() if name not in weights]
        items = next((tensor.sizes[0] for tensor in data if tensor.sizes), 1)
    number_format, nodes = imports.with_formats(nodes)
    return imports.Imported(
        nodes=nodes,
        format=number_format,
        parameters=sum(tensor.elements for tensor in parameters) + reader.program.constants,
        sizes={},
        items=items,
        unknown=dict(reader.unknown),
        notes=notes,
    )


def _of_batch(runs: Sequence[Sequence[Node]], path: Path) -> tuple[Node, ...]:
    """Return nodes of any number of items from those of `BATCHES`."""
    kinds = {tuple((node.label, tuple(node.sizes)) for node in nodes) for nodes in runs}
    if len(kinds) > 1:
        raise InvalidSpecError(f"{path} runs different operators for different numbers of items")
    nodes = []
    for several in zip(*runs, strict=True):
        sizes = {
            name: _polynomial([int(node.sizes[name].text) for node in several], path)
            for name in several[0].sizes
        }
        count = _polynomial([int(node.count.text) for node in several], path)
        nodes.append(replace(several[0], sizes=sizes, count=count))
    return tuple(nodes)


def _polynomial(values: Sequence[int], path: Path) -> Expression:
    """Return a size as a polynomial of the number of items, which it has at `BATCHES`."""
    if len(set(values)) == 1:
        return Expression(str(values[0]))
    first, *others = BATCHES[:3]
    slopes = [
        Fraction(value - values[0], b - first) for b, value in zip(others, values[1:], strict=False)
    ]
    square = (slopes[1] - slopes[0]) / (others[1] - others[0])
    linear = slopes[0] - square * (first + others[0])
    constant = values[0] - (square * first + linear) * first
    last = BATCHES[3]
    whole = all(factor.denominator == 1 for factor in (square, linear, constant))
    if not whole or (square * last + linear) * last + constant != values[3]:
        raise InvalidSpecError(
            f"{path} has sizes of {', '.join(map(str, values))} elements for"
            f" {', '.join(map(str, BATCHES))} items, which are not a polynomial of degree 2"
        )
    texts = []
    for factor, power in ((square, f"{BATCH} ** 2"), (linear, BATCH), (constant, "")):
        if factor:
            sign = "-" if factor < 0 else "+"
            number = "" if abs(factor) == 1 and power else str(abs(factor))
            texts += [sign, " * ".join(filter(None, (number, power)))]
    return Expression(" ".join(texts).removeprefix("+ "))


@dataclass
class _Reader:
    """A program while its nodes are made.

    Attributes:
        fixed: Tensors that follow from weights and constants.
        narrow: Width of weights that are stored in less than 16 bits, by name.
        kinds: Kind of the operator that wrote a tensor.
        skipped: Tensors inside of attention.
    """

    program: Program
    fixed: frozenset[str]
    narrow: Mapping[str, str]
    nodes: list[Node] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    kinds: dict[str, str] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)
    users: defaultdict[str, list[Step]] = field(default_factory=lambda: defaultdict(list))

    def read(self) -> None:
        """Add all operators."""
        steps = [
            replace(step, op_type=self._type(step)) for step in steps_of(self.program, self.fixed)
        ]
        for step in steps:
            for name in step.input:
                self.users[name].append(step)
        chains = Chains(
            writers={name: step for step in steps for name in step.output},
            users=self.users,
            weights=self.fixed,
            products=("dot_general",),
            scaled=_SCALED,
        )
        attentions = {}
        for step in steps:
            chain = chains.attention_around(step) if step.op_type == "softmax" else None
            attention = chain and self._attention(step, chain[0], chain[1], chains)
            if chain and attention:
                self.skipped |= chain[2]
                attentions[chain[1].output] = attention
        for step in steps:
            if step.output in attentions:
                self._put([attentions[step.output]], step)
            elif not self.skipped.intersection(step.output):
                self._put(self._nodes(step), step)

    def _put(self, nodes: list[Node], step: Step) -> None:
        """Add the nodes of a kernel, as often as it runs; without nodes it is a view."""
        count = Expression(str(step.last.times))
        self.nodes += [replace(node, count=count) for node in nodes]
        source = next((tensor for tensor in step.input if tensor not in self.fixed), "")
        through = self.kinds.get(source, "") if self._is_alone(source) else ""
        self.kinds |= dict.fromkeys(step.output, nodes[-1].kind if nodes else through)

    def _is_alone(self, name: str) -> bool:
        return len(self.users[name]) == 1

    def _type(self, step: Step) -> str:
        """Return what a region is."""
        if not step.root:
            return step.op_type
        kinds = [op.kind for op in step.ops]
        if "reduce" in kinds:
            smaller = step.last.written[0].elements < max(self._root_elements(step))
            inside = "norm" if any(kind in _ROOTS for kind in kinds) else "softmax"
            plain = inside == "softmax" and "exponential" not in kinds
            return "reduce" if smaller else "elementwise" if plain else inside
        if all(op.kind in (*_LINEAR, "select") and self._by_weight(op) for op in step.ops):
            return SCALE
        relu = kinds == [RELU] and self._by_weight(step.last)
        return "activation" if len(kinds) > 1 or relu else step.last.kind

    def _root_elements(self, step: Step) -> list[int]:
        return [
            operand.elements for op in step.ops for operand in op.read if operand.name == step.root
        ]

    def _by_weight(self, op: Op) -> bool:
        """Return whether all operands of an operator but one are fixed."""
        return sum(operand.name not in self.fixed for operand in op.read) == 1 < len(op.read)

    def _nodes(self, step: Step) -> list[Node]:
        op = step.last
        counts = not any(operand.sizes for operand in (*op.read, *op.written))
        counts = counts or not any(operand.elements for operand in op.written)
        if counts or (is_pointwise(op) and not op.written[0].is_float):
            return []  # counters, indices and masks, which their readers compute
        if op.kind == "dot_general":
            return [self._product(op)]
        if op.kind == "convolution":
            node = _convolution(op.details)
            return [replace(node, format=self._format(op)) if node.kind == "conv" else node]
        return self._region(step) if step.root else [self._moving(op)]

    def _product(self, op: Op) -> Node:
        """Return a product, by a weight or of activations."""
        batch, rows, columns = (math.prod(op.details[key]) for key in ("batch", "rows", "columns"))
        fixed = [operand.name in self.fixed for operand in op.read]
        if any(fixed) and not op.details["batch"]:
            m, n = (rows, columns) if fixed[1] else (columns, rows)
            node = imports.node("linear", {"m": m, "n": n, "k": op.details["k"]})
            return replace(node, format=self._format(op))
        return imports.node(
            "matmul", {"m": rows, "n": columns, "k": op.details["k"], "groups": batch}
        )

    def _format(self, op: Op) -> str:
        """Return the format of a product by the width that its weights are stored in."""
        first, second = sorted(op.read[:2], key=lambda operand: operand.name in self.fixed)
        return imports.FORMATS[self.narrow.get(second.name, ""), bool(first.narrow)]

    def _moving(self, op: Op) -> Node:
        """Return an operator of its own that is limited by memory bandwidth."""
        out = sum(operand.elements for operand in op.written)
        if op.kind == "gather" and op.read[0].name in self.fixed:
            rows = max(1, op.read[1].elements // max(1, op.details["index"]))
            return imports.node("embedding", {"rows": rows, "width": max(1, out // rows)})
        kinds = imports.kinds_of_operators(FRAMEWORK)
        if op.kind not in kinds:
            self.unknown[op.kind] += op.times
        kind = kinds.get(op.kind, "elementwise")
        moved = [operand for operand in op.read if operand.name not in self.fixed]
        read = sum({operand.name: operand.elements for operand in moved}.values())
        if op.kind in _PARTLY:
            part = op.read[1 if op.kind == "dynamic_update_slice" else 2].elements
            read, out = part, part
        elif op.kind in _GATHERED:
            read = out
        if kind == "add" and len({operand.name for operand in moved}) < 2:
            kind = "elementwise"
        seen = [imports.Tensor((operand.elements,)) for operand in op.read if operand.elements > 1]
        if is_pointwise(op) and imports.is_strided(kind, seen, imports.Tensor((out,))):
            kind = imports.STRIDED
        names = dict.fromkeys(operand.name for operand in moved)
        producers = [
            self.kinds[name] for name in names if self.kinds.get(name) and self._is_alone(name)
        ]
        return imports.node(kind, {"read": read, "write": out}, after=imports.fused_into(producers))

    def _region(self, step: Step) -> list[Node]:
        """Return the kernel of a region, after the bias that its first operator may add."""
        out, ops = step.last.written[0], list(step.ops)
        elements = max(self._root_elements(step))
        source = self.kinds.get(step.root, "") if self._is_alone(step.root) else ""
        before = []
        first = self._scale_of_channels(step)
        vectors = sum(_by_vector(op, self.fixed) for op in first)
        if source == "linear" and _adds_bias(ops[0], step.root, self.fixed):
            ops = ops[1:]
        elif vectors > 1 and (source.endswith("conv") or ops[0].kind == "subtract"):
            ops, moved = ops[len(first) :], dict.fromkeys(("read", "write"), elements)
            before, source = [imports.node("norm", moved, after=source)], "norm"
        elif source.endswith("conv") and _adds_bias(ops[0], step.root, self.fixed):
            ops = ops[1:]
            before, source = (
                [imports.added_bias(imports.Tensor((elements,)), source)],
                imports.STRIDED,
            )
        if not ops:
            return before
        kind = step.op_type
        sizes: dict[str, imports.Size] = {"read": elements, "write": out.elements}
        if kind == SCALE:
            kind = (
                imports.STRIDED if any(_by_vector(op, self.fixed) for op in ops) else "elementwise"
            )
        elif kind in ("softmax", "norm"):
            row, kind = _row(step, kind)
            sizes |= {"row": row} if row else {}
        elif kind not in ("activation", "reduce"):
            kind = imports.kinds_of_operators(FRAMEWORK).get(kind, "elementwise")
            kind = "elementwise" if kind == "add" else kind
        by_output = kind == "activation" and len(ops) == 1 and ops[0].kind in _BY_OUTPUT
        node = imports.node(kind, sizes, after=source)
        return [*before, replace(node, by_output=by_output)]

    def _scale_of_channels(self, step: Step) -> list[Op]:
        """Return the first operators of a region that scale or shift by weights, one after another.

        With several weights per channel, they are a batch norm.
        """
        scales: list[Op] = []
        for op in step.ops:
            read = scales[-1].written[0].name if scales else step.root
            follows = any(operand.name == read for operand in op.read)
            if op.kind not in _LINEAR or not self._by_weight(op) or not follows:
                break
            scales.append(op)
        rest = step.ops[len(scales) :]
        inside = {step.root, *(op.written[0].name for op in scales[:-1])}
        return [] if any(operand.name in inside for op in rest for operand in op.read) else scales

    def _attention(
        self, softmax: Step, scores: Step, last: Step, chains: Chains[Step]
    ) -> Node | None:
        """Return the attention around a softmax; None where its sizes are not those of one.

        The keys are what a row of the softmax runs over. Queries of one group of heads stand beside
        each other in the rows of the first product.
        """
        before, after = scores.last.details, last.last.details
        keys = _row(softmax, "softmax")[0]
        batch, outer = list(before["batch"]), [before["rows"], before["columns"]]
        if not batch or after["k"] != keys or [keys] not in outer:
            return None
        if any(operand.name in self.fixed for operand in (*scores.last.read, *last.last.read)):
            return None
        query = outer[0] if outer[1] == [keys] else outer[1]
        values = [math.prod(after[key]) for key in ("rows", "columns")]
        q_len, shared = (query or [1])[0], math.prod(query[1:])
        if before["k"] * math.prod(query) != values[0] * values[1]:
            return None
        for name in scores.input:
            self.skipped |= self._scaling(name, chains)
        sequences, heads = (batch[0], math.prod(batch[1:])) if len(batch) > 1 else (1, batch[0])
        sizes: dict[str, imports.Size] = {
            "sequences": sequences,
            "q_len": q_len,
            "kv_len": keys,
            "num_heads": heads * shared,
            "num_kv_heads": heads,
            "head_dim": before["k"],
        }
        return imports.node("attention", sizes)

    def _scaling(self, name: str, chains: Chains[Step]) -> set[str]:
        """Return a tensor that is a projection scaled by a number, which attention does itself."""
        writer = chains.writers.get(name)
        if writer is None or writer.op_type != SCALE or not chains.only_reader(name):
            return set()
        biased = _adds_bias(writer.ops[0], writer.root, self.fixed)
        rest = writer.ops[1:] if biased else writer.ops
        return set() if any(_by_vector(op, self.fixed) for op in rest) else {name}


def _convolution(details: Mapping[str, Any]) -> Node:
    image, weight, out = (imports.Tensor(details[name]) for name in ("image", "weight", "out"))
    groups, transposed = details["groups"], details["transposed"]
    if transposed:
        weight = imports.Tensor((image.sizes[1], int(weight.sizes[0]) // groups, *weight.sizes[2:]))
    return imports.convolution(image, weight, out, groups, transposed=transposed)


def _adds_bias(op: Op, root: str, fixed: frozenset[str]) -> bool:
    """Return whether an operator adds a weight per channel to what a product writes."""
    return (
        op.kind == "add"
        and _by_vector(op, fixed)
        and any(operand.name == root for operand in op.read)
    )


def _by_vector(op: Op, fixed: frozenset[str]) -> bool:
    """Return whether an operator combines with a weight per channel."""
    return any(operand.name in fixed and operand.elements > 1 for operand in op.read)


def _row(step: Step, kind: str) -> tuple[imports.Size, str]:
    """Return the elements of a row of a region, 0 for channels over all items, and its kind."""
    first = next(op for op in step.ops if op.kind == "reduce")
    sizes, dimensions = first.read[0].sizes, sorted(first.details["dimensions"])
    row = math.prod(sizes[index] for index in dimensions)
    if kind == "softmax":
        return row, kind
    if 0 in dimensions and len(dimensions) < len(sizes):
        return 0, kind
    trailing = dimensions == list(range(len(sizes) - len(dimensions), len(sizes)))
    return row, kind if trailing else GROUP_NORM
