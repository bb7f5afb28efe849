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
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas.lab.static.amdgcn import amdgcn_kernels
from perfatlas.lab.static.elf import cubin_kernels
from perfatlas.lab.static.kernel import Compiled
from perfatlas.lab.static.tools import PIP_BENCH, run_tool
from perfatlas.quantities import InvalidSpecError, MissingDependencyError, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.lab.static.kernel import Kernel

CHILD: Final = Path(__file__).with_name("triton_process.py")
MAX_MESSAGE: Final = 600  # characters


def compile_triton(
    path: Path, target: str, *, function: str | None = None, options: Mapping[str, int]
) -> Compiled:
    """Return the kernels of a Triton source or of a `.ttir` file for one target.

    Args:
        path: A `.py` file with `KERNELS`, or a `.ttir` or `.ttgir` file.
        target: Such as sm_90 or gfx942.
        function: The only kernel to compile, of a `.py` file.
        options: Options of the compiler that override those of the file.

    Raises:
        MissingDependencyError: Triton is not installed.
        InvalidSpecError: The file does not declare kernels, or does not compile.
    """
    if importlib.util.find_spec("triton") is None:
        raise MissingDependencyError(f"Triton is not installed; {PIP_BENCH}")
    request = {"path": str(path.resolve()), "target": target, "function": function}
    with tempfile.TemporaryDirectory() as folder:
        answer = _run(request | {"options": dict(options)}, path, Path(folder))
        kernels: list[Kernel] = []
        cubins: list[bytes] = []
        texts = dict.fromkeys(("ttir", "ptx", "amdgcn"), "")
        for row in answer["kernels"]:
            files = {one.suffix[1:]: one for one in Path(folder).glob(f"{row['file']}.*")}
            found = {name: files[name].read_text("utf-8") for name in texts if name in files}
            texts |= {name: texts[name] + text for name, text in found.items()}
            if "cubin" in files:
                cubins.append(files["cubin"].read_bytes())
                made = cubin_kernels(cubins[-1], path.name)
            else:
                made = amdgcn_kernels(found["amdgcn"], path.name)
            kernels += [_completed(one, row, found.get("ttir", "")) for one in made]
    return Compiled(
        kernels=kernels,
        command=answer["command"],
        versions=answer["versions"],
        cubins=tuple(cubins),
        texts={name: text for name, text in texts.items() if text},
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


def _run(request: Mapping[str, Any], path: Path, folder: Path) -> dict[str, Any]:
    """Return the answer of the process that runs the file."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(folder / "cache")
    environment.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    words: list[str | Path] = [sys.executable, "-P", CHILD, folder]
    code, _, messages = run_tool(words, text=json.dumps(request), environment=environment)
    answer = folder / "answer.json"
    if code or not answer.is_file():
        lines = [one for one in messages.splitlines() if one.strip()]
        said = lines[-1] if lines else f"the process ended with {code}"
        raise InvalidSpecError(
            f"{printable(path.name)} does not compile for {request['target']}:"
            f" {printable(said[:MAX_MESSAGE])}"
        )
    found: dict[str, Any] = json.loads(answer.read_text("utf-8"))
    return found
