"""Public interfaces: names that a package lists under TYPE_CHECKING, loaded when first used."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

_IMPORT: Final = re.compile(r"^    from (\S+) import (?:\(([^)]*)\)|(.+))$", re.MULTILINE)


def lazy_names(package: str, file: str) -> tuple[object, object, list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package.

    Type checkers and editors read the imports under `if TYPE_CHECKING:` of its `__init__.py`; at
    run time its source is read, and each module is imported when one of its names is first used.

    Args:
        package: Its `__name__`.
        file: Its `__file__`, which lists plain names, without `as` and comments.
    """
    listed = Path(file).read_text(encoding="utf-8").partition("\nif TYPE_CHECKING:\n")[2]
    homes = {
        name.strip(): module
        for module, grid, line in _IMPORT.findall(listed)
        for name in (grid or line).split(",")
        if name.strip()
    }
    if unread := [name for name in homes if not name.isidentifier()]:
        raise SyntaxError(f"{file}: list {unread[0]!r} as a plain name, without `as` or a comment")

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, getattr(import_module(homes[name]), name))
        return vars(sys.modules[package])[name]

    return get, lambda: sorted(homes), sorted(homes)
