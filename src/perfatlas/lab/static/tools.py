"""Tools and libraries of compilers, found on the PATH or in packages of PyPI, and their runs."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PIP_CUDA: Final = "pip install . './lab[cuda]' in the clone"
PIP_BENCH: Final = "pip install . './lab[bench]' in the clone"
MAX_SECONDS: Final = 600  # of a run


def run_tool(
    words: Sequence[str | Path], *, text: str = "", environment: Mapping[str, str] | None = None
) -> tuple[int, str, str]:
    """Return exit code, output and messages of a program.

    Args:
        words: The program and its arguments; no shell reads them.
        environment: Its environment; by default that of perfatlas.

    Raises:
        InvalidSpecError: It does not end in time.
    """
    try:
        done = subprocess.run(  # noqa: S603 - a compiler or disassembler, and no shell
            list(map(str, words)),
            input=text.encode(),
            env=environment,
            capture_output=True,
            timeout=MAX_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as problem:
        raise InvalidSpecError(
            f"{Path(words[0]).name} did not finish within {MAX_SECONDS} s: choose one kernel with"
            " --function, or one target"
        ) from problem
    output, messages = (stream.decode("utf-8", "replace") for stream in (done.stdout, done.stderr))
    return done.returncode, output, messages


def package_folders(name: str) -> list[Path]:
    """Return the folders of an installed package, without importing it."""
    spec = importlib.util.find_spec(name)
    return [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]


def nvidia_files(pattern: str) -> list[Path]:
    """Return files of NVIDIA's packages, those of the newest CUDA first.

    Args:
        pattern: Below the folder of a package, such as "bin/nvdisasm".
    """
    folders = package_folders("nvidia")
    return [
        path for folder in folders for path in sorted(folder.glob(f"*/{pattern}"), reverse=True)
    ]


def find_nvdisasm() -> Path | None:
    """Return the disassembler: of the PATH, of the `cuda` extra, or the one inside Triton."""
    on_path = shutil.which("nvdisasm")
    if on_path:
        return Path(on_path)
    inside = [path / "backends/nvidia/bin/nvdisasm" for path in package_folders("triton")]
    return next(
        (
            nvidia_file
            for nvidia_file in (*nvidia_files("bin/nvdisasm"), *inside)
            if nvidia_file.is_file()
        ),
        None,
    )
