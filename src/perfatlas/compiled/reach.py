"""The parts that a function reaches, and a digest of what their machine code depends on.

Functions that compile to the same code have the same digest: it omits comments, docstrings, line
numbers, module names and all else in the files.
"""

from __future__ import annotations

import builtins
import dis
import hashlib
from enum import Enum, EnumType
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.compiled.columns import named_row

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# functions marked as callable from compiled code, with whether they are always inlined
PARTS: Final[dict[FunctionType, bool]] = {}
_SCALAR_TYPES: Final = (bool, int, float, complex, str, bytes, type(None), np.generic)


class Reached(NamedTuple):
    """A function and the values of its global names."""

    function: Any  # a FunctionType, which checkers would take for a method
    # Values by name, of globals and of variables of the enclosing function; by "module.attribute"
    # for an attribute of a module or a class
    values: dict[str, Any]


def reached(function: FunctionType) -> list[Reached]:
    """Return a function and all parts it reaches, each once, callers first."""
    functions = {function: Reached(function, dict(_values(function)))}
    ahead = [function]
    while ahead:
        for name, value in functions[ahead.pop()].values.items():
            if not isinstance(value, FunctionType) or value in functions or _is_foreign(value):
                continue
            if value not in PARTS:
                raise TypeError(
                    f"{value.__module__}.{name} is called by compiled code but not marked as a part"
                )
            functions[value] = Reached(value, dict(_values(value)))
            ahead.append(value)
    return list(functions.values())


def digest(function: FunctionType) -> str:
    """Return a digest of a function and all parts and values it reaches."""
    callees = reached(function)
    numbers = {callee.function: number for number, callee in enumerate(callees)}
    notes = [
        (
            code_text(callee.function.__code__),
            repr((callee.function.__defaults__, PARTS.get(callee.function))),
            sorted((name, _value_text(value, numbers)) for name, value in callee.values.items()),
        )
        for callee in callees
    ]
    return hashlib.sha256(repr(notes).encode()).hexdigest()


def code_text(code: CodeType) -> str:
    """Return a code object as text, without docstring, file names and line numbers."""
    constants = list(code.co_consts)
    if code.co_flags & 0x2 and constants and isinstance(constants[0], str):
        constants[0] = None  # the docstring; no compiled function uses it
        if _loads(code, 0):
            constants[0] = code.co_consts[0]
    notes = [
        code_text(constant) if isinstance(constant, CodeType) else _constant(constant)
        for constant in constants
    ]
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    return repr((code.co_code, notes, names, counts, code.co_exceptiontable))


def _loads(code: CodeType, constant: int) -> bool:
    """Return whether a code object loads one of its constants."""
    # pairs of opcode and argument; dis.get_instructions takes fifteen times as long
    load, far = dis.opmap["LOAD_CONST"], dis.EXTENDED_ARG
    text = code.co_code
    return any(
        text[i] == load and text[i + 1] == constant and not (i and text[i - 2] == far)
        for i in range(0, len(text), 2)
    )


def _constant(value: object) -> str:
    """Return a constant as text that is stable across processes."""
    if isinstance(value, frozenset):
        return f"frozenset({sorted(map(_constant, value))})"
    return f"{type(value).__name__} {value!r}"


def _values(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the outer names that a function reads, with their values."""
    enclosed = enclosed_values(function)
    instructions = list(dis.get_instructions(function.__code__))
    for index, instruction in enumerate(instructions):
        name = str(instruction.argval)
        if instruction.opname == "LOAD_GLOBAL":
            value = function.__globals__.get(name, getattr(builtins, name, None))
        elif instruction.opname == "LOAD_DEREF" and name in enclosed:
            value = enclosed[name]
        else:
            continue
        for after in instructions[index + 1 :]:
            if not isinstance(value, ModuleType | type):
                break
            if after.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
                break
            name, value = f"{name}.{after.argval}", getattr(value, str(after.argval))
        yield name, value


def enclosed_values(function: FunctionType) -> dict[str, Any]:
    """Return what a function reads of the function around it, by name."""
    cells = function.__closure__ or ()
    names = function.__code__.co_freevars
    return {name: cell.cell_contents for name, cell in zip(names, cells, strict=True)}


def _is_foreign(function: FunctionType) -> bool:
    """Return whether a function belongs to a library and is known to the compiler by name."""
    if function is named_row:
        return True
    return not str(function.__module__).startswith("perfatlas") and function not in PARTS


def _value_text(value: Any, numbers: dict[FunctionType, int]) -> str:  # noqa: ANN401 - any global
    """Return the value of a name as text that is stable across processes."""
    if isinstance(value, FunctionType) and value in numbers:
        return f"part {numbers[value]}"
    if isinstance(value, _SCALAR_TYPES):
        return _constant(value)
    if isinstance(value, tuple | list):
        return f"{type(value).__name__} {[_value_text(item, numbers) for item in value]}"
    if isinstance(value, np.ndarray):
        return f"array {value.dtype} {value.shape} {value.tobytes().hex()}"
    if isinstance(value, np.dtype):
        return f"dtype {value.str} {value.descr if value.names is None else value.fields}"
    if callable(value) and hasattr(value, "__name__"):  # a type or a library function
        name = getattr(value, "__qualname__", value.__name__)
        return f"named {name} {getattr(value, '_fields', _members(value, numbers))}"
    raise TypeError(f"compiled code cannot depend on {type(value).__name__} {value!r:.80}")


def _members(value: Any, numbers: dict[FunctionType, int]) -> tuple[tuple[str, str], ...]:  # noqa: ANN401 - as above
    """Return names and values of an enumeration's members; nothing of anything else."""
    if not isinstance(value, EnumType):
        return ()
    members: Mapping[str, Enum] = value.__members__
    return tuple((name, _value_text(member.value, numbers)) for name, member in members.items())
