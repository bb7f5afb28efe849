"""Small studies, and a sweep in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from perfatlas.files import format_toml

GEMM: Final[dict[str, Any]] = {
    "verb": "kernel gemm",
    "scenario": {"system": "h200_sxm", "n": 4096, "k": 4096},
    "vary": {"m": {"from": 1, "to": 2560, "steps": 2560}},
}
BLOCKS: Final = 10  # of the study GEMM


def write_study(folder: Path, study: dict[str, Any]) -> Path:
    path = folder / "gemm.toml"
    path.write_text(format_toml(study), "utf-8")
    return path


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "perfatlas", *words]


def start(home: Path, *words: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "XDG_DATA_HOME": str(home)}
    return subprocess.Popen(
        command(*words), env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def blocks_of(home: Path) -> dict[str, bytes]:
    """Return the blocks of the only run of a home, by file name."""
    (run,) = (path for path in (home / "perfatlas" / "runs").iterdir() if path.is_dir())
    return {path.name: path.read_bytes() for path in sorted((run / "blocks").glob("*.parquet"))}
