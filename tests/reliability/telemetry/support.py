from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

import pytest

from perfatlas.reliability.telemetry.reading import FileCounts

_ROOT: Final = Path(__file__).parents[3]


def shared(name: str) -> Path:
    """Return a file of PERFATLAS_SHARED_DATA/traces/reliability, or skip by its name."""
    data = Path(os.environ.get("PERFATLAS_SHARED_DATA", _ROOT.parent / "shared" / "data"))
    path = data / "traces" / "reliability" / name
    if not path.exists():
        pytest.skip(f"no {path}; PERFATLAS_SHARED_DATA names the folder of data")
    return path


def check_law(files: tuple[FileCounts, ...]) -> None:
    """Assert that every line of every file is accounted for."""
    assert files
    for file in files:
        told = file.parsed + sum(file.merged.values()) + sum(file.ignored.values())
        assert told == file.total, file.text()
        for counts in (file.merged, file.ignored, file.repaired):
            assert set(counts) <= set(file.first)
            assert all(n > 0 for n in counts.values())


def lines(tmp_path: Path, *objects: object, name: str = "log.jsonl") -> Path:
    """Write objects as JSON Lines."""
    path = tmp_path / name
    path.write_text("".join(f"{json.dumps(one)}\n" for one in objects), "utf-8")
    return path


def written(path: Path, *rows: str) -> Path:
    """Write lines."""
    path.write_text("\n".join(rows) + "\n", "utf-8")
    return path
