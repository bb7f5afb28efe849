"""Names and codes of operator bounds."""

from __future__ import annotations

from typing import Final

BOUND_COMPUTE: Final = 0
BOUND_MEMORY: Final = 1
BOUND_NETWORK: Final = 2
BOUND_LATENCY: Final = 3
# Arithmetic of partly empty output tiles that fill the device, where the roofline is memory.
BOUND_PADDING: Final = 5
# "host" bounds steps, not operators: no operator has its code.
BOUND_NAMES: Final = ("compute", "memory", "network", "latency", "host")
# Position in BOUND_NAMES of the name of each code: padded tiles are computed.
NAMED_BOUNDS: Final = (0, 1, 2, 3, 4, 0)
