"""Load machine code as a callable, without importing the compiler."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.compiled.unit_files import MachineCode

    Native: TypeAlias = Callable[[int | bytes, int], int]

# addresses of arguments and result -> 0 or an error status
NATIVE: Final = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_ENGINES: Final[list[Any]] = []  # they own the code


@cache
def host() -> tuple[str, str]:
    """Return the name and features of the host processor."""
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@cache
def target_machine() -> Any:  # noqa: ANN401 - untyped
    """Return the LLVM target machine of the host processor."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name, features = host()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    model = "static" if target.name.startswith("x86") else "default"
    return target.create_target_machine(
        cpu=name, features=features, opt=3, reloc=model, codemodel="jitdefault", jit=True
    )


def load(unit: MachineCode) -> Native | None:
    """Return the function that machine code defines, None if a symbol is missing."""
    import llvmlite.binding as llvm

    machine = target_machine()
    process = ctypes.CDLL(None)
    for symbol in unit.symbols:  # LLVM aborts the process on a missing symbol
        if not hasattr(process, symbol):
            return None
        llvm.add_symbol(symbol, ctypes.cast(process[symbol], ctypes.c_void_p).value)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(unit.code))
    engine.finalize_object()
    address = engine.get_function_address(unit.name)
    if not address:
        return None
    _ENGINES.append(engine)
    return NATIVE(address)
