"""Names and codes of operator bounds."""

from __future__ import annotations

from typing import Final

BOUND_COMPUTE: Final = 0
BOUND_MEMORY: Final = 1
BOUND_NETWORK: Final = 2
BOUND_LATENCY: Final = 3
# "host" bounds steps, not operators: no operator has its code.
BOUND_NAMES: Final = ("compute", "memory", "network", "latency", "host")
