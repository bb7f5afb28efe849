"""Kernels of Triton and Gluon, compiled in a process of their own.

Compiling a `.py` file runs it, as importing it would. The process is not a sandbox: it protects
perfatlas from crashes and from settings, not the user from a hostile file.
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
from perfatlas.lab.static.compiled import Compiled
from perfatlas.lab.static.elf import cubin_kernels
from perfatlas.lab.static.tools import PIP_BENCH, run_tool
from perfatlas.quantities import InvalidSpecError, MissingDependencyError, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.lab.static.kernel import Kernel

CHILD: Final = Path(__file__).with_name("triton_process.py")
MAX_MESSAGE: Final = 600  # characters
ASKED: Final = {
    "asks_specialization": ("tt.warp_specialize", "warp_specialize("),
    "asks_scaled_mma": ("tt.dot_scaled",),
    "asks_mma": ("tt.dot",),
}


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
    request = {
        "path": str(path.resolve()),
        "target": target,
        "function": function,
        "options": dict(options),
    }
    with tempfile.TemporaryDirectory() as folder:
        answer = _run(request, path, Path(folder))
        kernels: list[Kernel] = []
        cubins: list[bytes] = []
        texts: dict[str, str] = {}
        for row in answer["kernels"]:
            files = {one.suffix[1:]: one for one in Path(folder).glob(f"{row['file']}.*")}
            if "cubin" in files:
                cubins.append(files["cubin"].read_bytes())
                found = cubin_kernels(cubins[-1], path.name)
            else:
                found = amdgcn_kernels(files["amdgcn"].read_text("utf-8"), path.name)
            for ending in ("ttir", "ptx", "amdgcn"):
                if ending in files:
                    texts[ending] = texts.get(ending, "") + files[ending].read_text("utf-8")
            ir = files["ttir"].read_text("utf-8") if "ttir" in files else ""
            kernels += [_completed(one, row, ir) for one in found]
    return Compiled(
        kernels=kernels,
        command=answer["command"],
        versions=answer["versions"],
        cubins=tuple(cubins),
        texts=texts,
    )


def _completed(kernel: Kernel, row: Mapping[str, Any], ir: str) -> Kernel:
    """Return a kernel with what Triton decides at launch, and what its source asks for."""
    return replace(
        kernel,
        shared_memory_bytes=row["shared"],
        shared_is_static=False,
        threads=kernel.threads or row["threads"],
        tensor_memory_columns=kernel.tensor_memory_columns if row["tmem"] is None else row["tmem"],
        **{name: any(word in ir for word in words) for name, words in ASKED.items()},
    )


def _run(request: Mapping[str, Any], path: Path, folder: Path) -> dict[str, Any]:
    """Return the answer of the process that runs the file."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(folder / "cache")}
    environment.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    words = [sys.executable, "-P", CHILD, folder]
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
