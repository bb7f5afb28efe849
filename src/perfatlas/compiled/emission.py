"""From assembly of LLVM to machine code that calls nothing but functions of the process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import llvmlite.binding as llvm

from perfatlas.compiled.machine_code import target_machine
from perfatlas.compiled.unit_files import MachineCode

if TYPE_CHECKING:
    from collections.abc import Sequence

# Most large units are as fast at LLVM's first level of optimisation as at its third, in half the
# time; the loops of a small one, as prices are, gain a tenth from it.
SMALL: Final = 1_000_000  # characters
INLINED: Final = 25  # LLVM's measure of the largest part copied into its callers unasked
_OUTER: Final = """
declare i32 @"{inner}"(ptr, ptr, ptr, ptr)
define i32 @"{name}"(ptr %arguments, ptr %result) {{
  %returned = alloca i64
  %raised = alloca ptr
  %status = call i32 @"{inner}"(ptr %returned, ptr %raised, ptr %arguments, ptr %result)
  ret i32 %status
}}
"""
# what LLVM's own operations become where the processor has no instruction for them
_LIBRARY: Final = ("cos", "exp", "exp2", "log", "log10", "log2", "pow", "sin")
_MEMORY: Final = ("memcpy", "memmove", "memset")


class Lowered(NamedTuple):
    """A module before it is optimised.

    Args:
        text: Its assembly.
        others: Modules of LLVM with what else it calls.
        inner: Its function, from the addresses of result, error and two arguments to a status.
    """

    text: str
    others: Sequence[Any]
    inner: str


def emitted(lowered: Lowered, name: str, speed_level: int) -> MachineCode:
    """Return machine code of a module, of which one function is called from outside.

    Args:
        lowered: The module.
        name: Under which the function is called, with the two arguments alone.
        speed_level: How much LLVM optimises a large module.
    """
    module = llvm.parse_assembly(lowered.text)
    for other in lowered.others:
        module.link_in(other, preserve=True)
    module.link_in(llvm.parse_assembly(_OUTER.format(name=name, inner=lowered.inner)))
    for one in (*module.functions, *module.global_variables):
        if not one.is_declaration and one.name != name:
            one.linkage = "internal"
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    if len(lowered.text) > SMALL:
        options.speed_level, options.inlining_threshold = speed_level, INLINED
    machine = target_machine()
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return MachineCode(name, _symbols(module), machine.emit_object(module))


def _symbols(module: Any) -> tuple[str, ...]:  # noqa: ANN401 - untyped
    """Return the functions of the process that a module calls."""
    names: set[str] = set()
    for one in module.functions:
        if not one.is_declaration:
            continue
        operation = one.name.split(".")
        if operation[0] != "llvm":
            names.add(one.name)
        elif operation[1] in (*_LIBRARY, *_MEMORY):
            names.add(operation[1])
    return tuple(sorted(names))
