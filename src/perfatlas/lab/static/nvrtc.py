"""CUDA C++ compiled by NVRTC, NVIDIA's compiler as a library; it needs no GPU."""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Final

from perfatlas.lab.static.elf import cubin_kernels
from perfatlas.lab.static.kernel import Compiled
from perfatlas.lab.static.ptx import ptx_columns
from perfatlas.lab.static.tools import PIP_CUDA, nvidia_files
from perfatlas.quantities import InvalidSpecError, MissingDependencyError, printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SPILLS: Final = re.compile(
    r"Function properties for (\S+)\s+ptxas\s+\.?\s*\d+ bytes stack frame, (\d+) bytes spill stores"
)
FIRST_WITH_SUFFIX: Final = 90  # wgmma and tcgen05 are behind the suffix "a"
MAX_LOG: Final = 1500  # characters of a compiler's message
PACKAGES: Final = tuple(f"nvidia-cuda-{name}" for name in ("nvrtc", "cccl", "runtime", "nvdisasm"))


def compile_cuda(path: Path, source: bytes, target: str) -> Compiled:
    """Return the kernels of a CUDA C++ source.

    Args:
        target: Such as sm_90.
    """
    number = int(target.removeprefix("sm_"))
    suffix = "a" if number >= FIRST_WITH_SUFFIX else ""
    headers = [
        *(nvidia_file.parent for nvidia_file in nvidia_files("include/cuda_runtime.h")[:1]),
        *nvidia_files("include/cccl")[:1],
    ]
    options = [f"-arch={target}{suffix}", "-std=c++17", "-default-device", "--ptxas-options=-v"]
    options += [f"-I{folder}" for folder in (path.parent, *headers)]
    cubin, ptx, log = _compile(_library(), path, source, options)
    spills = {name: int(count) for name, count in SPILLS.findall(log)}
    kernels = [
        replace(
            cubin_kernel,
            spills_bytes=spills.get(cubin_kernel.function, cubin_kernel.spills_bytes),
            tensor_memory_columns=ptx_columns(_entry(ptx, cubin_kernel.function)),
        )
        for cubin_kernel in cubin_kernels(cubin, path.name)
    ]
    return Compiled(
        kernels=kernels,
        command=f"nvrtc {' '.join(options)} {path}",
        versions=_versions(),
        cubins=(cubin,),
        texts={"ptx": ptx},
    )


def _entry(ptx: str, function: str) -> str:
    return ptx.partition(f".entry {function}(")[2].partition(".entry ")[0]


def _versions() -> dict[str, str]:
    """Return the versions of the packages of the extra that are installed."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


@cache
def _library() -> ctypes.CDLL:
    packaged = [
        nvidia_file
        for nvidia_file in nvidia_files("lib/libnvrtc.so.*")
        if "alt" not in nvidia_file.name
    ]
    try:
        return ctypes.CDLL(str(packaged[0]) if packaged else "libnvrtc.so")
    except OSError as problem:
        raise MissingDependencyError(
            f"CUDA C++ needs NVRTC, which is not installed; {PIP_CUDA}"
        ) from problem


def _compile(
    library: ctypes.CDLL, path: Path, source: bytes, options: Sequence[str]
) -> tuple[bytes, str, str]:
    """Return cubin, PTX and log."""
    program = ctypes.c_void_p()
    name = str(path).encode("utf-8", "replace")
    if library.nvrtcCreateProgram(ctypes.byref(program), source, name, 0, None, None):
        raise InvalidSpecError(f"NVRTC cannot read {printable(str(path))}")
    try:
        words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        failed = library.nvrtcCompileProgram(program, len(options), words)
        log = _product(library, program, "ProgramLog").rstrip(b"\0").decode("utf-8", "replace")
        if failed:
            raise InvalidSpecError(
                f"NVRTC cannot compile {printable(path.name)} for {options[0]}:"
                f" {printable(log.strip()[:MAX_LOG])}"
            )
        ptx = _product(library, program, "PTX").rstrip(b"\0").decode("utf-8", "replace")
        return _product(library, program, "CUBIN"), ptx, log
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _product(library: ctypes.CDLL, program: ctypes.c_void_p, name: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{name}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{name}")(program, buffer)
    return buffer.raw
