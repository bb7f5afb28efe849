"""Tools and libraries of NVIDIA, found on the PATH or in packages of PyPI."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

PIP_CUDA: Final = "pip install 'perfatlas[cuda]'"
PIP_BENCH: Final = "pip install 'perfatlas[bench]'"


def package_folders(name: str) -> list[Path]:
    """Return the folders of an installed package, without importing it.

    Args:
        name: Its top-level name.
    """
    spec = importlib.util.find_spec(name)
    return [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]


def nvidia_files(pattern: str) -> list[Path]:
    """Return files of NVIDIA's packages, those of the newest CUDA first.

    Args:
        pattern: Below the folder of a package, such as "bin/nvdisasm".
    """

    def found() -> Iterator[Path]:
        for folder in package_folders("nvidia"):
            yield from sorted(folder.glob(f"*/{pattern}"), reverse=True)

    return list(found())


def find_nvdisasm() -> Path | None:
    """Return the disassembler: of the PATH, of the `cuda` extra, or the one inside Triton."""
    on_path = shutil.which("nvdisasm")
    if on_path:
        return Path(on_path)
    inside = [path / "backends/nvidia/bin/nvdisasm" for path in package_folders("triton")]
    return next((one for one in (*nvidia_files("bin/nvdisasm"), *inside) if one.is_file()), None)
