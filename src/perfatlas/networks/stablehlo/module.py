"""Modules of StableHLO as text, parsed and refined to static shapes by MLIR in jaxlib.

MLIR parses by recursion without a limit, so that nesting is counted before. Constants stay the
bytes that the text states.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeVar

from perfatlas import quantities

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from jaxlib.mlir import ir

MAX_TEXT_BYTES: Final = 1 << 29  # bytes
MAX_NESTING: Final = 128  # brackets around brackets
MAX_REASON_LENGTH: Final = 300
COMPOSITE: Final = "composite"  # attribute of a function that decomposes one
BYTECODE: Final = b"ML\xefR"
_Read = TypeVar("_Read")
# Aliases may stand inside each other, so that a short text of them is a long one. JAX writes those
# of locations, which are dropped.
_LOCATION: Final = re.compile(r"^(#loc\d* = )loc\(.*\)$", re.MULTILINE)
_TOKENS: Final = re.compile(
    r'"(?:[^"\\\n]++|\\.)*+"?|//[^\n]*|->|>=|[<({\[]|[>)}\]]|-{2,}'
    r"|(?!#loc\d* = loc\(unknown\))[#!]\w+\s*=(?!=)"
)
_REFINED: Final = (
    "builtin.module(func.func(stablehlo-legalize-composite-to-call),"
    "stablehlo-refine-arguments{{types={}}},stablehlo-refine-shapes,"
    "func.func(stablehlo-canonicalize-dynamism),stablehlo-refine-shapes)"
)


def read_modules(
    path: Path,
    batches: tuple[int, ...],
    sizes: Mapping[str, int],
    read: Callable[[ir.Module, frozenset[int]], _Read],
) -> list[_Read]:
    """Return what is read of a file for each number of items, once if no size is free.

    Args:
        sizes: Values of other free sizes by their symbol, or by argument and dimension.
    """
    text = _text(path)
    try:
        from jaxlib.mlir import ir
    except ImportError as problem:
        raise quantities.MissingDependencyError(
            "modules of StableHLO need the package jaxlib: pip install '.[stablehlo]' in the clone"
        ) from problem
    with _context(), ir.Location.unknown():
        parsed = _parsed(text, path)
        names = _free_sizes(parsed, path)
        free_names = {*names.values()} - {"batch"}
        for wrong in sorted(sizes.keys() - free_names):
            hint = (
                f"its free sizes are {', '.join(sorted(free_names))}"
                if free_names
                else "it has none"
            )
            raise quantities.InvalidSpecError(
                f"{path} has no free size {quantities.repr_for_error(wrong)}; {hint}"
            )
        missing = [
            name for name in dict.fromkeys(names.values()) if name in free_names - sizes.keys()
        ]
        if missing:
            raise quantities.InvalidSpecError(
                f"{path} has free sizes: {', '.join(missing)};"
                f" set them as in --sizes {missing[0]}=128"
            )
        if not names:
            return [read(parsed, frozenset())]
        free = frozenset(number for number, _ in names)
        return [
            read(_refined(_parsed(text, path), names, {**sizes, "batch": batch}, path), free)
            for batch in (batches if "batch" in names.values() else batches[:1])
        ]


def _text(path: Path) -> str:
    """Return the text of a module."""
    try:
        if path.stat().st_size > MAX_TEXT_BYTES:
            raise quantities.InvalidSpecError(
                f"{path} has more than {MAX_TEXT_BYTES:,} bytes; pass weights as arguments of the"
                " function, so that the text has none of them"
            )
        content = path.read_bytes()
    except OSError as problem:
        raise quantities.InvalidSpecError(f"{path} cannot be read: {problem.strerror}") from problem
    if content.startswith(BYTECODE):
        raise quantities.InvalidSpecError(
            f"{path} is bytecode of MLIR; write text, as jax.jit(f).lower(x).as_text() or"
            " jax.export.export(jax.jit(f))(x).mlir_module() returns it"
        )
    try:
        text = content.decode()
    except UnicodeDecodeError as problem:
        raise quantities.InvalidSpecError(
            f"{path} is not text of StableHLO: {problem.reason}"
        ) from problem
    text, depth = _LOCATION.sub(r"\1loc(unknown)", text), 0
    for token in _TOKENS.finditer(text):
        sign = token[0]
        if len(sign) == 1:
            depth = max(0, depth + (1 if sign in "<({[" else -1))
        if depth > MAX_NESTING or (sign[0] == "-" and len(sign) > MAX_NESTING):
            raise quantities.InvalidSpecError(
                f"{path} is nested deeper than {MAX_NESTING} brackets"
            )
        if sign[0] in "#!":
            raise quantities.InvalidSpecError(
                f"{path} has an alias {quantities.repr_for_error(sign)} that is not a location;"
                " write the text with JAX"
            )
    return text


def _context() -> ir.Context:
    """Return a context of MLIR with the dialects that JAX writes."""
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import chlo, mhlo, sdy, stablehlo

    registry, context = ir.DialectRegistry(), ir.Context()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for dialect in (stablehlo, chlo, sdy):
        dialect.register_dialect(context)
    mhlo.register_mhlo_dialect(context)
    return context


def _parsed(text: str, path: Path) -> ir.Module:
    from jaxlib.mlir import ir

    try:
        return ir.Module.parse(text)
    except ir.MLIRError as problem:
        reason = " ".join(str(problem).split())[:MAX_REASON_LENGTH]
        raise quantities.InvalidSpecError(
            f"{path} is not a module of StableHLO: {reason}"
        ) from problem


def functions_of(module: ir.Module, path: Path) -> dict[str, ir.Operation]:
    """Return the functions of a module by name; one of them is main."""
    functions = {
        str(op.attributes["sym_name"].value): op
        for op in module.body.operations
        if op.operation.name == "func.func" and len(op.regions[0].blocks)
    }
    if "main" not in functions:
        raise quantities.InvalidSpecError(f"{path} has no function main")
    return functions


def _free_sizes(module: ir.Module, path: Path) -> dict[tuple[int, int], str]:
    """Return names of free sizes of the arguments of main, by argument and dimension.

    The first free size that is the first of its argument is `batch`; others are named by their
    symbol, or by argument and dimension. Sizes are one symbol where the module asserts that they
    are equal, as `jax.export` writes it.
    """
    from jaxlib.mlir import ir

    functions = functions_of(module, path)
    block = functions["main"].regions[0].blocks[0]
    names: dict[tuple[int, int], str] = {}
    for number, argument in enumerate(block.arguments):
        if not isinstance(argument.type, ir.RankedTensorType):
            raise quantities.UnsupportedError(
                f"{path}: argument {number} of main is not a ranked tensor"
            )
        for index in range(argument.type.rank):
            if argument.type.is_dynamic_dim(index):
                names[number, index] = f"arg{number}_{index}"
    read: dict[ir.Value, tuple[int, int]] = {}
    for op in block.operations if names else ():
        kind = op.operation.name
        if kind == "stablehlo.get_dimension_size" and isinstance(op.operands[0], ir.BlockArgument):
            dimension = (op.operands[0].arg_number, int(op.attributes["dimension"]))
            read |= {op.results[0]: dimension} if dimension in names else {}
        elif kind == "stablehlo.compare" and "EQ" in str(op.attributes["comparison_direction"]):
            first, second = (read.get(value) for value in op.operands)
            if first and second:
                names[first] = names[second]
        elif kind == "func.call" and str(op.attributes["callee"].value) in functions:
            called = functions[str(op.attributes["callee"].value)]
            _name_symbols(called, [read.get(value) for value in op.operands], names)
    batch = next((name for (_, index), name in names.items() if index == 0), "")
    return {dimension: "batch" if name == batch else name for dimension, name in names.items()}


def _name_symbols(
    called: ir.Operation,
    dimensions: list[tuple[int, int] | None],
    names: dict[tuple[int, int], str],
) -> None:
    """Name sizes by the symbols that a function states of its arguments."""
    if "arg_attrs" not in called.attributes:
        return
    for dimension, attributes in zip(dimensions, called.attributes["arg_attrs"], strict=False):
        if dimension is not None and "jax.global_constant" in attributes:
            old, new = names[dimension], str(attributes["jax.global_constant"].value)
            names |= {key: new for key, name in names.items() if name == old}


def _refined(
    module: ir.Module, names: Mapping[tuple[int, int], str], values: Mapping[str, int], path: Path
) -> ir.Module:
    """Return a module with static shapes: its arguments have the sizes given."""
    from jaxlib.mlir import ir, passmanager
    from jaxlib.mlir.dialects import stablehlo

    types = []
    for number, argument in enumerate(
        functions_of(module, path)["main"].regions[0].blocks[0].arguments
    ):
        sizes = [
            values[names[number, index]] if (number, index) in names else size
            for index, size in enumerate(argument.type.shape)
        ]
        types.append(str(ir.RankedTensorType.get(sizes, argument.type.element_type)))
    stablehlo.register_stablehlo_passes()
    _mark_composites(module)
    shapes = ", ".join(f"{name} = {value}" for name, value in values.items())
    try:
        passmanager.PassManager.parse(_REFINED.format(",".join(types))).run(module.operation)
    except (ir.MLIRError, ValueError) as problem:
        reason = " ".join(str(problem).split())[:MAX_REASON_LENGTH]
        raise quantities.InvalidSpecError(
            f"{path} has no shapes of {shapes}: {reason}"
        ) from problem
    for op in functions_of(module, path)["main"].regions[0].blocks[0].operations:
        if op.operation.name == "stablehlo.custom_call" and _is_false(op):
            reason = str(op.attributes["error_message"].value)[:MAX_REASON_LENGTH]
            raise quantities.InvalidSpecError(f"{path} refuses {shapes}: {reason}")
    return module


def _mark_composites(module: ir.Module) -> None:
    """Give functions the name of the composite that they decompose, which calls of them keep."""
    from jaxlib.mlir import ir

    functions = {
        str(function.attributes["sym_name"].value): function for function in module.body.operations
    }

    def mark(operation: ir.Operation) -> ir.WalkResult:
        if operation.name == "stablehlo.composite":
            attributes = operation.attributes
            if attributes["decomposition"].value in functions:
                function = functions[attributes["decomposition"].value]
                function.attributes[COMPOSITE] = attributes["name"]
        return ir.WalkResult.ADVANCE

    module.operation.walk(mark)


def _is_false(call: ir.Operation) -> bool:
    """Return whether a call asserts a relation of sizes that does not hold."""
    if str(call.attributes["call_target_name"].value) != "shape_assertion":
        return False
    asserted = getattr(call.operands[0].owner, "attributes", {})
    return "value" in asserted and "false" in str(asserted["value"])
