"""Compile all parts into one module, which is optimised and emitted once.

Numba optimises and emits every function separately and wraps it for Python and for C, although
only the entry of a simulator is called from outside. This module derives from numba's classes so
that parts lower into one module, which is optimised and emitted after the last of them. Calls of
one function with integers of several widths, or with constants, share one compilation. No class or
function of numba is patched, so other users of numba in the process are not affected.

These classes are not part of numba's public interface. `fits` returns whether the installed version
is known; otherwise `public_way` compiles the same source, with the same answers, several times
slower.
"""

from __future__ import annotations

import copy
import gc
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import llvmlite.binding as llvm
from numba import _dynfunc, njit
from numba.core import compiler, ir, typed_passes, types, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import _FunctionCompiler
from numba.core.errors import TypingError
from numba.core.funcdesc import PythonFunctionDescriptor
from numba.core.imputils import builtin_registry
from numba.core.ir_utils import build_definitions, compute_cfg_from_blocks
from numba.core.lowering import Lower
from numba.core.registry import cpu_target
from numba.core.rewrites import rewrite_registry
from numba.core.ssa import reconstruct_ssa
from numba.core.targetconfig import ConfigStack
from numba.core.transforms import canonicalize_cfg
from numba.core.typing import signature
from numba.extending import models, register_model

from perfatlas.compiled import settling
from perfatlas.compiled.column_types import Columns
from perfatlas.compiled.machine_code import target_machine
from perfatlas.compiled.unit_files import MachineCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FunctionType

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


OPTIONS: Final[dict[str, Any]] = {
    "error_model": "numpy",
    "_nrt": False,  # nothing allocates, so no reference counting
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}


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


class _Operation(types.Function):  # type: ignore[misc] # untyped
    """A built-in function of the compiler that caches its result types."""

    def __init__(self, templates: Any) -> None:  # noqa: ANN401 - untyped
        super().__init__(templates)
        self.call_types: dict[Any, Any] = {}

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:  # noqa: ANN401 - as its base
        if kws or not _hashable(args):
            return super().get_call_type(context, args, kws)
        if args not in self.call_types:
            try:
                self.call_types[args] = super().get_call_type(context, args, kws)
            except TypingError as error:
                self.call_types[args] = str(error)
        call_type = self.call_types[args]
        if isinstance(call_type, str):
            raise TypingError(call_type)
        return call_type


register_model(_Operation)(models.OpaqueModel)


def _hashable(args: Any) -> bool:  # noqa: ANN401 - untyped
    """Return whether types are hashable; that of a constant slice is not."""
    try:
        hash(args)
    except TypeError:
        return False
    return True


class _Typing(type(cpu_target.typing_context)):  # type: ignore[misc] # untyped
    """Caches the types of calls, attributes and names, which never change."""

    calls: dict[Any, Any]
    attributes: dict[Any, Any]
    operations: dict[Any, Any]

    def refresh(self) -> None:
        """Load registrations made since; the compiler's own are known."""
        self._load_builtins()

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:  # noqa: ANN401 - as its base
        if kws or not _hashable(args):
            return super().resolve_function_type(func, args, kws)
        signature = self.calls.get((func, args))
        if signature is None:
            signature = self.calls[func, args] = super().resolve_function_type(func, args, kws)
        return signature

    def resolve_getattr(self, typ: Any, attr: str) -> Any:  # noqa: ANN401 - as its base
        attribute = self.attributes.get((typ, attr))
        if attribute is None:
            attribute = self.attributes[typ, attr] = super().resolve_getattr(typ, attr)
        return attribute

    def resolve_value_type(self, val: Any) -> Any:  # noqa: ANN401 - as its base
        value_type = super().resolve_value_type(val)
        if type(value_type) is not types.Function:
            return value_type
        if value_type not in self.operations:
            self.operations[value_type] = _Operation(value_type.templates)
        return self.operations[value_type]


class _Target(type(cpu_target.target_context)):  # type: ignore[misc] # untyped
    """Shared by all parts of a unit, which it names by number."""

    of_parts: Any
    sizes: dict[Any, int]
    functions: dict[Any, Any]

    def refresh(self) -> None:
        """Load registrations made since; the compiler's own are known."""
        self.install_registry(builtin_registry)

    def subtarget(self, **kws: Any) -> Any:  # noqa: ANN401 - as its base
        if self.of_parts is None:
            self.of_parts = super().subtarget(**kws)
        return self.of_parts

    def get_abi_sizeof(self, ty: Any) -> int:  # noqa: ANN401 - as its base
        if ty not in self.sizes:
            self.sizes[ty] = super().get_abi_sizeof(ty)
        return self.sizes[ty]

    def get_function(self, fn: Any, sig: Any, _firstcall: Any = True) -> Any:  # noqa: ANN401, FBT002 - as its base
        if (fn, sig) not in self.functions:
            try:
                self.functions[fn, sig] = super().get_function(fn, sig, _firstcall)
            except NotImplementedError as error:
                self.functions[fn, sig] = str(error)
        implementation = self.functions[fn, sig]
        if isinstance(implementation, str):
            raise NotImplementedError(implementation)
        return implementation

    def mangler(self, name: str, types: Any, *, abi_tags: Any = (), uid: Any = None) -> str:  # noqa: ANN401, ARG002 - as its base
        kind = "environment" if name.startswith(".NumbaEnv") else "part"
        return f"{kind}{uid}.{name.rsplit('.', 1)[-1]}"


class _Library(JITCodeLibrary):  # type: ignore[misc] # untyped
    """The module that all parts lower into; other code they call is linked at the end."""

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
    """The unit under compilation; there is one at a time."""

    library: Any = None
    typing: Any = None
    target: Any = None

    def begin(self, name: str) -> None:
        """Begin an empty module."""
        cpu_target.target_context.refresh()
        self.typing = copy.copy(cpu_target.typing_context)
        self.typing.__class__ = _Typing
        self.typing.calls, self.typing.attributes, self.typing.operations = {}, {}, {}
        self.target = copy.copy(cpu_target.target_context)
        self.target.__class__ = _Target
        self.target.typing_context = self.typing
        self.target.of_parts, self.target.sizes, self.target.functions = None, {}, {}
        self.library = _Library(self.target.codegen(), name)

    def end(self) -> None:
        """Release the module."""
        self.library = self.typing = self.target = None


_UNIT: Final = _Unit()


def _settle(part: Any) -> None:  # noqa: ANN401 - untyped
    """Remove the branches that settled fields rule out."""
    blocks = part.func_ir.blocks
    values = settling.settled_values(part.args, list(_assignments(blocks)))
    for block in blocks.values():
        last = block.body[-1]
        if isinstance(last, ir.Branch) and last.cond.name in values:
            label = last.truebr if values[last.cond.name] else last.falsebr
            block.body[-1] = ir.Jump(label, last.loc)
    for label in compute_cfg_from_blocks(blocks).dead_nodes():
        del blocks[label]
    part.func_ir.blocks = canonicalize_cfg(blocks)
    part.func_ir._definitions = build_definitions(part.func_ir.blocks)  # noqa: SLF001 - as its own passes do


def _assignments(blocks: dict[int, Any]) -> Iterator[tuple[str, settling.Assigned]]:
    """Yield the assignments of a part in the order of its source."""
    for label in sorted(blocks):
        for statement in blocks[label].body:
            if isinstance(statement, ir.Assign):
                yield statement.target.name, _assigned(statement.value)


def _assigned(value: Any) -> settling.Assigned:  # noqa: ANN401 - untyped
    """Return a description of an assigned value."""
    if isinstance(value, ir.Arg):
        return settling.Argument(value.index)
    if isinstance(value, ir.Const | ir.Global | ir.FreeVar):
        return settling.Known(value.value)
    if isinstance(value, ir.Var):
        return settling.Alias(value.name)
    return _expressed(value) if isinstance(value, ir.Expr) else None


def _expressed(value: Any) -> settling.Assigned:  # noqa: ANN401 - untyped
    """Return a description of an assigned expression."""
    if value.op in ("getitem", "static_getitem"):
        return settling.Item(value.value.name)
    if value.op == "getattr":
        return settling.Field(value.value.name, value.attr)
    if value.op == "binop":
        return settling.Comparison(value.fn, (value.lhs.name, value.rhs.name))
    if value.op == "call":
        return settling.Call(value.func.name, tuple(arg.name for arg in value.args))
    return None


def _rewrite(part: Any) -> None:  # noqa: ANN401 - untyped
    """Run the compiler's rewrites for constant indices and error messages."""
    blocks = part.func_ir.blocks
    for kind in rewrite_registry.rewrites["before-inference"]:
        rewrite = kind(part)
        ahead = list(blocks.items())
        while ahead:
            label, block = ahead.pop()
            if rewrite.match(part.func_ir, block, part.typemap, part.calltypes):
                blocks[label] = rewrite.apply()
                ahead.append((label, blocks[label]))


def _assign_once(part: Any) -> None:  # noqa: ANN401 - untyped
    """Convert to static single assignment."""
    part.func_ir = reconstruct_ssa(part.func_ir)
    part.func_ir._definitions = build_definitions(part.func_ir.blocks)  # noqa: SLF001 - as its own passes do


def _strip(part: Any) -> None:  # noqa: ANN401 - untyped
    """Replace phi nodes by assignments in their source blocks."""
    part.func_ir = typed_passes.PreLowerStripPhis()._strip_phi_nodes(part.func_ir)  # noqa: SLF001 - see the module docstring
    part.func_ir._definitions = build_definitions(part.func_ir.blocks)  # noqa: SLF001 - as its own passes do


def _lower(part: Any) -> None:  # noqa: ANN401 - untyped
    """Lower a part into the module of its unit and declare it to callers, unfinished."""
    target, library = part.targetctx, part.library
    described = PythonFunctionDescriptor.from_specialized_function(
        *(part.func_ir, part.typemap, part.return_type, part.calltypes),
        mangler=target.mangler,
        inline=part.flags.forceinline,
        noalias=part.flags.noalias,
        abi_tags=(),
    )
    with target.push_code_library(library):
        lowering = Lower(target, library, described, part.func_ir, metadata=part.metadata)
        lowering.lower()
    function = library.parts.get_global(described.llvm_func_name)
    kinds = {f"arg.{name}": kind for name, kind in zip(described.args, part.args, strict=True)}
    for argument in function.args:
        kind = kinds.get(argument.name)
        if isinstance(kind, Columns):
            argument.attributes.dereferenceable = kind.size
            argument.attributes.align = 8
    module, name = described.lookup_module(), described.qualname
    stand_in = _dynfunc.make_function(module, name, "", 0, lowering.env, ())
    target.insert_user_function(stand_in, described, ())
    part.cr = compiler.compile_result(
        typing_context=part.typingctx,
        target_context=target,
        entry_point=stand_in,
        library=library,
        signature=signature(part.return_type, *part.args),
        objectmode=False,
        fndesc=described,
        environment=lowering.env,
    )


class _Pipeline(compiler.CompilerBase):  # type: ignore[misc] # untyped
    """Compiles a part without inlined closures, loop lifting or object mode.

    Without reference counting, the last uses of variables need not be known.
    """

    def __init__(self, *settings: Any) -> None:  # noqa: ANN401 - untyped
        _, _, _, args, return_type, flags, types_of_locals = settings
        unit = (_UNIT.typing, _UNIT.target, _UNIT.library)
        super().__init__(*unit, args, return_type, flags, types_of_locals)

    def _compile_core(self) -> Any:  # noqa: ANN401 - as its base
        """Return the compilation result of a part."""
        part = self.state
        with ConfigStack().enter(part.flags.copy()):
            untyped_passes.TranslateByteCode().run_pass(part)
            untyped_passes.FixupArgs().run_pass(part)
            part.func_ir.generator_info = None
            _settle(part)
            _rewrite(part)
            _assign_once(part)
            typed_passes.NopythonTypeInference().run_pass(part)
            _strip(part)
            _lower(part)
        return part.cr


class _PartCompiler(_FunctionCompiler):  # type: ignore[misc] # untyped
    """Compiles a part once for all integer widths."""

    def fold_argument_types(self, args: Any, kws: Any) -> Any:  # noqa: ANN401 - as its base
        signature, folded = super().fold_argument_types(args, kws)
        return signature, tuple(_widest(kind) for kind in folded)


def _widest(kind: Any) -> Any:  # noqa: ANN401 - untyped
    """Return the type that an argument is passed as."""
    kind = types.unliteral(kind)
    if isinstance(kind, types.Integer) and kind.signed:
        return types.int64
    if type(kind) in (types.Tuple, types.UniTuple):
        return types.Tuple([_widest(item) for item in kind.types])
    return kind


def part(function: FunctionType, *, inline: bool = False) -> Any:  # noqa: ANN401 - untyped
    """Return a part that code compiled by `machine_code` can call."""
    dispatcher = njit(pipeline_class=_Pipeline, forceinline=inline, **OPTIONS)(function)
    options = (dispatcher.targetdescr, dispatcher.targetoptions, dispatcher.locals)
    dispatcher._compiler = _PartCompiler(function, *options, _Pipeline)  # noqa: SLF001 - see the module docstring
    return dispatcher


@global_compiler_lock
def machine_code(function: FunctionType, signature: Any, name: str, level: int) -> MachineCode:  # noqa: ANN401 - untyped
    """Return the machine code of a function and everything it calls.

    Args:
        function: Takes the addresses of arguments and result and returns 0; its parts are bound.
        level: LLVM's optimization level if it is large.
    """
    collecting = gc.isenabled()
    gc.disable()  # millions of objects live until the end; traversing them takes 20% of the time
    try:
        return emitted(_lowered(function, signature, name), name, level)
    finally:
        if collecting:
            gc.enable()


def _lowered(function: FunctionType, signature: Any, name: str) -> Lowered:  # noqa: ANN401 - untyped
    """Return the module of a function and its parts."""
    _UNIT.begin(name)
    try:
        inner = part(function).get_compile_result(signature).fndesc.llvm_func_name
        others = [other._final_module for other in _UNIT.library.others]  # noqa: SLF001 - see the module docstring
        return Lowered(str(_UNIT.library.parts), others, inner)
    finally:
        _UNIT.end()
