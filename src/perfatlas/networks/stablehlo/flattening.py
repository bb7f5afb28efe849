"""Operators of a module of StableHLO in execution order: calls inlined, loops counted.

A view (reshape, transpose, broadcast, slice, conversion) has no operator: what reads it reads its
source, with the sizes of the view.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.networks.graphs.imports import FREE, VIEW, kinds_of_operators
from perfatlas.networks.stablehlo.module import COMPOSITE, functions_of
from perfatlas.quantities import InvalidSpecError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from jaxlib.mlir import ir

FRAMEWORK: Final = "stablehlo"
MAX_CALL_DEPTH: Final = 64
MAX_TENSORS: Final = 300_000
_PREFIXES: Final = ("stablehlo.", "chlo.", "func.")
# Widths of elements by how the name of their type begins.
_NARROW: Final = {
    **dict.fromkeys(("i8", "ui8"), "int8"),
    **dict.fromkeys(("i4", "ui4"), "int4"),
    "f8": "fp8",
    "f4": "fp4",
}
_BROADCASTS: Final = ("broadcast_in_dim", "broadcast")
_STEPS: Final = {"stablehlo.add": 1, "stablehlo.subtract": -1}
# Direction in which a loop counts, and whether its bound is the last value, by what it compares.
_ENDS: Final = {"LT": (1, 0), "LE": (1, 1), "GT": (-1, 0), "GE": (-1, 1)}


@dataclass(frozen=True, kw_only=True)
class Operand:
    """A tensor as an operator reads it."""

    name: str  # Of the tensor, without views
    sizes: tuple[int, ...]
    elements: int  # Elements in memory, fewer than those of its sizes where it is broadcast
    repeated: bool = False  # Whether it is broadcast
    is_float: bool = True
    narrow: str = ""  # Width of elements below 16 bits, as formats of products name them


@dataclass(frozen=True)
class Op:
    """An operator that runs a kernel, or is a part of one."""

    kind: str  # Its name without the dialect
    read: tuple[Operand, ...]
    written: tuple[Operand, ...]
    times: int  # How often it runs
    body: int  # The body of a loop in which it runs
    details: Mapping[str, Any]  # Sizes of a product or convolution, dimensions of a reduction

    @property
    def work(self) -> int:
        """Elements of what it reads and writes, and FLOP of products."""
        moved = sum(operand.elements for operand in (*self.read, *self.written))
        return self.times * (moved + 2 * self.written[0].elements * int(self.details.get("k", 0)))


@dataclass
class Program:
    """What a module runs.

    Attributes:
        functions: Functions of the module by name.
        arguments: Arguments of main by name.
        free: Names of arguments that have a free size.
        fixed: Tensors that are constants.
        constants: Elements of constants of floating-point numbers.
        integers: Values of constants that are one integer.
        carried: What the first and the next run of a body read, by the name of both.
        outputs: Tensors that main returns.
        branches: How often the larger branch of several was taken.
    """

    functions: dict[str, ir.Operation]
    ops: list[Op] = field(default_factory=list)
    arguments: dict[str, Operand] = field(default_factory=dict)
    free: set[str] = field(default_factory=set)
    fixed: set[str] = field(default_factory=set)
    constants: int = 0
    integers: dict[str, int] = field(default_factory=dict)
    carried: dict[str, tuple[str, str]] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    branches: Counter[str] = field(default_factory=Counter)
    tensors: int = 0
    bodies: int = 0

    def new(self, value: ir.Value) -> Operand:
        """Return a tensor for a value of the module."""
        from jaxlib.mlir import ir

        self._count()
        name = f"tensor {self.tensors}"
        if not isinstance(value.type, ir.RankedTensorType):
            return Operand(name=name, sizes=(), elements=0, is_float=False)  # tokens, tuples
        if not value.type.has_static_shape:
            raise UnsupportedError(
                f"a tensor of {value.type} has a size that depends on data; export it with sizes"
                " that are numbers or symbols"
            )
        sizes = tuple(int(size) for size in value.type.shape)
        element = value.type.element_type
        narrow = next(
            (width for begin, width in _NARROW.items() if str(element).startswith(begin)), ""
        )
        return Operand(
            name=name,
            sizes=sizes,
            elements=math.prod(sizes),
            is_float=isinstance(element, ir.FloatType),
            narrow=narrow,
        )

    def _count(self) -> None:
        self.tensors += 1
        if self.tensors > MAX_TENSORS:
            raise UnsupportedError(f"the module has more than {MAX_TENSORS:,} tensors and calls")

    def block(
        self, block: ir.Block, operands: dict[ir.Value, Operand], times: int, depth: int
    ) -> list[Operand]:
        """Add the operators of a block; return what it returns."""
        if depth > MAX_CALL_DEPTH:
            raise InvalidSpecError(f"functions call each other deeper than {MAX_CALL_DEPTH}")
        for op in block.operations:
            name = op.operation.name
            if name.endswith(".return"):
                return [operands[value] for value in op.operands]
            for prefix in _PREFIXES:
                name = name.removeprefix(prefix)
            results = self._results(op, name, operands, (times, depth))
            operands.update(zip(op.results, results, strict=True))
        return []

    def _results(
        self,
        op: ir.Operation,
        name: str,
        operands: dict[ir.Value, Operand],
        position: tuple[int, int],
    ) -> Sequence[Operand]:
        """Return the results of an operation, whose operators are added."""
        times, depth = position
        read = [operands[value] for value in op.operands]
        kinds = kinds_of_operators(FRAMEWORK)
        if name in ("call", "composite"):
            callee = str(op.attributes["callee" if name == "call" else "decomposition"].value)
            attributes = getattr(self.functions.get(callee), "attributes", {})
            attributes, key = (
                (op.attributes, "name") if name == "composite" else (attributes, COMPOSITE)
            )
            name = str(attributes[key].value).removeprefix("chlo.") if key in attributes else ""
            if name not in kinds:
                return self._called(callee, read, times, depth)
        if name == "while":
            return self._loop(op, operands, times, depth)
        if name in ("case", "if"):
            return self._branch(op, name, operands, times, depth)
        if name == "custom_call":
            name = f"custom_call {op.attributes['call_target_name'].value}"
        results = [self.new(value) for value in op.results]
        if name == "constant":
            self._constant(op, results[0])
        sliced = name == "dynamic_slice" and (
            read[0].name in self.arguments or read[0].name in self.fixed
        )
        if read and (kinds.get(name) == VIEW or sliced):
            return [self._view(*pair, name) for pair in zip(read, results, strict=False)]
        if kinds.get(name) == FREE or not results:
            self.fixed.update(result.name for result in results)
            return results
        body = self.bodies if times != 1 else 0
        details = _details(op, name, read, results)
        self.ops.append(Op(name, tuple(read), tuple(results), times, body, details))
        return results

    def _view(self, source: Operand, view: Operand, name: str) -> Operand:
        """Return a tensor as a view shows it."""
        spread = name in _BROADCASTS and view.sizes != source.sizes
        elements, repeated = min(source.elements, view.elements), source.repeated or spread
        return replace(view, name=source.name, elements=elements, repeated=repeated)

    def _constant(self, op: ir.Operation, result: Operand) -> None:
        from jaxlib.mlir import ir

        value = op.attributes["value"]
        if result.is_float and not (isinstance(value, ir.DenseElementsAttr) and value.is_splat):
            self.constants += result.elements
        elif isinstance(value, ir.DenseIntElementsAttr) and result.elements == 1:
            self.integers[result.name] = int(value[0])

    def _called(self, name: str, arguments: list[Operand], times: int, depth: int) -> list[Operand]:
        if name not in self.functions:
            raise UnsupportedError(f"function {name!r} has no body in the module")
        self._count()
        block = self.functions[name].regions[0].blocks[0]
        operands = dict(zip(block.arguments, arguments, strict=True))
        return self.block(block, operands, times, depth + 1)

    def _loop(
        self, op: ir.Operation, operands: dict[ir.Value, Operand], times: int, depth: int
    ) -> list[Operand]:
        """Add the operators of a loop, each as often as it runs."""
        condition, body = (region.blocks[0] for region in op.regions)
        first = [operands[value] for value in op.operands]
        arguments, returned = list(body.arguments), list(_last(body).operands)
        unchanged = [value == argument for value, argument in zip(returned, arguments, strict=True)]
        inner = [
            old if same else self.new(value)
            for old, same, value in zip(first, unchanged, arguments, strict=True)
        ]
        operands |= dict(zip(condition.arguments, inner, strict=True))
        trips = self._trips(condition, body, first, operands)
        if not trips:
            return first
        self.bodies += 1
        operands |= dict(zip(arguments, inner, strict=True))
        last = self.block(body, operands, times * trips, depth + 1)
        self.bodies += 1
        for old, begun, new, same in zip(inner, first, last, unchanged, strict=True):
            if not same:
                self.carried[old.name] = (begun.name, new.name)
        return last

    def _trips(
        self,
        condition: ir.Block,
        body: ir.Block,
        first: list[Operand],
        operands: Mapping[ir.Value, Operand],
    ) -> int:
        """Return how often a loop runs that counts to a constant."""
        from jaxlib.mlir import ir
        from jaxlib.mlir.dialects import stablehlo

        ends = _last(condition).operands[0].owner
        values = list(getattr(ends, "operands", ()))
        counter = values[0] if values else None
        if isinstance(counter, ir.BlockArgument) and "comparison_direction" in ends.attributes:
            number = counter.arg_number
            step = _last(body).operands[number].owner
            direction = stablehlo.ComparisonDirectionAttr(ends.attributes["comparison_direction"])
            factors = list(getattr(step, "operands", ()))
            start = self.integers.get(first[number].name)
            bound = self._integer(values[1], operands)
            by = self._integer(factors[1], operands) if len(factors) > 1 else None
            counts = factors and factors[0] == body.arguments[number]
            sign = _STEPS.get(step.operation.name, 0) if counts else 0
            up, last = _ENDS.get(direction.value, (0, 0))
            if by and start is not None and bound is not None and sign * by * up > 0:
                return max(0, -(-((bound - start) * up + last) // abs(by)))
        raise UnsupportedError(
            "a loop (stablehlo.while) ends by data: how often it runs is not known; export it as"
            " jax.lax.scan or jax.lax.fori_loop with constant bounds"
        )

    def _integer(self, value: ir.Value, operands: Mapping[ir.Value, Operand]) -> int | None:
        """Return the integer of a constant, None of other values."""
        from jaxlib.mlir import ir

        if value in operands:
            return self.integers.get(operands[value].name)
        attributes = getattr(value.owner, "attributes", {})
        if "value" in attributes and isinstance(attributes["value"], ir.DenseIntElementsAttr):
            return int(attributes["value"][0])
        return None

    def _branch(
        self, op: ir.Operation, name: str, operands: dict[ir.Value, Operand], times: int, depth: int
    ) -> list[Operand]:
        """Add the operators of the branch with most work."""
        before, branches = self.ops, []
        for region in op.regions:
            self.ops = []
            results = self.block(region.blocks[0], operands, times, depth + 1)
            branches.append((sum(op.work for op in self.ops), self.ops, results))
        _, added, results = max(branches, key=lambda branch: branch[0])
        self.ops = before
        self.ops += added
        self.branches[name] += 1
        return results


def program_of(module: ir.Module, free: frozenset[int], path: Path) -> Program:
    """Return what a module runs."""
    program = Program(functions_of(module, path))
    block = program.functions["main"].regions[0].blocks[0]
    operands = {}
    for number, value in enumerate(block.arguments):
        operands[value] = operand = program.new(value)
        program.arguments[operand.name] = operand
        program.free |= {operand.name} if number in free else set()
    program.outputs = tuple(output.name for output in program.block(block, operands, 1, 0))
    return program


def _last(block: ir.Block) -> ir.Operation:
    return list(block.operations)[-1]


def _details(
    op: ir.Operation, name: str, read: list[Operand], results: list[Operand]
) -> dict[str, Any]:
    """Return what an operation states of its sizes."""
    from jaxlib.mlir.dialects import stablehlo

    if name == "dot_general":
        numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
        left, right = read[0].sizes, read[1].sizes
        batch, inner = (
            list(numbers.lhs_batching_dimensions),
            list(numbers.lhs_contracting_dimensions),
        )
        others = [*numbers.rhs_batching_dimensions, *numbers.rhs_contracting_dimensions]
        return {
            "batch": [left[index] for index in batch],
            "rows": [size for index, size in enumerate(left) if index not in (*batch, *inner)],
            "columns": [size for index, size in enumerate(right) if index not in others],
            "k": math.prod(left[index] for index in inner),
        }
    if name == "convolution":
        return _convolution(op, read, results[0])
    if name == "gather":
        numbers = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
        return {"index": len(numbers.start_index_map)}
    if name == "reduce":
        return {"dimensions": list(op.attributes["dimensions"])}
    return {}


def _convolution(op: ir.Operation, read: list[Operand], out: Operand) -> dict[str, Any]:
    """Return the sizes of a convolution: items, channels, positions; filters, channels, taps."""
    from jaxlib.mlir.dialects import stablehlo

    at = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    image = (at.input_batch_dimension, at.input_feature_dimension, *at.input_spatial_dimensions)
    result = (at.output_batch_dimension, at.output_feature_dimension, *at.output_spatial_dimensions)
    weight = (
        *(at.kernel_output_feature_dimension, at.kernel_input_feature_dimension),
        *at.kernel_spatial_dimensions,
    )
    dilated = list(op.attributes["lhs_dilation"]) if "lhs_dilation" in op.attributes else []
    groups = [int(op.attributes[f"{kind}_group_count"]) for kind in ("feature", "batch")]
    filters = tuple(read[1].sizes[index] for index in weight)
    return {
        "image": tuple(read[0].sizes[index] for index in image),
        "weight": filters,
        "out": tuple(out.sizes[index] for index in result),
        "groups": max(groups),
        "transposed": any(size > 1 for size in dilated),
        "k": math.prod(filters[1:]),
    }
