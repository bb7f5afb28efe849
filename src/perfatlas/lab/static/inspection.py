"""A file of kernels, compiled for targets where it is source, as facts of each kernel."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import check_regular
from perfatlas.lab.static import elf
from perfatlas.lab.static.amdgcn import amdgcn_kernels
from perfatlas.lab.static.kernel import Compiled
from perfatlas.lab.static.nvrtc import compile_cuda
from perfatlas.lab.static.occupancy import (
    launch_problem,
    limits_of,
    occupancy_of,
    plain_target,
    target_names,
)
from perfatlas.lab.static.ptx import ptx_kernels
from perfatlas.lab.static.sass import disassemble, functions_of, with_instructions
from perfatlas.lab.static.tools import PIP_CUDA, find_nvdisasm
from perfatlas.lab.static.triton_source import TritonRequest, compile_triton
from perfatlas.quantities import InvalidSpecError, counted, did_you_mean, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from perfatlas.lab.static.kernel import Instructions, Kernel, Line

# Matrix instructions that read block scales.
SCALED: Final = ("UTCOMMA", "UTCQMMA", "OMMA", "QMMA.SF", "v_mfma_scale", "v_mfma_ld_scale")


MAX_BYTES: Final = 1 << 29  # of a file
MAX_SOURCE_BYTES: Final = 1 << 24
TRITON: Final = (".py", ".ttir", ".ttgir")
SOURCES: Final = (".cu", *TRITON)
ASSEMBLIES: Final = (".amdgcn", ".s")
NO_TOOL: Final = (
    "instructions, matrix instructions, TMA, setmaxnreg and tensor memory are not known: nvdisasm"
    f" is not installed; {PIP_CUDA}"
)


def silent_decisions(kernel: Kernel) -> list[str]:
    """Return what the compiler decided against the source, or at the cost of speed."""
    instructions, limits, target = kernel.instructions, limits_of(kernel.target), kernel.target
    if instructions is None:
        return []
    texts = []
    if kernel.asks_specialization and not kernel.setmaxnreg:
        texts.append(
            "the source asks for warp specialization (warp_specialize), and the kernel has no"
            f" setmaxnreg: the compiler ignored it for {target}"
        )
    kinds = sorted({name.partition(".")[0] for name in instructions.mma})
    if kernel.asks_scaled_mma and not any(name.startswith(SCALED) for name in instructions.mma):
        texts.append(
            f"block-scaled products (tl.dot_scaled) are emulated by {', '.join(kinds) or 'FMA'},"
            " which reads no scales"
        )
    if kernel.asks_mma and not kinds:
        texts.append("tl.dot runs without matrix instructions")
    if limits and kinds and set(kinds) <= set(limits.older_mma):
        texts.append(
            f"{', '.join(kinds)} (mma.sync) is of older GPUs: {limits.own_mma} is the matrix"
            f" instruction of {target}"
        )
    loop = kernel.main_loop
    if loop and loop.local_loads + loop.local_stores:
        texts.append(_local(loop, " in the main loop"))
    elif instructions.local_loads + instructions.local_stores:
        texts.append(_local(instructions, ", none in the main loop" if loop else ""))
    return texts


def _local(instructions: Instructions, where: str) -> str:
    loads, stores = instructions.local_loads, instructions.local_stores
    accesses = f"{counted(loads, 'load')} and {counted(stores, 'store')}"
    return f"{accesses} of local memory (spills or local arrays){where}"


@dataclass(frozen=True, kw_only=True)
class Compilation:
    """What is asked of a file."""

    targets: tuple[str, ...] = ()  # Targets to compile for; a compiled file has its own
    function: str | None = None  # The only kernel wanted: its name, or a part that no other has
    options: Mapping[str, int] = field(default_factory=dict)  # Options of Triton, such as num_warps
    threads: int | None = None  # Threads of a block, where the file does not state them
    shared_memory_bytes: int | None = None  # Dynamic shared memory of a launch [bytes]
    # By target, rows of the kernels of a `.py` file without `KERNELS`
    declared: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """Facts of the kernels of a file as rows, and what compilers made of it."""

    rows: list[dict[str, Any]]
    kernels: list[Kernel]  # of the rows
    compiled: dict[str, Compiled]
    notes: list[str]


def inspect(path: Path, compilation: Compilation) -> Inspection:
    """Return the facts of the kernels of a file.

    A `.py` file is run, in a process of its own, to compile its kernels.

    Args:
        path: A cubin, fat binary, PTX, AMD assembly, CUDA C++, Triton or Gluon source.
        compilation: Targets, kernel and launch.

    Raises:
        InvalidSpecError: The file cannot be read, is damaged, does not compile, or has no such
            kernel or target.
        MissingDependencyError: The compiler of the source is not installed.
    """
    compilation = replace(compilation, targets=tuple(map(plain_target, compilation.targets)))
    check_regular(path, "kernel file")
    try:
        size = path.stat().st_size
        most = MAX_SOURCE_BYTES if path.suffix in SOURCES else MAX_BYTES
        if size > most:
            raise InvalidSpecError(
                f"{printable(str(path))} has {size:,} bytes, more than {most:,}: extract its"
                " kernels with `cuobjdump --extract-elf all FILE`"
            )
        data = path.read_bytes()
    except OSError as problem:
        raise InvalidSpecError(
            f"kernel file {printable(str(path))} cannot be read: {problem.strerror}"
        ) from problem
    if not data.strip(b"\0 \t\r\n"):
        raise InvalidSpecError(f"kernel file {printable(str(path))} is empty")
    notes: list[str] = []
    compiled = _compiled(path, data, compilation)
    kernels = []
    for products in compiled.values():
        chosen = _chosen(products.kernels, compilation.function, path)
        full = disassembled(products, notes, chosen)
        kernels += [_launched(kernel, compilation) for kernel in full]
    if kernels and all(kernel.registers is None for kernel in kernels):
        notes.append("PTX shows no registers, spills or occupancy: ptxas decides them")
    return Inspection(
        rows=[kernel_row(kernel, path.name) for kernel in kernels],
        kernels=kernels,
        compiled=compiled,
        notes=list(dict.fromkeys(notes)),
    )


def _compiled(path: Path, data: bytes, compilation: Compilation) -> dict[str, Compiled]:
    """Return the products of each target; those of a compiled file are the file."""
    if path.suffix in SOURCES:
        if not compilation.targets:
            names = ", ".join(target_names())
            raise InvalidSpecError(f"{path.suffix} is source: set --target to one of {names}")
        return _from_source(path, data, compilation)
    products = _from_products(path, data)
    targets = {kernel.target for kernel in products.kernels}
    wanted = set(compilation.targets)
    if missing := sorted(wanted - targets):
        raise InvalidSpecError(
            f"{printable(path.name)} has code for {', '.join(sorted(targets))}, none for"
            f" {', '.join(missing)}: compile its source for that target"
        )
    kernels = [kernel for kernel in products.kernels if not wanted or kernel.target in wanted]
    return {"": replace(products, kernels=kernels)}


def _from_source(path: Path, data: bytes, compilation: Compilation) -> dict[str, Compiled]:
    if path.suffix == ".cu":
        if other := [target for target in compilation.targets if not target.startswith("sm_")]:
            raise InvalidSpecError(f"NVRTC compiles CUDA C++ for sm_ targets, not for {other[0]}")
        return {target: compile_cuda(path, data, target) for target in compilation.targets}
    requests = [
        TritonRequest(
            path=path,
            target=target,
            function=compilation.function,
            options=compilation.options,
            declared=compilation.declared.get(target),
        )
        for target in compilation.targets
    ]
    return dict(zip(compilation.targets, compile_triton(requests), strict=True))


def _from_products(path: Path, data: bytes) -> Compiled:
    if data.startswith(elf.MAGIC) and elf.read_elf(data, path.name).machine == elf.CUDA:
        return Compiled(kernels=elf.cubin_kernels(data, path.name), cubins=(data,))
    if elf.FATBIN_MAGIC in data:
        cubins = elf.embedded_cubins(data, path.name)
        kernels = [kernel for cubin in cubins for kernel in elf.cubin_kernels(cubin, path.name)]
        return Compiled(kernels=kernels, cubins=tuple(cubins))
    if data.startswith(elf.MAGIC):
        return Compiled(kernels=elf.cubin_kernels(data, path.name))
    text = data.decode("utf-8", "replace")
    if ".amdgcn_target" in text or path.suffix in ASSEMBLIES:
        return Compiled(kernels=amdgcn_kernels(text, path.name), texts={"amdgcn": text})
    if path.suffix == ".ptx" or (".version" in text and ".entry" in text):
        return Compiled(kernels=ptx_kernels(text, path.name), texts={"ptx": text})
    raise InvalidSpecError(
        f"{printable(path.name)} is none of the files that perfatlas inspects: a cubin, fat binary,"
        f" PTX, AMD assembly, or a source ({', '.join(SOURCES)})"
    )


def _chosen(kernels: Sequence[Kernel], function: str | None, path: Path) -> list[Kernel]:
    if function is None:
        return list(kernels)
    exact = [kernel for kernel in kernels if kernel.function == function]
    matches = exact or [kernel for kernel in kernels if function in kernel.function]
    if len({kernel.function for kernel in matches}) == 1:
        return matches
    names = list(dict.fromkeys(kernel.function for kernel in matches or kernels))
    listed = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    what = f"{len(names)} kernels" if matches else "no kernel"
    raise InvalidSpecError(
        f"{printable(path.name)} has {what} of the name {function!r}"
        f"{'' if matches else did_you_mean(function, names)}; kernels: {printable(listed)}"
    )


def disassembled(
    products: Compiled, notes: list[str], chosen: Sequence[Kernel] | None = None
) -> list[Kernel]:
    """Return kernels with their instructions, where the tool for it is there.

    Args:
        products: What one compilation made.
        notes: Where it is added that instructions are not known.
        chosen: The wanted kernels, by default all.
    """
    kernels = products.kernels if chosen is None else chosen
    tool = find_nvdisasm() if products.cubins else None
    if tool is None:
        notes += [NO_TOOL] if products.cubins else []
        return list(kernels)
    lines: dict[tuple[str, str], Sequence[Line]] = {}
    for cubin in products.cubins:
        target = f"sm_{elf.read_elf(cubin, 'cubin').sm}"
        if all(kernel.target != target for kernel in kernels):
            continue
        try:
            functions = functions_of(disassemble(tool, cubin))
        except InvalidSpecError as problem:
            notes.append(f"instructions are not known: {problem}")
            continue
        lines |= {(name, target): text for name, text in functions.items()}
    pairs = [(kernel, lines.get((kernel.function, kernel.target))) for kernel in kernels]
    return [
        kernel if of_it is None else with_instructions(kernel, of_it) for kernel, of_it in pairs
    ]


def _launched(kernel: Kernel, compilation: Compilation) -> Kernel:
    """Return a kernel with what is known of its launch."""
    if compilation.threads is not None:
        kernel = replace(kernel, threads=compilation.threads)
    if compilation.shared_memory_bytes is not None:
        total = (kernel.shared_memory_bytes or 0) + compilation.shared_memory_bytes
        kernel = replace(kernel, shared_memory_bytes=total, shared_memory_is_static=False)
    return kernel


def kernel_row(kernel: Kernel, file: str) -> dict[str, Any]:
    """Return the facts of a kernel as JSON values; None where they are not known."""
    facts = asdict(kernel)
    instructions, problem = kernel.instructions, launch_problem(kernel)
    return {
        "file": file,
        **{name: value for name, value in facts.items() if not name.startswith("asks_")},
        "mma": dict(instructions.mma) if instructions else None,
        "warp_specialized": None if kernel.setmaxnreg is None else kernel.setmaxnreg > 0,
        "occupancy": occupancy_of(kernel),
        "launch_problem": problem or None,
        "warnings": [*([problem] if problem else []), *silent_decisions(kernel)],
    }
