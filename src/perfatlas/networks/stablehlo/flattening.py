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
DEEPEST_CALL: Final = 64
MAX_TENSORS: Final = 300_000
_PREFIXES: Final = ("stablehlo.", "chlo.", "func.")
_BROADCASTS: Final = ("broadcast_in_dim", "broadcast")
_STEPS: Final = {"stablehlo.add": 1, "stablehlo.subtract": -1}
# Direction in which a loop counts, and whether its bound is the last value, by what it compares.
_ENDS: Final = {"LT": (1, 0), "LE": (1, 1), "GT": (-1, 0), "GE": (-1, 1)}


@dataclass(frozen=True, kw_only=True)
class Operand:
    """A tensor as an operator reads it."""

    name: str  # Of the tensor, without views
    sizes: tuple[int, ...]
    held: int  # Elements in memory, fewer than those of its sizes where it is broadcast
    repeated: bool = False  # Whether it is broadcast
    is_float: bool = True


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
        moved = sum(one.held for one in (*self.read, *self.written))
        return self.times * (moved + 2 * self.written[0].held * int(self.details.get("k", 0)))


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
            return Operand(name=name, sizes=(), held=0, is_float=False)  # tokens, tuples
        if not value.type.has_static_shape:
            raise UnsupportedError(
                f"a tensor of {value.type} has a size that depends on data; export it with sizes"
                " that are numbers or symbols"
            )
        sizes = tuple(int(size) for size in value.type.shape)
        is_float = isinstance(value.type.element_type, ir.FloatType)
        return Operand(name=name, sizes=sizes, held=math.prod(sizes), is_float=is_float)

    def _count(self) -> None:
        self.tensors += 1
        if self.tensors > MAX_TENSORS:
            raise UnsupportedError(f"the module has more than {MAX_TENSORS:,} tensors and calls")

    def block(
        self, block: ir.Block, known: dict[ir.Value, Operand], times: int, depth: int
    ) -> list[Operand]:
        """Add the operators of a block; return what it returns."""
        if depth > DEEPEST_CALL:
            raise InvalidSpecError(f"functions call each other deeper than {DEEPEST_CALL}")
        for one in block.operations:
            name = one.operation.name
            if name.endswith(".return"):
                return [known[value] for value in one.operands]
            for prefix in _PREFIXES:
                name = name.removeprefix(prefix)
            found = self._results(one, name, known, (times, depth))
            known.update(zip(one.results, found, strict=True))
        return []

    def _results(
        self, one: ir.Operation, name: str, known: dict[ir.Value, Operand], place: tuple[int, int]
    ) -> Sequence[Operand]:
        """Return the results of an operation, whose operators are added."""
        times, depth = place
        read = [known[value] for value in one.operands]
        kinds = kinds_of_operators(FRAMEWORK)
        if name in ("call", "composite"):
            callee = str(one.attributes["callee" if name == "call" else "decomposition"].value)
            attributes = getattr(self.functions.get(callee), "attributes", {})
            attributes, key = (
                (one.attributes, "name") if name == "composite" else (attributes, COMPOSITE)
            )
            name = str(attributes[key].value).removeprefix("chlo.") if key in attributes else ""
            if name not in kinds:
                return self._called(callee, read, times, depth)
        if name == "while":
            return self._loop(one, known, times, depth)
        if name in ("case", "if"):
            return self._branch(one, name, known, times, depth)
        if name == "custom_call":
            name = f"custom_call {one.attributes['call_target_name'].value}"
        made = [self.new(value) for value in one.results]
        if name == "constant":
            self._constant(one, made[0])
        sliced = name == "dynamic_slice" and (
            read[0].name in self.arguments or read[0].name in self.fixed
        )
        if read and (kinds.get(name) == VIEW or sliced):
            return [self._view(*each, name) for each in zip(read, made, strict=False)]
        if kinds.get(name) == FREE or not made:
            self.fixed.update(each.name for each in made)
            return made
        body = self.bodies if times != 1 else 0
        details = _details(one, name, read, made)
        self.ops.append(Op(name, tuple(read), tuple(made), times, body, details))
        return made

    def _view(self, source: Operand, view: Operand, name: str) -> Operand:
        """Return a tensor as a view shows it."""
        spread = name in _BROADCASTS and view.sizes != source.sizes
        held, repeated = min(source.held, view.held), source.repeated or spread
        return replace(view, name=source.name, held=held, repeated=repeated)

    def _constant(self, one: ir.Operation, made: Operand) -> None:
        from jaxlib.mlir import ir

        value = one.attributes["value"]
        if made.is_float and not (isinstance(value, ir.DenseElementsAttr) and value.is_splat):
            self.constants += made.held
        elif isinstance(value, ir.DenseIntElementsAttr) and made.held == 1:
            self.integers[made.name] = int(value[0])

    def _called(self, name: str, given: list[Operand], times: int, depth: int) -> list[Operand]:
        if name not in self.functions:
            raise UnsupportedError(f"function {name!r} has no body in the module")
        self._count()
        block = self.functions[name].regions[0].blocks[0]
        known = dict(zip(block.arguments, given, strict=True))
        return self.block(block, known, times, depth + 1)

    def _loop(
        self, one: ir.Operation, known: dict[ir.Value, Operand], times: int, depth: int
    ) -> list[Operand]:
        """Add the operators of a loop, each as often as it runs."""
        condition, body = (region.blocks[0] for region in one.regions)
        first = [known[value] for value in one.operands]
        arguments, returned = list(body.arguments), list(_last(body).operands)
        kept = [value == argument for value, argument in zip(returned, arguments, strict=True)]
        inner = [
            old if same else self.new(value)
            for old, same, value in zip(first, kept, arguments, strict=True)
        ]
        known |= dict(zip(condition.arguments, inner, strict=True))
        trips = self._trips(condition, body, first, known)
        if not trips:
            return first
        self.bodies += 1
        known |= dict(zip(arguments, inner, strict=True))
        last = self.block(body, known, times * trips, depth + 1)
        self.bodies += 1
        for old, begun, new, same in zip(inner, first, last, kept, strict=True):
            if not same:
                self.carried[old.name] = (begun.name, new.name)
        return last

    def _trips(
        self,
        condition: ir.Block,
        body: ir.Block,
        first: list[Operand],
        known: Mapping[ir.Value, Operand],
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
            bound = self._integer(values[1], known)
            by = self._integer(factors[1], known) if len(factors) > 1 else None
            counts = factors and factors[0] == body.arguments[number]
            sign = _STEPS.get(step.operation.name, 0) if counts else 0
            up, last = _ENDS.get(direction.value, (0, 0))
            if by and start is not None and bound is not None and sign * by * up > 0:
                return max(0, -(-((bound - start) * up + last) // abs(by)))
        raise UnsupportedError(
            "a loop (stablehlo.while) ends by data: how often it runs is not known; export it as"
            " jax.lax.scan or jax.lax.fori_loop with constant bounds"
        )

    def _integer(self, value: ir.Value, known: Mapping[ir.Value, Operand]) -> int | None:
        """Return the integer of a constant, None of other values."""
        from jaxlib.mlir import ir

        if value in known:
            return self.integers.get(known[value].name)
        held = getattr(value.owner, "attributes", {})
        if "value" in held and isinstance(held["value"], ir.DenseIntElementsAttr):
            return int(held["value"][0])
        return None

    def _branch(
        self, one: ir.Operation, name: str, known: dict[ir.Value, Operand], times: int, depth: int
    ) -> list[Operand]:
        """Add the operators of the branch with most work."""
        before, found = self.ops, []
        for region in one.regions:
            self.ops = []
            results = self.block(region.blocks[0], known, times, depth + 1)
            found.append((sum(each.work for each in self.ops), self.ops, results))
        _, added, results = max(found, key=lambda each: each[0])
        self.ops = before
        self.ops += added
        self.branches[name] += 1
        return results


def program_of(module: ir.Module, free: frozenset[int], path: Path) -> Program:
    """Return what a module runs."""
    program = Program(functions_of(module, path))
    block = program.functions["main"].regions[0].blocks[0]
    known = {}
    for number, value in enumerate(block.arguments):
        known[value] = made = program.new(value)
        program.arguments[made.name] = made
        program.free |= {made.name} if number in free else set()
    program.outputs = tuple(each.name for each in program.block(block, known, 1, 0))
    return program


def _last(block: ir.Block) -> ir.Operation:
    return list(block.operations)[-1]


def _details(
    one: ir.Operation, name: str, read: list[Operand], made: list[Operand]
) -> dict[str, Any]:
    """Return what an operation states of its sizes."""
    from jaxlib.mlir.dialects import stablehlo

    if name == "dot_general":
        numbers = stablehlo.DotDimensionNumbers(one.attributes["dot_dimension_numbers"])
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
        return _convolution(one, read, made[0])
    if name == "gather":
        places = stablehlo.GatherDimensionNumbers(one.attributes["dimension_numbers"])
        return {"index": len(places.start_index_map)}
    if name == "reduce":
        return {"dimensions": list(one.attributes["dimensions"])}
    return {}


def _convolution(one: ir.Operation, read: list[Operand], out: Operand) -> dict[str, Any]:
    """Return the sizes of a convolution: items, channels, positions; filters, channels, taps."""
    from jaxlib.mlir.dialects import stablehlo

    at = stablehlo.ConvDimensionNumbers(one.attributes["dimension_numbers"])
    image = (at.input_batch_dimension, at.input_feature_dimension, *at.input_spatial_dimensions)
    result = (at.output_batch_dimension, at.output_feature_dimension, *at.output_spatial_dimensions)
    weight = (
        *(at.kernel_output_feature_dimension, at.kernel_input_feature_dimension),
        *at.kernel_spatial_dimensions,
    )
    dilated = list(one.attributes["lhs_dilation"]) if "lhs_dilation" in one.attributes else []
    groups = [int(one.attributes[f"{kind}_group_count"]) for kind in ("feature", "batch")]
    filters = tuple(read[1].sizes[index] for index in weight)
    return {
        "image": tuple(read[0].sizes[index] for index in image),
        "weight": filters,
        "out": tuple(out.sizes[index] for index in result),
        "groups": max(groups),
        "transposed": any(size > 1 for size in dilated),
        "k": math.prod(filters[1:]),
    }
