"""Kernels of Triton and Gluon, compiled in a process of their own.

Compiling a `.py` file runs it, as importing it would. The process protects perfatlas from crashes
and settings; it is no sandbox against a hostile file.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas.lab.static.amdgcn import amdgcn_kernels
from perfatlas.lab.static.elf import cubin_kernels
from perfatlas.lab.static.kernel import Compiled
from perfatlas.lab.static.tools import PIP_BENCH, run_tool
from perfatlas.quantities import InvalidSpecError, MissingDependencyError, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.lab.static.kernel import Kernel

CHILD: Final = Path(__file__).with_name("triton_process.py")
MAX_MESSAGE: Final = 600  # characters


@dataclass(frozen=True, kw_only=True)
class TritonRequest:
    """Kernels to compile for one target."""

    path: Path  # A `.py` file, or a `.ttir` or `.ttgir` file
    target: str  # Such as sm_90 or gfx942
    function: str | None = None  # The only kernel to compile, of a `.py` file
    # Options of the compiler that override those of the file
    options: Mapping[str, int] = field(default_factory=dict)
    # Rows by kernel, instead of the `KERNELS` of a `.py` file
    declared: Mapping[str, Mapping[str, Any]] | None = None
    # Whether a problem of the compiler is returned instead of ending all requests
    may_fail: bool = False


def compile_triton(requests: Sequence[TritonRequest]) -> list[Compiled]:
    """Return the kernels of Triton sources, compiled in one process.

    Args:
        requests: What is compiled.

    Raises:
        MissingDependencyError: Triton is not installed.
        InvalidSpecError: A file does not declare kernels, or does not compile.
    """
    if importlib.util.find_spec("triton") is None:
        raise MissingDependencyError(f"Triton is not installed; {PIP_BENCH}")
    with tempfile.TemporaryDirectory() as folder:
        answer = _run(requests, Path(folder))
        versions = answer["versions"]
        return [
            _read(made, Path(folder), request.path.name, versions)
            for request, made in zip(requests, answer["compiled"], strict=True)
        ]


def _read(
    made: Mapping[str, Any], folder: Path, name: str, versions: Mapping[str, str]
) -> Compiled:
    """Return the products of a request."""
    kernels: list[Kernel] = []
    cubins: list[bytes] = []
    texts = dict.fromkeys(("ttir", "ttgir", "ptx", "amdgcn"), "")
    for row in made["kernels"]:
        files = {path.suffix[1:]: path for path in folder.glob(f"{row['file']}.*")}
        written = {kind: files[kind].read_text("utf-8") for kind in texts if kind in files}
        texts |= {kind: texts[kind] + text for kind, text in written.items()}
        if "cubin" in files:
            cubins.append(files["cubin"].read_bytes())
            new = cubin_kernels(cubins[-1], name)
        else:
            new = amdgcn_kernels(written["amdgcn"], name)
        kernels += [_completed(kernel, row, written.get("ttir", "")) for kernel in new]
    return Compiled(
        kernels=kernels,
        command=made["command"],
        versions=versions,
        cubins=tuple(cubins),
        texts={kind: text for kind, text in texts.items() if text},
        problem=printable(made.get("problem", "")[:MAX_MESSAGE]),
    )


def _completed(kernel: Kernel, row: Mapping[str, Any], ir: str) -> Kernel:
    """Return a kernel with what Triton decides at launch, and what its source asks for."""
    return replace(
        kernel,
        shared_memory_bytes=row["shared"],
        shared_memory_is_static=False,
        threads=kernel.threads or row["threads"],
        tensor_memory_columns=row["columns"],
        asks_specialization="tt.warp_specialize" in ir,
        asks_scaled_mma="tt.dot_scaled" in ir,
        asks_mma="tt.dot" in ir,
    )


def _run(requests: Sequence[TritonRequest], folder: Path) -> dict[str, Any]:
    """Return the answer of the process that runs the files."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(folder / "cache")
    environment.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    words: list[str | Path] = [sys.executable, "-P", CHILD, folder]
    described = [asdict(request) | {"path": str(request.path.resolve())} for request in requests]
    code, _, messages = run_tool(words, text=json.dumps(described), environment=environment)
    answer = folder / "answer.json"
    if code or not answer.is_file():
        lines = [line for line in messages.splitlines() if line.strip()]
        text = lines[-1] if lines else f"the process ended with {code}"
        names = ", ".join(dict.fromkeys(request.path.name for request in requests))
        targets = ", ".join(dict.fromkeys(request.target for request in requests))
        raise InvalidSpecError(
            f"{printable(names)} does not compile for {targets}: {printable(text[:MAX_MESSAGE])}"
        )
    kernels: dict[str, Any] = json.loads(answer.read_text("utf-8"))
    return kernels
