"""The numba versions whose internal classes `direct_way` may use."""

from __future__ import annotations

from typing import Final

import numba

KNOWN: Final = ("0.68.",)  # versions of numba whose answers were compared


def fits(version: str = numba.__version__) -> bool:
    """Return whether the internal classes of this numba version are known."""
    return version.startswith(KNOWN)
