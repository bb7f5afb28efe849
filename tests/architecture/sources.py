"""Sources of the repository, parsed once for all tests of a process."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    gc.disable()  # trees are kept: looking for garbage among them takes longer than parsing
    try:
        return ast.parse(path.read_bytes())
    finally:
        gc.enable()
