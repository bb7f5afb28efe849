"""What a compiler made of a source for one target."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.lab.static.kernel import Kernel


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """The products of one compilation, or a file that was one.

    Args:
        kernels: Its kernels without instructions of a cubin.
        command: The command or the call that made it.
        versions: Versions of the compilers by name.
        cubins: Cubins.
        texts: Text of other products by the ending of their file names: ptx, ttir, amdgcn.
    """

    kernels: list[Kernel]
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    cubins: tuple[bytes, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
