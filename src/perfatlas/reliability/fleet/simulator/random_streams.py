"""Numbers of the streams of random numbers of a replica."""

from __future__ import annotations

from typing import Final

from perfatlas.compiled import inlined

# Streams of random numbers; those of a cause start at FIRST_OF_CAUSES + 16 x cause.
MERGED_GAP: Final = 0
MERGED_CAUSE: Final = 1
RESTART_PHASE: Final = 2
RESTART_SUCCESS: Final = 3
CHECKPOINT_READ: Final = 4
SPARE_START: Final = 5
BAD_SPARE: Final = 6
RELAPSE: Final = 7
FIRST_OF_CAUSES: Final = 16
FRESH: Final = 0
RENEWED: Final = 1
POSITION: Final = 2
PART: Final = 3
DETECTED: Final = 4
REPAIRED: Final = 5
FIXED: Final = 6
LASTS: Final = 7
LEMON: Final = 8
COUNTED: Final = 9
STRUCK_IDLE: Final = 10
CHOSEN: Final = 11


@inlined
def stream(cause: int, purpose: int) -> int:
    """Return the number of a stream of a cause."""
    return FIRST_OF_CAUSES + 16 * cause + purpose
