"""The kernels of gpu_power_kernels.cu, built by nvcc and called through ctypes."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any, Final

SOURCE: Final = Path(__file__).with_name("gpu_power_kernels.cu")
_INT: Final = ctypes.c_int
_POINTER: Final = ctypes.c_void_p
_COUNT: Final = ctypes.c_long
_ARGUMENTS: Final[dict[str, tuple[Any, ...]]] = {
    "prepare": (),
    "tensor_bytes": (),
    "run_nothing": (_POINTER,),
    "run_wait": (_INT, _INT, ctypes.c_uint64, _INT, _INT, _POINTER),
    "run_chase": (
        *(_POINTER, ctypes.c_uint32, ctypes.c_uint32, _COUNT),
        *(_INT, _INT, _POINTER, _POINTER),
    ),
    "run_stream": (
        *(_INT, _POINTER, _POINTER, ctypes.c_size_t, _INT),
        *(_INT, _INT, ctypes.c_uint32, _POINTER, _POINTER),
    ),
    "run_arithmetic": (_INT, _COUNT, ctypes.c_float, _INT, _INT, _POINTER, _POINTER),
    "run_tensor": (_INT, _POINTER, _COUNT, _INT, _POINTER, _POINTER),
}


def build(target: Path, architecture: str = "90a") -> subprocess.Popen[bytes]:
    """Return the running compiler process, so that the GPU can be recorded meanwhile.

    Args:
        target: Shared library to write.
        architecture: Compute capability without the dot; "90a" for Hopper's own instructions.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    words = ["nvcc", "-O3", "-shared", "-Xcompiler", "-fPIC"]
    code = f"arch=compute_{architecture},code=sm_{architecture}"
    return subprocess.Popen([*words, f"-gencode={code}", "-o", str(target), str(SOURCE)])  # noqa: S603 - the compiler on our own source


class Kernels:
    """The launchers of one shared library."""

    def __init__(self, path: Path) -> None:
        """Load the library; the CUDA context must exist."""
        self._library = ctypes.CDLL(str(path))
        for name, arguments in _ARGUMENTS.items():
            getattr(self._library, name).argtypes = arguments
        self.launch("prepare")
        self.tensor_bytes = int(self._library.tensor_bytes())

    def launch(self, name: str, *words: object) -> None:
        """Launch a kernel.

        Args:
            name: Name of the launcher.
            words: Its arguments.

        Raises:
            RuntimeError: The launch failed.
        """
        code = getattr(self._library, name)(*words)
        if code:
            raise RuntimeError(f"{name}: CUDA error {code}")
