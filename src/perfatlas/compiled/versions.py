"""Which versions of the compiler are known well enough to use its inner classes."""

from __future__ import annotations

from typing import Final

import numba

KNOWN: Final = ("0.68.",)  # versions of numba whose answers were compared


def fits(version: str = numba.__version__) -> bool:
    """Return whether the compiler is one whose inner classes are known.

    Args:
        version: Of the compiler.
    """
    return version.startswith(KNOWN)
