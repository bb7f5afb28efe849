"""Compile LLVM assembly to machine code that calls only functions of the process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import llvmlite.binding as llvm

from perfatlas.compiled.machine_code import target_machine
from perfatlas.compiled.unit_files import MachineCode

if TYPE_CHECKING:
    from collections.abc import Sequence

# Most large units run as fast at -O1 as at -O3, and compile in half the time. The loops of a small
# one, such as prices, gain 10% from -O3.
SMALL: Final = 1_000_000  # characters
INLINED: Final = 25  # LLVM's inlining threshold
_OUTER: Final = """
declare i32 @"{inner}"(ptr, ptr, ptr, ptr)
define i32 @"{name}"(ptr %arguments, ptr %result) {{
  %returned = alloca i64
  %raised = alloca ptr
  %status = call i32 @"{inner}"(ptr %returned, ptr %raised, ptr %arguments, ptr %result)
  ret i32 %status
}}
"""
# library functions that LLVM calls where the processor has no instruction
_LIBRARY: Final = ("cos", "exp", "exp2", "log", "log10", "log2", "pow", "sin")
_MEMORY: Final = ("memcpy", "memmove", "memset")


class Lowered(NamedTuple):
    """A module before it is optimized."""

    text: str  # Assembly of the module
    others: Sequence[Any]  # Other LLVM modules to link
    # Symbol of the function; takes addresses of result, error and two arguments, returns a status
    inner: str


def emitted(lowered: Lowered, name: str, speed_level: int) -> MachineCode:
    """Return the machine code of a module with one exported function."""
    module = llvm.parse_assembly(lowered.text)
    for other in lowered.others:
        module.link_in(other, preserve=True)
    module.link_in(llvm.parse_assembly(_OUTER.format(name=name, inner=lowered.inner)))
    for function in (*module.functions, *module.global_variables):
        if not function.is_declaration and function.name != name:
            function.linkage = "internal"
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    if len(lowered.text) > SMALL:
        options.speed_level, options.inlining_threshold = speed_level, INLINED
    machine = target_machine()
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return MachineCode(name, _symbols(module), machine.emit_object(module))


def _symbols(module: Any) -> tuple[str, ...]:  # noqa: ANN401 - untyped
    """Return the external functions that a module calls."""
    names: set[str] = set()
    for function in module.functions:
        if not function.is_declaration:
            continue
        operation = function.name.split(".")
        if operation[0] != "llvm":
            names.add(function.name)
        elif operation[1] in (*_LIBRARY, *_MEMORY):
            names.add(operation[1])
    return tuple(sorted(names))
