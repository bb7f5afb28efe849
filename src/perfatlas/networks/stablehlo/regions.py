"""What stays fixed, and which operators are one kernel, in the operators of a module of StableHLO.

A region is what computes one tensor of one other, element by element and row by row: an activation
that JAX writes as several operators, a norm, a softmax. XLA makes one kernel of each.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

from perfatlas.networks.graphs.imports import kinds_of_operators
from perfatlas.networks.stablehlo.flattening import FRAMEWORK

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from perfatlas.networks.stablehlo.flattening import Op, Program

PRODUCTS: Final = ("dot_general", "convolution")
MAX_ROUNDS: Final = 8
MAX_DATA_ARGUMENTS: Final = 64  # arguments that are found to be data
MAX_ORIGINS: Final = 2  # weights of which a tensor follows, of which no more are told apart
_POINTWISE: Final = ("activation", "add", "elementwise")


@dataclass(frozen=True, kw_only=True)
class Step:
    """Operators that are one kernel; an operator of its own has no root."""

    op_type: str
    ops: tuple[Op, ...]
    root: str = ""  # The tensor that a region reads

    @property
    def last(self) -> Op:
        """The operator that writes the result."""
        return self.ops[-1]

    @property
    def input(self) -> tuple[str, ...]:
        """Names of the tensors that it reads."""
        if self.root:
            return (self.root,)
        return tuple(dict.fromkeys(operand.name for operand in self.last.read))

    @property
    def output(self) -> tuple[str, ...]:
        """Names of the tensors that it writes."""
        return tuple(operand.name for operand in self.last.written)


def is_pointwise(op: Op) -> bool:
    """Return whether an operator computes each element, or each row, by itself."""
    kind = kinds_of_operators(FRAMEWORK).get(op.kind)
    return kind in _POINTWISE or op.kind in ("reduce", "select")


def weights_of(program: Program) -> set[str]:
    """Return the arguments that are weights.

    Where an argument has a free size, weights are those without one. Else they are second factors
    of products without a batch and of convolutions, tables that integers select rows of, and what
    is only broadcast, or combined with other weights, as biases and scales of norms. Without any,
    what has most dimensions is data.
    """
    arguments = program.arguments
    if program.free:
        return set(arguments) - program.free
    used = _used_as_weights(program)
    data = {name for name, argument in arguments.items() if not argument.is_float} - used
    data |= {begun for begun, _ in program.carried.values()} & set(arguments) - used
    if not used:
        rank = max((len(argument.sizes) for argument in arguments.values()), default=0)
        data |= {name for name, argument in arguments.items() if len(argument.sizes) == rank}
    writers = {written.name: op for op in program.ops for written in op.written}
    for _ in range(MAX_DATA_ARGUMENTS):
        candidates, seen = set(arguments), set[str]()
        fixed = fixed_by(program, candidates - data)
        fixed_names = (_combined_with_data(op, fixed, used) for op in program.ops)
        sources = (_sources(names, writers, seen) & candidates - used for names in fixed_names)
        new_data = next(filter(None, sources), None)  # of what follows, more may be computed of it
        if not new_data:
            break
        data |= new_data
    return set(arguments) - data


def _used_as_weights(program: Program) -> set[str]:
    """Return the arguments that products, convolutions and lookups read as weights."""
    arguments, origins = program.arguments, fixed_by(program, set(program.arguments))
    # first factors are data, though gradients multiply them again
    used, first_factors = set(), set()
    for op in program.ops:
        names = [operand.name for operand in op.read]
        if op.kind == "convolution" or (op.kind == "dot_general" and not op.details["batch"]):
            if origins.get(names[0]) == frozenset():
                continue  # a constant, as of an image that is resized
            if names[1] in arguments:
                used.add(names[1])
                first_factors.add(names[0])
            elif names[0] in arguments and len(origins.get(names[1], "several")) > 1:
                used.add(names[0])
        elif op.kind == "gather" and names[0] in arguments and len(op.read[0].sizes) == 2:
            used |= {names[0]} if op.read[0].is_float else set()
    return used - first_factors


def fixed_by(program: Program, weights: set[str]) -> dict[str, frozenset[str]]:
    """Return the tensors that follow from weights and constants, with two weights at most."""
    fixed = dict.fromkeys(program.fixed, frozenset[str]()) | {n: frozenset((n,)) for n in weights}
    for op in program.ops:
        if all(operand.name in fixed for operand in op.read):
            origins = {weight for operand in op.read for weight in fixed[operand.name]}
            origin = frozenset(sorted(origins)[:MAX_ORIGINS])
            fixed |= dict.fromkeys((operand.name for operand in op.written), origin)
    return fixed


def _sources(names: Iterable[str], writers: Mapping[str, Op], seen: set[str]) -> set[str]:
    """Return the tensors that others follow from, with these, without those seen before."""
    queue, sources = [name for name in names if name not in seen], set[str]()
    while queue:
        name = queue.pop()
        if name not in seen:
            seen.add(name)
            sources.add(name)
            queue += [operand.name for operand in writers[name].read] if name in writers else []
    return sources


def _combined_with_data(op: Op, fixed: Mapping[str, frozenset[str]], used: set[str]) -> list[str]:
    """Return the fixed tensors that an operator shows to be data.

    They are the first factor of a product with a weight, or combined with data without a broadcast.
    """
    if op.kind in PRODUCTS:
        weight = next((operand for operand in op.read[:2] if operand.name in used), None)
        others = [operand for operand in op.read[:2] if weight and operand is not weight]
    elif is_pointwise(op) and any(operand.name not in fixed for operand in op.read):
        others = [operand for operand in op.read if operand.sizes and not operand.repeated]
    else:
        others = []
    return [operand.name for operand in others if operand.name in fixed]


def steps_of(program: Program, fixed: Iterable[str]) -> list[Step]:
    """Return the kernels of a program in execution order; what none reads is left out."""
    constants = set(fixed)
    ops = [
        op for op in _alive(program) if not all(operand.name in constants for operand in op.read)
    ]
    leaving = {*program.outputs, *chain.from_iterable(program.carried.values())}
    roots = _roots(ops, constants, leaving)
    regions: defaultdict[tuple[str, int], list[Op]] = defaultdict(list)
    last: dict[tuple[str, int], int] = {}
    for number, op in enumerate(ops):
        root = roots.get(op.written[0].name)
        if root is not None:
            regions[root, op.body].append(op)
            last[root, op.body] = number
    steps = []
    for number, op in enumerate(ops):
        key = (roots.get(op.written[0].name, ""), op.body)
        if not key[0]:
            steps.append(Step(op_type=op.kind, ops=(op,)))
        elif last[key] == number:
            steps += _parts(regions[key], key[0])
    return steps


def _parts(ops: Sequence[Op], root: str) -> list[Step]:
    """Return a region as what computes each element, and what reduces the rows of its result."""
    last = {operand.name: number for number, op in enumerate(ops) for operand in op.read}
    cut, read, first = 0, last[root], root
    for number, op in enumerate(ops):
        if op.kind == "reduce":
            break
        if read <= number:  # later operators read its result alone
            cut, first = number + 1, op.written[0].name
        read = max(read, last.get(op.written[0].name, 0))
    if not 0 < cut < len(ops) or all(op.kind != "reduce" for op in ops):
        return [Step(op_type="", ops=tuple(ops), root=root)]
    return [
        Step(op_type="", ops=tuple(ops[:cut]), root=root),
        Step(op_type="", ops=tuple(ops[cut:]), root=first),
    ]


def _alive(program: Program) -> list[Op]:
    """Return the operators whose results are read."""
    writers = {operand.name: op for op in program.ops for operand in op.written}
    queue, seen = list(program.outputs), set(program.outputs)
    while queue:
        name = queue.pop()
        read = [operand.name for operand in writers[name].read] if name in writers else []
        read += program.carried.get(name, ())
        queue += [source for source in dict.fromkeys(read) if source not in seen]
        seen.update(read)
    return [op for op in program.ops if any(operand.name in seen for operand in op.written)]


def _roots(ops: Sequence[Op], constants: set[str], leaving: set[str]) -> dict[str, str]:
    """Return the tensor of which a region computes others, by their names.

    A region has one tensor that operators outside of it read: others become roots of their own.
    """
    separate: set[str] = set()
    for number in range(MAX_ROUNDS + 1):
        roots = _rooted(ops, constants, separate)
        read = _read_outside(ops, roots, leaving)
        several: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
        for op in ops:
            name = op.written[0].name
            if name in roots and (name in read or number == MAX_ROUNDS):
                several[roots[name], op.body].append(name)
        new_roots = {name for names in several.values() for name in names[:-1]} - separate
        if not new_roots:
            return roots
        separate |= new_roots
    return _rooted(ops, constants, separate)


def _rooted(ops: Sequence[Op], constants: set[str], separate: set[str]) -> dict[str, str]:
    roots: dict[str, str] = {}
    bodies: dict[str, int] = {}
    for op in ops:
        if not is_pointwise(op):
            continue
        bases = set()
        for operand in op.read:
            if operand.name not in constants:
                inside = bodies.get(operand.name) == op.body and operand.name not in separate
                bases.add(roots.get(operand.name, operand.name) if inside else operand.name)
        if len(bases) == 1:
            (base,) = bases
            roots |= {operand.name: base for operand in op.written}
            bodies |= {operand.name: op.body for operand in op.written}
    return roots


def _read_outside(ops: Sequence[Op], roots: Mapping[str, str], leaving: set[str]) -> set[str]:
    """Return the tensors that another region than their own reads."""
    names = set(leaving)
    for op in ops:
        root = roots.get(op.written[0].name)
        names |= {
            operand.name for operand in op.read if root is None or root != roots.get(operand.name)
        }
    return names
