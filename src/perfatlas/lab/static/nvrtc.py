"""CUDA C++ compiled by NVRTC, NVIDIA's compiler as a library; it needs no GPU."""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Final

from perfatlas.lab.static.compiled import Compiled
from perfatlas.lab.static.elf import cubin_kernels
from perfatlas.lab.static.ptx import ptx_columns
from perfatlas.lab.static.tools import PIP_CUDA, nvidia_files
from perfatlas.quantities import InvalidSpecError, MissingDependencyError, printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from perfatlas.lab.static.kernel import Kernel

SPILLS: Final = re.compile(
    r"Function properties for (\S+)\s+ptxas\s+\.?\s*(\d+) bytes stack frame,"
    r" (\d+) bytes spill stores"
)
# Instructions of one architecture alone (wgmma, tcgen05) are behind the suffix "a".
FIRST_WITH_SUFFIX: Final = 90
MOST_LOG: Final = 1500  # characters of a compiler's message


def compile_cuda(path: Path, source: bytes, target: str) -> Compiled:
    """Return the kernels of a CUDA C++ source.

    Args:
        path: The file; headers beside it are found.
        source: Its bytes.
        target: Such as sm_90.

    Raises:
        MissingDependencyError: NVRTC is not installed.
        InvalidSpecError: The source does not compile.
    """
    library = _library()
    architecture = architecture_of(target)
    folders = [path.parent, *include_folders()]
    options = [f"-arch={architecture}", "-std=c++17", "-default-device", "--ptxas-options=-v"]
    options += [f"-I{folder}" for folder in folders]
    cubin, ptx, log = _compile(library, path, source, options)
    ptx_text = ptx.rstrip(b"\0").decode("utf-8", "replace")
    spills = {match[1]: int(match[3]) for match in SPILLS.finditer(log)}
    kernels = [_with_log(one, spills, ptx_text) for one in cubin_kernels(cubin, path.name)]
    return Compiled(
        kernels=kernels,
        command=f"nvrtc {' '.join(options)} {path}",
        versions={"nvrtc": _version(library)} | wheel_versions(),
        cubins=(cubin,),
        texts={"ptx": ptx_text},
    )


def architecture_of(target: str) -> str:
    """Return the target for compilers, with the suffix of its own instructions.

    Args:
        target: Such as sm_90.

    Example:
        >>> from perfatlas.lab.static.nvrtc import architecture_of
        >>> architecture_of("sm_80"), architecture_of("sm_100")
        ('sm_80', 'sm_100a')
    """
    number = int(target.removeprefix("sm_"))
    return f"sm_{number}a" if number >= FIRST_WITH_SUFFIX else f"sm_{number}"


def include_folders() -> list[Path]:
    """Return the folders of CUDA's headers: of the runtime, and of CCCL."""
    runtime = nvidia_files("include/cuda_runtime.h")[:1]
    cccl = nvidia_files("include/cccl")[:1]
    return [*(one.parent for one in runtime), *cccl]


def wheel_versions() -> dict[str, str]:
    """Return the versions of the packages of the `cuda` extra that are installed."""
    names = ("nvrtc", "cccl", "runtime", "nvdisasm")
    found = {}
    for name in (f"nvidia-cuda-{one}" for one in names):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _with_log(kernel: Kernel, spills: dict[str, int], ptx: str) -> Kernel:
    """Return a kernel with the spills and tensor memory that the compiler states."""
    _, _, body = ptx.partition(f".entry {kernel.function}(")
    body, _, _ = body.partition(".entry ")
    return replace(
        kernel,
        spills_bytes=spills.get(kernel.function, kernel.spills_bytes),
        tensor_memory_columns=ptx_columns(body),
    )


@cache
def _library() -> ctypes.CDLL:
    for path in nvidia_files("lib/libnvrtc.so.*"):
        if "alt" not in path.name:
            return ctypes.CDLL(str(path))
    try:
        return ctypes.CDLL("libnvrtc.so")
    except OSError as problem:
        raise MissingDependencyError(
            f"CUDA C++ needs NVRTC, which is not installed; {PIP_CUDA}"
        ) from problem


def _version(library: ctypes.CDLL) -> str:
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


def _compile(
    library: ctypes.CDLL, path: Path, source: bytes, options: Sequence[str]
) -> tuple[bytes, bytes, str]:
    """Return cubin, PTX and log."""
    program = ctypes.c_void_p()
    made = library.nvrtcCreateProgram(
        ctypes.byref(program), source, str(path).encode(), 0, None, None
    )
    if made:
        raise InvalidSpecError(f"NVRTC cannot read {printable(str(path))}: error {made}")
    try:
        words = (ctypes.c_char_p * len(options))(*(one.encode() for one in options))
        failed = library.nvrtcCompileProgram(program, len(options), words)
        log = _product(library, program, "ProgramLog").rstrip(b"\0").decode("utf-8", "replace")
        if failed:
            raise InvalidSpecError(
                f"NVRTC cannot compile {printable(path.name)} for {options[0]}:"
                f" {printable(log.strip()[:MOST_LOG])}"
            )
        return _product(library, program, "CUBIN"), _product(library, program, "PTX"), log
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _product(library: ctypes.CDLL, program: ctypes.c_void_p, name: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{name}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{name}")(program, buffer)
    return buffer.raw
