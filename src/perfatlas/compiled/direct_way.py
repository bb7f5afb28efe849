"""The short way through the compiler: all parts into one module, optimised and emitted once.

The compiler finishes every function by itself: it optimises it, emits machine code and wraps it
for Python and for C, though only the entry of a simulator is ever called from outside. Here its
own classes are derived from, so that parts lower into one module, which is optimised and emitted
when the last of them is there; calls of one function with integers of several widths, or with
constants, use one compilation of it. No class or function of the compiler is changed, and other
users of it in the process meet none of this.

These classes are not of its public interface: `fits` tells whether they are as expected, and where
they are not `public_way` compiles the same source to the same answers, in several times the time.
"""

from __future__ import annotations

import copy
import gc
from typing import TYPE_CHECKING, Any, Final

import llvmlite.binding as llvm
from numba import _dynfunc, njit
from numba.core import compiler, ir, typed_passes, types, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
from numba.core.dispatcher import _FunctionCompiler
from numba.core.imputils import builtin_registry
from numba.core.ir_utils import build_definitions, compute_cfg_from_blocks
from numba.core.postproc import PostProcessor
from numba.core.registry import cpu_target

from perfatlas.compiled import settling
from perfatlas.compiled.column_types import Columns
from perfatlas.compiled.machine_code import target_machine
from perfatlas.compiled.unit_files import MachineCode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FunctionType

# A large unit is as fast at LLVM's first level of optimisation as at its third, in half the time;
# the loops of a small one, as prices are, gain a tenth from it.
SMALL: Final = 1_000_000  # characters
INLINED: Final = 25  # LLVM's measure of the largest part copied into its callers unasked
OPTIONS: Final[dict[str, Any]] = {
    "error_model": "numpy",
    "_nrt": False,  # nothing here allocates: no references are counted
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}


class _Typing(type(cpu_target.typing_context)):  # type: ignore[misc] # untyped
    """Remembers what operators and attributes return: the answer never changes."""

    def refresh(self) -> None:
        """Learn of what was registered since; the compiler's own is known."""
        self._load_builtins()

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:  # noqa: ANN401 - as its base
        if kws or isinstance(func, types.Dispatcher):
            return super().resolve_function_type(func, args, kws)
        try:
            found = self.calls.get((func, args))
        except TypeError:  # a constant slice has no hash
            return super().resolve_function_type(func, args, kws)
        if found is None:
            found = self.calls[func, args] = super().resolve_function_type(func, args, kws)
        return found

    def resolve_getattr(self, typ: Any, attr: str) -> Any:  # noqa: ANN401 - as its base
        found = self.attributes.get((typ, attr))
        if found is None:
            found = self.attributes[typ, attr] = super().resolve_getattr(typ, attr)
        return found


class _Target(type(cpu_target.target_context)):  # type: ignore[misc] # untyped
    """Is the same for all parts of a unit, and names them by number."""

    of_parts: Any
    sizes: dict[Any, int]

    def refresh(self) -> None:
        """Learn of what was registered since; the compiler's own is known."""
        self.install_registry(builtin_registry)

    def subtarget(self, **kws: Any) -> Any:  # noqa: ANN401 - as its base
        if self.of_parts is None:
            self.of_parts = super().subtarget(**kws)
        return self.of_parts

    def get_abi_sizeof(self, ty: Any) -> int:  # noqa: ANN401 - as its base
        if ty not in self.sizes:
            self.sizes[ty] = super().get_abi_sizeof(ty)
        return self.sizes[ty]

    def mangler(self, name: str, types: Any, *, abi_tags: Any = (), uid: Any = None) -> str:  # noqa: ANN401, ARG002 - as its base
        kind = "environment" if name.startswith(".NumbaEnv") else "part"
        return f"{kind}{uid}.{name.rsplit('.', 1)[-1]}"


class _Library(JITCodeLibrary):  # type: ignore[misc] # untyped
    """One module that all parts lower into; what else they call is linked at the end."""

    def __init__(self, codegen: Any, name: str) -> None:  # noqa: ANN401 - untyped
        super().__init__(codegen, name)
        self.parts = super().create_ir_module(name)
        self.others: dict[Any, None] = {}

    def create_ir_module(self, name: str) -> Any:  # noqa: ANN401, ARG002 - as its base
        return self.parts

    def add_ir_module(self, ir_module: Any) -> None:  # noqa: ANN401 - as its base
        if ir_module is not self.parts:
            super().add_ir_module(ir_module)

    def add_linking_library(self, library: Any) -> None:  # noqa: ANN401 - as its base
        if library is not self:
            self.others[library] = None


class _Unit:
    """What parts compile into, while they do: they are one at a time."""

    library: Any = None
    typing: Any = None
    target: Any = None

    def begin(self, name: str) -> None:
        """Begin a module without parts."""
        cpu_target.target_context.refresh()
        self.typing = copy.copy(cpu_target.typing_context)
        self.typing.__class__ = _Typing
        self.typing.calls, self.typing.attributes = {}, {}
        self.target = copy.copy(cpu_target.target_context)
        self.target.__class__ = _Target
        self.target.typing_context = self.typing
        self.target.of_parts, self.target.sizes = None, {}
        self.library = _Library(self.target.codegen(), name)

    def end(self) -> None:
        """Forget the module."""
        self.library = self.typing = self.target = None


_UNIT: Final = _Unit()


@register_pass(mutates_CFG=True, analysis_only=False)
class _Settling(FunctionPass):  # type: ignore[misc] # untyped
    """Takes out the branches that follow from settled fields."""

    _name = "perfatlas_settling"

    def __init__(self) -> None:
        """Nothing is kept from part to part."""
        super().__init__()

    def run_pass(self, state: Any) -> bool:  # noqa: ANN401 - untyped
        """Take them out of one part."""
        blocks = state.func_ir.blocks
        values = settling.settled_values(state.args, list(_assignments(blocks)))
        changed = False
        for block in blocks.values():
            last = block.body[-1]
            if isinstance(last, ir.Branch) and last.cond.name in values:
                label = last.truebr if values[last.cond.name] else last.falsebr
                block.body[-1] = ir.Jump(label, last.loc)
                changed = True
        if changed:
            for label in compute_cfg_from_blocks(blocks).dead_nodes():
                del blocks[label]
            state.func_ir._definitions = build_definitions(blocks)  # noqa: SLF001 - as its own passes do
            PostProcessor(state.func_ir).run()
        return changed


def _assignments(blocks: dict[int, Any]) -> Iterator[tuple[str, settling.Assigned]]:
    """Yield the assignments of a part in the order of its source."""
    for label in sorted(blocks):
        for one in blocks[label].body:
            if isinstance(one, ir.Assign):
                yield one.target.name, _assigned(one.value)


def _assigned(value: Any) -> settling.Assigned:  # noqa: ANN401 - untyped
    """Return what is assigned."""
    if isinstance(value, ir.Arg):
        return settling.Argument(value.index)
    if isinstance(value, ir.Const | ir.Global | ir.FreeVar):
        return settling.Known(value.value)
    if isinstance(value, ir.Var):
        return settling.Alias(value.name)
    return _expressed(value) if isinstance(value, ir.Expr) else None


def _expressed(value: Any) -> settling.Assigned:  # noqa: ANN401 - untyped
    """Return what an expression assigns."""
    if value.op in ("getitem", "static_getitem"):
        return settling.Item(value.value.name)
    if value.op == "getattr":
        return settling.Field(value.value.name, value.attr)
    if value.op == "binop":
        return settling.Comparison(value.fn, (value.lhs.name, value.rhs.name))
    if value.op == "call":
        return settling.Call(value.func.name, tuple(one.name for one in value.args))
    return None


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(typed_passes.NativeLowering):  # type: ignore[misc] # untyped
    """Lowers a part into the module of its unit and makes it known to callers, unfinished."""

    _name = "perfatlas_lowering"

    def run_pass(self, state: Any) -> bool:  # noqa: ANN401 - untyped
        """Lower a part."""
        super().run_pass(state)
        lowered = state["cr"]
        function = state.library.parts.get_global(lowered.fndesc.llvm_func_name)
        kinds = {
            f"arg.{name}": kind for name, kind in zip(lowered.fndesc.args, state.args, strict=True)
        }
        for argument in function.args:
            kind = kinds.get(argument.name)
            if isinstance(kind, Columns):
                argument.attributes.dereferenceable = kind.size
                argument.attributes.align = 8
        module, name = lowered.fndesc.lookup_module(), lowered.fndesc.qualname
        stand_in = _dynfunc.make_function(module, name, "", 0, lowered.env, ())
        state.targetctx.insert_user_function(stand_in, lowered.fndesc, ())
        state["cr"] = lowered._replace(cfunc=stand_in)
        return True


_PASSES: Final = (
    untyped_passes.TranslateByteCode,
    untyped_passes.FixupArgs,
    untyped_passes.IRProcessing,
    _Settling,
    untyped_passes.GenericRewrites,
    untyped_passes.ReconstructSSA,
    typed_passes.NopythonTypeInference,
    typed_passes.PreLowerStripPhis,
    typed_passes.IRLegalization,
)


class _Pipeline(compiler.CompilerBase):  # type: ignore[misc] # untyped
    """Compiles a part: without closures to inline, loops to lift, Python to fall back to."""

    def __init__(self, *given: Any) -> None:  # noqa: ANN401 - untyped
        _, _, _, args, return_type, flags, types_of_locals = given
        flags.no_compile = True
        unit = (_UNIT.typing, _UNIT.target, _UNIT.library)
        super().__init__(*unit, args, return_type, flags, types_of_locals)

    def define_pipelines(self) -> list[Any]:
        """Return the passes."""
        manager = PassManager("perfatlas")
        for one in (*_PASSES, _Lowering, typed_passes.NoPythonBackend):
            manager.add_pass(one, one.__name__)
        manager.finalize()
        return [manager]


class _PartCompiler(_FunctionCompiler):  # type: ignore[misc] # untyped
    """Compiles a part once, whatever the width of the integers it is called with."""

    def fold_argument_types(self, args: Any, kws: Any) -> Any:  # noqa: ANN401 - as its base
        signature, folded = super().fold_argument_types(args, kws)
        return signature, tuple(_widest(one) for one in folded)


def _widest(kind: Any) -> Any:  # noqa: ANN401 - untyped
    """Return the type that an argument is passed as."""
    kind = types.unliteral(kind)
    if isinstance(kind, types.Integer) and kind.signed:
        return types.int64
    if type(kind) in (types.Tuple, types.UniTuple):
        return types.Tuple([_widest(one) for one in kind.types])
    return kind


def part(function: FunctionType, *, inline: bool = False) -> Any:  # noqa: ANN401 - untyped
    """Return what callers compiled by `machine_code` call.

    Args:
        function: A function whose own parts are bound.
        inline: It is copied into its callers.
    """
    made = njit(pipeline_class=_Pipeline, forceinline=inline, **OPTIONS)(function)
    options = (made.targetdescr, made.targetoptions, made.locals)
    made._compiler = _PartCompiler(function, *options, _Pipeline)  # noqa: SLF001 - as said above
    return made


@global_compiler_lock
def machine_code(function: FunctionType, signature: Any, name: str) -> MachineCode:  # noqa: ANN401 - untyped
    """Return machine code of a function and all it calls.

    Args:
        function: From the addresses of arguments and result to 0; its parts are bound.
        signature: Types of those.
        name: Of the function in the machine code.
    """
    collecting = gc.isenabled()
    gc.disable()  # millions of objects live until the end: looking through them is a fifth of all
    try:
        module, options = _lowered(function, signature, name)
    finally:
        if collecting:
            gc.enable()
    for one in (*module.functions, *module.global_variables):
        if not one.is_declaration and one.name != name:
            one.linkage = "internal"
    module.verify()
    machine = target_machine()
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    code: bytes = machine.emit_object(module)
    return MachineCode(name, _symbols(module), code)


def _lowered(function: FunctionType, signature: Any, name: str) -> tuple[Any, Any]:  # noqa: ANN401 - untyped
    """Return a module with a function and all it calls, and how it is to be optimised."""
    _UNIT.begin(name)
    try:
        inner = part(function).get_compile_result(signature).fndesc.llvm_func_name
        text = str(_UNIT.library.parts)
        module = llvm.parse_assembly(text)
        for library in _UNIT.library.others:
            module.link_in(library._final_module, preserve=True)  # noqa: SLF001 - as said above
    finally:
        _UNIT.end()
    module.link_in(llvm.parse_assembly(_OUTER.format(name=name, inner=inner)))
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    if len(text) > SMALL:
        options.speed_level, options.inlining_threshold = 1, INLINED
    return module, options


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
