"""Public interfaces: names that a package lists under TYPE_CHECKING, loaded when first used."""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from pathlib import Path


def lazy_names(package: str, file: str) -> tuple[object, object, list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package.

    Type checkers and editors read the imports under `if TYPE_CHECKING:` of its `__init__.py`; at
    run time its source is read, and each module is imported when one of its names is first used.

    Args:
        package: Its `__name__`.
        file: Its `__file__`.
    """
    homes = {
        alias.name: node.module
        for block in ast.parse(Path(file).read_bytes()).body
        if isinstance(block, ast.If)
        and isinstance(block.test, ast.Name)
        and block.test.id == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted(homes), sorted(homes)
